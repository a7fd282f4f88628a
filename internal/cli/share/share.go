// Package share has submit and pull, which give tasks to the machines that share a git remote, and bring back their results.
package share

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
)

// SubmitCommand returns trellis submit.
func SubmitCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "submit", Usage: "submit a task to the machines that share this repository's tasks", ArgsUsage: "TASKDIR", Flags: []cli.Flag{&cli.BoolFlag{Name: "withdraw", Usage: "remove it from the remote instead, if no machine is working on it"}, command.JSONFlag()},
		Description: command.Manual(`Sends the task directory to the remote in shared.remote, or the one given to trellis watch --shared here. The
first watching machine with a free slot runs it, which can be this one. Later changes are sent by
another trellis submit, or by a watcher here. trellis pull fetches the results.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound, command.ExitLocked}, "trellis submit 02-03-paging", "trellis submit 02-03-paging --withdraw"),
		Action: a.ForTask(func(c *cli.Context, p *app.Project, dir string) error { return runSubmit(a, c, p, dir) })}
}

func runSubmit(a *command.Console, c *cli.Context, p *app.Project, dir string) error {
	if err := a.RequirePerson("submit"); err != nil {
		return err
	}
	t, err := teamOf(c.Context, a, p)
	if err != nil {
		return err
	}
	done := submitResult{Task: filepath.Base(dir), Withdrawn: c.Bool("withdraw")}
	said := "is known to the team as it is; next: trellis pull"
	if done.Withdrawn {
		said = "is taken off " + t.Remote.Name + ", and stays here"
		err = t.Withdraw(c.Context, dir)
	} else if done.News, err = t.Submit(c.Context, dir); done.News {
		said = "is given to the team; next: trellis pull"
	}
	if err != nil {
		return err
	}
	return a.Print(c.Bool("json"), done, func() error {
		a.Say("%s %s", done.Task, said)
		return nil
	})
}

// teamOf returns this checkout as a member of the team that shares the tasks of a project. Its messages are printed.
func teamOf(ctx context.Context, a *command.Console, p *app.Project) (*app.Team, error) {
	s, err := p.Site(ctx)
	if err != nil {
		return nil, err
	}
	t, err := app.SharingOf(p).Team(s)
	if err != nil {
		return nil, err
	}
	t.Tell = func(_, message string) { a.Say("%s", message) }
	return t, nil
}

// submitResult is the result of a submission, as JSON.
type submitResult struct {
	Task      string `json:"task"`
	News      bool   `json:"news"` // the team did not have it in this state
	Withdrawn bool   `json:"withdrawn"`
}

// PullCommand returns trellis pull.
func PullCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "pull", Usage: "fetch what other machines did for this repository's tasks",
		Flags: []cli.Flag{&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "continue until interrupted"}, command.JSONFlag()},
		Description: command.Manual(`Writes what other machines did to the task directories here, without their worktrees; list, status,
logs, board and ui show it. A task that another machine holds can't be changed here; trellis approve, reject, stop and
cancel ask that machine. The changed directories go to stdout, one per line.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitInterrupted}, "trellis pull", "trellis pull --follow"),
		Action: a.ForProject(func(c *cli.Context, p *app.Project) error { return pull(a, c, p) })}
}

// pull brings what other machines did into the task directories here, and prints the directories that changed.
func pull(a *command.Console, c *cli.Context, p *app.Project) error {
	t, err := teamOf(c.Context, a, p)
	if err != nil {
		return err
	}
	if c.Bool("follow") {
		return pullContinuously(c.Context, a, p, t, c.Bool("json"))
	}
	changed, unbrought := t.Pull(c.Context)
	if unbrought != nil && !errors.As(unbrought, new(*app.NotUpdatedError)) {
		return unbrought
	}
	names := []string{}
	for _, dir := range changed {
		names = append(names, p.Store.Rel(dir))
	}
	slices.Sort(names)
	err = a.Print(c.Bool("json"), pullResult{names}, func() error {
		for _, name := range names {
			if err := a.Result(name); err != nil {
				return err
			}
		}
		a.Say("%s changed", text.Count(len(names), "task"))
		return nil
	})
	return cmp.Or(err, unbrought)
}

// pullResult is the result of a pull, as JSON.
type pullResult struct {
	Changed []string `json:"changed"` // directories of tasks
}

// pullContinuously brings what other machines do until ctx ends, or its output can't be written.
func pullContinuously(ctx context.Context, a *command.Console, p *app.Project, t *app.Team, asJSON bool) error {
	following, end := context.WithCancelCause(ctx)
	defer end(nil)
	t.Mirror(following, func(dir string) {
		name := p.Store.Rel(dir)
		show := func() error { return a.Result(name) }
		if asJSON {
			show = func() error { return terminal.JSONLine(a.Stdout, pullResult{[]string{name}}) }
		}
		if err := show(); err != nil {
			end(err)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return context.Cause(following)
}
