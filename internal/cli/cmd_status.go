package cli

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func statusCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "status",
		Usage:     "show the status of one task, or of all unfinished ones",
		ArgsUsage: "[TASKDIR|RUN]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "refresh", Usage: "first ask the remote about the tasks in review"}, command.JSONFlag()},
		Description: command.Manual(`Reads only from disk; nothing needs to be running. --refresh fetches the base branch and asks gh or GitLab
about pull requests: a merged task is completed, one whose pull request was closed is cancelled. If checks failed or
reviewers ask for changes, delivery.react begins a run to fix that, which a watcher or trellis start continues;
without it, this is only reported. --json prints one task as an object like those of trellis list, all tasks as a list of
them.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis status", "trellis status --refresh", "trellis status 02-01-auth --json"),
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				p, err := a.Open(c.Context)
				if err == nil && c.Bool("refresh") {
					err = refreshTasks(c.Context, a, p, "")
				}
				if err != nil {
					return err
				}
				return statusOfAll(c.Context, a, p, c.Bool("json"))
			}
			p, dir, isRun, err := a.TaskOrRun(c)
			if err == nil && isRun {
				return statusOfRun(a, c, p, dir)
			}
			if err == nil && c.Bool("refresh") {
				err = refreshTasks(c.Context, a, p, dir)
			}
			if err != nil {
				return err
			}
			return statusOf(c.Context, a, p, dir, c.Bool("json"))
		},
	}
}

func statusOfRun(a *command.Console, c *cli.Context, p *app.Project, dir string) error {
	if c.Bool("refresh") {
		return app.Usagef("--refresh asks about tasks: %s is a run", filepath.Base(dir))
	}
	r, err := status.ReadRun(dir, a.Now())
	if err != nil {
		return err
	}
	r.Dir = p.Store.Rel(dir)
	return a.Print(c.Bool("json"), r, func() error { return terminal.ShowRun(a.Stdout, r) })
}

func statusOf(ctx context.Context, a *command.Console, p *app.Project, dir string, asJSON bool) error {
	t, err := app.TaskStatus(ctx, p, dir)
	if err != nil {
		return err
	}
	return a.Print(asJSON, t, func() error { return a.ShowTask(ctx, p, dir, t) })
}

func isClosed(s trellis.Status) bool {
	return s == trellis.Completed || s == trellis.Cancelled || s == trellis.Rejected
}

func statusOfAll(ctx context.Context, a *command.Console, p *app.Project, asJSON bool) error {
	tasks, err := p.Reader().Tasks(status.Filter{})
	if err != nil {
		return err
	}
	open := []status.Task{}
	for _, t := range tasks {
		if !isClosed(t.Status) {
			open = append(open, t)
		}
	}
	if asJSON {
		return terminal.JSON(a.Stdout, open)
	}
	for _, line := range watcherLines(a, p) {
		a.Say("%s", line)
	}
	sayRuns(ctx, a, p)
	if len(open) == 0 {
		a.Say("no task is open")
		a.Say("next: trellis plan 'what is wanted'")
		return nil
	}
	return terminal.Table(a.Stdout, open, a.Style(a.Stdout), a.Now())
}

// sayRuns prints the runs of files that are not over. A person who closed the terminal finds their ids nowhere else.
func sayRuns(ctx context.Context, a *command.Console, p *app.Project) {
	cfg, _ := p.Config() // errors in the settings don't hide a run
	for _, dir := range p.Wire(ctx, cfg, p).FileRunner().Dirs() {
		switch r, err := status.ReadRun(dir, a.Now()); {
		case err != nil:
			a.Say("%v", err)
			for _, hint := range app.HintsOf(err) {
				a.Say("next: %s", hint)
			}
		case !r.HasEnded():
			a.Say("run %s of %s is %s; next: %s", r.ID, filepath.Base(r.File), r.Status, r.Next())
		}
	}
}

// watcherLines reports whether a watcher runs in this repository, and its state.
func watcherLines(a *command.Console, p *app.Project) []string {
	s := pulse.Look(p.Root, a.Now())
	switch {
	case !s.Alive:
		return []string{"no watcher is running; next: trellis watch"}
	case s.Holder.PID == 0:
		return []string{"a watcher is running"}
	}
	lines := []string{fmt.Sprintf("a watcher is running on %s, process %d, since %s", s.Holder.Host, s.Holder.PID, s.Holder.Since.Local().Format("2006-01-02 15:04"))}
	b := s.Beat
	if s.Hangs {
		lines[0] += fmt.Sprintf(", and hangs: no output for %v", a.Now().Sub(s.Last).Round(time.Second))
		lines = append(lines, fmt.Sprintf("next: kill %d && trellis watch", s.Holder.PID))
	} else if b.PID != 0 {
		lines[0] += fmt.Sprintf("; %d of %d at work, %d waiting", len(b.Running), b.Parallel, len(b.Waiting))
	}
	if b.Error != nil {
		lines = append(lines, fmt.Sprintf("its last trouble, at %s: %s", b.Error.At.Local().Format("2006-01-02 15:04"), b.Error.Text))
	}
	return lines
}

// refreshTasks brings the status of the tasks in review, or only of the task in dir, up to date with their
// remotes, and begins runs for what is wrong with their pull requests. It prints what could not be asked.
func refreshTasks(ctx context.Context, a *command.Console, p *app.Project, dir string) error {
	site, err := p.SiteForOrders(ctx)
	if err != nil {
		return err
	}
	done, reacted, err := site.PullRequests().Refresh(ctx, dir)
	for _, note := range append(done.Notes, reacted.Notes...) {
		a.Say("%s", note)
	}
	for _, id := range done.Completed {
		a.Say("%s is completed: its work was merged", id)
	}
	for _, id := range done.Cancelled {
		a.Say("%s is cancelled: its pull request was closed without a merge; its worktree and branch stay", id)
	}
	_, watched := site.Starter().Watcher()
	for i, dir := range reacted.Begun {
		id := filepath.Base(dir)
		a.Say("%s continues, because its pull request needs work: %s", id, reacted.Why[i])
		if !watched {
			a.Say("next: trellis start %s", trellis.ShellWord(id))
		}
	}
	return err
}
