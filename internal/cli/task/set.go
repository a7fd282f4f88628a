package task

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// setter is a command that changes one field of a task.json.
type setter struct {
	name, argument, field string
	usage, text, example  string
	check                 func(ctx context.Context, p *app.Project, dir, value string) error
}

func (cmd tasks) setCommands() []*cli.Command {
	var list []*cli.Command
	for _, s := range []setter{
		{"set-branch", "BRANCH", "branch", "set the branch for the work",
			"The branch is created when the task starts, and can't be changed during a run. Existing work stays on the old one, and trellis retry --fresh begins on the new one. A branch that is checked out, or another task's, is refused.", "feature/login", checkBranch},
		{"set-base-branch", "BRANCH", "base_branch", "set the branch that the work starts from and is meant for",
			"The branch must exist. It can't be changed after the task started, except after trellis retry --fresh, or if the previous one was renamed or deleted.", "main", checkBaseBranch},
		{"set-scope", "SCOPE", "scope", "set the scope in the commit's subject, as in feat(SCOPE): title",
			"SCOPE is one word of letters, digits, dots, dashes, underscores and slashes.", "auth", checkScope},
	} {
		list = append(list, cmd.setCommand(s))
	}
	return list
}

func (cmd tasks) setCommand(s setter) *cli.Command {
	return &cli.Command{
		Name: s.name, Usage: s.usage, ArgsUsage: "TASKDIR " + s.argument,
		Description: command.Manual(s.text, []int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis task "+s.name+" 02-01-auth "+s.example),
		Action: cmd.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			value := c.Args().Get(1)
			if err := s.check(c.Context, p, dir, value); err != nil {
				return err
			}
			return p.Gate.RecordEdit(dir, taskdir.TaskJSON, func() (before, after []byte, err error) {
				if after, err = json.Marshal(map[string]string{s.field: value}); err != nil {
					return nil, nil, err
				}
				return []byte("{}"), after, s.set(c.Context, p, dir, value)
			})
		}),
	}
}

// checkChangeable returns an error if the task has begun and can't be given the value any more. The branch can be
// changed while no run is under way: the next run does not take over the work on another branch, and
// begins afresh if it is asked to. A base branch that no longer exists can be changed at any time.
func (s setter) checkChangeable(ctx context.Context, p *app.Project, dir string, t *taskdir.Task, value string) error {
	if s.field == "scope" || t.Pipeline.BaseCommit == "" {
		return nil
	}
	done, copied := app.WorkSoFar(p.Store, dir)
	if s.field == "branch" && done.Begun && !done.Fresh && value == done.Branch {
		return nil // restores the branch after an edit by hand
	}
	if base, err := p.Repo.Refs().Find(ctx, t.BaseBranch); s.field == "base_branch" && (err != nil || base == "") {
		return err
	}
	next := []string{"trellis retry " + trellis.ShellWord(t.ID) + " --fresh"}
	switch rests := slices.Contains([]trellis.Status{trellis.Ready, trellis.Failed, trellis.Cancelled}, t.Status); {
	case s.field == "branch" && !rests && !copied, s.field == "base_branch" && !done.Fresh:
		err := app.Usagef("%s has begun on branch %s: its %s can't change any more", t.ID, t.Branch, strings.ReplaceAll(s.field, "_", " "))
		if rests || t.Status == trellis.Paused {
			err = app.WithHints(err, append(next, "trellis task "+s.name+" "+trellis.ShellWord(t.ID)+" "+trellis.ShellWord(value))...)
		}
		return err
	case s.field == "branch" && done.Begun && !done.Fresh && value != done.Branch:
		p.Env.Say("warning: the work so far is on %s, and stays there", done.Branch)
		p.Env.Say("next: %s", next[0])
	}
	return nil
}

func (s setter) set(ctx context.Context, p *app.Project, dir, value string) error {
	_, err := p.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if err := s.checkChangeable(ctx, p, dir, t, value); err != nil {
			return err
		}
		e.KeepRevision()
		e.Set(s.field, value)
		return nil
	})
	return err
}

func checkBranch(ctx context.Context, p *app.Project, dir, branch string) error {
	if err := git.CheckBranchName(branch); err != nil {
		return app.AsKind(app.ErrUsage, err)
	}
	entries, err := p.Store.List()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.Task != nil && e.Dir != dir && e.Task.BranchName() == branch && e.Task.Status != trellis.Completed && e.Task.Status != trellis.Rejected {
			return app.Usagef("branch %s belongs to task %s", branch, e.ID)
		}
	}
	err = ready.CheckBranch(ctx, p.Readiness(dir), branch)
	switch taken := (*git.BranchError)(nil); {
	case !errors.As(err, &taken):
		return err
	case taken.Tip != "": // a person can give the branch to the task
		p.Env.Say("warning: %v", taken)
		p.Env.Say("next: trellis start %s --adopt-branch if it is this task's", trellis.ShellWord(filepath.Base(dir)))
		return nil
	}
	return app.AsKind(app.ErrUsage, err)
}

func checkBaseBranch(ctx context.Context, p *app.Project, _, branch string) error {
	if err := git.CheckBranchName(branch); err != nil {
		return app.AsKind(app.ErrUsage, err)
	}
	tip, err := p.Repo.Refs().Branch(ctx, branch)
	if err != nil {
		return err
	}
	if tip == "" {
		return app.WithHints(app.Usagef("there is no branch %s", branch), "git branch --list")
	}
	return nil
}

func checkScope(_ context.Context, _ *app.Project, _, scope string) error {
	ok := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._/-", r)
	}
	if scope == "" || strings.IndexFunc(scope, func(r rune) bool { return !ok(r) }) >= 0 {
		return app.Usagef("the scope %q is not one word of letters, digits, dots, dashes, underscores and slashes", scope)
	}
	return nil
}

// linkCommands returns the commands that make a task part of another, or undo that.
func (cmd tasks) linkCommands() []*cli.Command {
	link := func(name, usage, text string, change func(taskdir.Store) func(parent, child string) error) *cli.Command {
		return &cli.Command{
			Name: name, Usage: usage, ArgsUsage: "TASKDIR SUBTASKDIR",
			Description: command.Manual(text, []int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis task "+name+" 02-01-auth 02-02-login-form"),
			Action: cmd.ForTask(func(c *cli.Context, p *app.Project, parent string) error {
				child, err := p.Find(c.Args().Get(1))
				if err != nil {
					return err
				}
				for _, dir := range []string{parent, child} {
					if filepath.Dir(dir) != p.Store.Tasks() {
						return app.Usagef("%s is archived", filepath.Base(dir))
					}
				}
				err = change(p.Store)(parent, child)
				if err != nil && command.ExitCode(err) == command.ExitFailed { // an impossible link is a usage error
					err = app.AsKind(app.ErrUsage, err)
				}
				return err
			}),
		}
	}
	return []*cli.Command{
		link("add-subtask", "make the second task a subtask of the first", "A task is completed when the last of its subtasks is completed.",
			func(s taskdir.Store) func(string, string) error { return s.AddSubtask }),
		link("remove-subtask", "make the second task independent again", "Both tasks are kept; only the link between them is removed.",
			func(s taskdir.Store) func(string, string) error { return s.RemoveSubtask }),
	}
}
