// Package task is `trellis task`: commands that make and change task directories by hand.
package task

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// tasks implements the commands that make and change task directories by hand.
type tasks struct{ *command.Console }

// Command returns `trellis task`: changes of task directories by hand, by scripts and by agents.
// All are safe to call at the same time. validate is its subcommand that checks a task.
func Command(a *command.Console, validate *cli.Command) *cli.Command {
	cmd := tasks{a}
	return &cli.Command{
		Name:  "task",
		Usage: "create and edit task directories by hand",
		Subcommands: slices.Concat(
			[]*cli.Command{cmd.createCommand(), cmd.readyCommand()},
			cmd.contextCommands(),
			[]*cli.Command{validate},
			cmd.setCommands(),
			cmd.linkCommands(),
			[]*cli.Command{cmd.archiveCommand(), cmd.removeCommand(), cmd.showCommand()},
		),
	}
}

func (cmd tasks) readyCommand() *cli.Command {
	return &cli.Command{
		Name:      "ready",
		Usage:     "check a task written by hand, and set it ready",
		ArgsUsage: "TASKDIR",
		Description: command.Manual(`A watcher picks up ready tasks. If anything is missing, it is shown and the directory is left unchanged.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound}, "trellis task ready 02-01-auth"),
		Action: cmd.ForTask(cmd.ready),
	}
}

func (cmd tasks) ready(c *cli.Context, p *app.Project, dir string) error {
	t, err := p.Store.Load(dir)
	if err != nil {
		return err
	}
	if t.Status != trellis.Planning && t.Status != trellis.Ready {
		command, err := p.Next(c.Context, dir)
		return errors.Join(err, app.WithHints(app.Usagef("%s is %s, and only a task in planning is set ready so", t.ID, t.Status.InWords()), command))
	}
	in := p.Readiness(dir)
	in.Status = trellis.Ready
	problems, err := ready.Check(c.Context, in)
	if err != nil {
		return err
	}
	cmd.PrintProblems(problems)
	if len(trellis.Errors(problems)) > 0 {
		return app.AsKind(app.ErrUnmet, fmt.Errorf("%s is not ready", t.ID))
	}
	if t.Status == trellis.Ready {
		cmd.Say("%s is ready already", t.ID)
		return nil
	}
	_, err = p.Store.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.KeepRevision()
		e.Set("status", trellis.Ready)
		return nil
	})
	if err != nil {
		return err
	}
	cmd.Say("%s is ready: a running watcher picks it up; next: trellis start %s", t.ID, trellis.ShellWord(t.ID))
	return nil
}

func (cmd tasks) archiveCommand() *cli.Command {
	return &cli.Command{
		Name:      "archive",
		Usage:     "move a finished task to the archive",
		ArgsUsage: "TASKDIR",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "force", Usage: "complete a task in review even if nothing shows that its work was merged"}},
		Description: command.Manual(`Moves the directory to .trellis/tasks/archive/YYYY-MM. This completes a task in review if its work is
in the base branch, or you say that it is. A task that is running, waiting or paused is not moved.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitNotFound, command.ExitLocked}, "trellis task archive 02-01-auth"),
		Action: func(c *cli.Context) error {
			return cmd.GuardedFor(c.Context, hooks.AfterArchive, func() error { return cmd.ForTask(cmd.archive)(c) })
		},
	}
}

func (cmd tasks) archive(c *cli.Context, p *app.Project, dir string) error {
	if yes, err := cmd.mayArchive(c, p, dir); err != nil || !yes {
		return err
	}
	to, err := p.Orders().Archive(dir)
	if err != nil {
		return err
	}
	cmd.Report(p.Hook(c.Context, hooks.AfterArchive, to))
	_, err = fmt.Fprintln(cmd.Stdout, p.Store.Rel(to))
	return err
}

// mayArchive reports whether a task may be archived. Archiving completes a task in review, so its
// work has to be merged, unless --force is given or a person agrees.
func (cmd tasks) mayArchive(c *cli.Context, p *app.Project, dir string) (bool, error) {
	t, err := p.Store.Load(dir)
	if err != nil || t.Status != trellis.Review || c.Bool("force") {
		return err == nil, err
	}
	cfg, err := p.ValidConfig()
	if err != nil {
		return false, err
	}
	l, err := p.Cleaner(cfg).LookAt(c.Context, dir)
	if err != nil || l.Proof != "" || l.Branch == "" && t.Commit == "" { // made by hand, without work
		return err == nil, err
	}
	said := fmt.Sprintf("%s is in review, and its work is not merged: %s", t.ID, l.Why)
	if !cmd.CanAsk() {
		return false, app.WithHints(app.AsKind(app.ErrUnmet, errors.New(said)), app.MergeCommand(p, t), "trellis status --refresh, when it was merged elsewhere", "trellis task archive "+trellis.ShellWord(t.ID)+" --force, to complete it all the same")
	}
	cmd.Say("%s", said)
	return cmd.Confirm("complete it all the same?")
}

func (cmd tasks) removeCommand() *cli.Command {
	return &cli.Command{
		Name:      "rm",
		Usage:     "remove a task directory that has no work yet",
		ArgsUsage: "TASKDIR",
		Description: command.Manual(`Removes a task that is in planning, rejected, or ready and never ran, or the folder of a planner that is
gone, after a backup of its contents; trellis undo restores it. Cancel or archive a task with work on a branch instead.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound, command.ExitLocked}, "trellis task rm 02-01-auth"),
		Action: cmd.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			if ref := c.Args().First(); strings.HasPrefix(filepath.Base(ref), taskdir.DraftPrefix) && !strings.HasPrefix(filepath.Base(dir), taskdir.DraftPrefix) {
				return app.WithHints(app.Usagef("%s is planned by now, as %s, which was not named", filepath.Base(ref), filepath.Base(dir)), "trellis status "+trellis.ShellWord(filepath.Base(dir)))
			}
			restore, err := p.Orders().Remove(c.Context, dir)
			if err == nil {
				cmd.Say("%s is removed; it comes back with: trellis undo, or later: %s", filepath.Base(dir), restore)
			}
			return err
		}),
	}
}

func (cmd tasks) showCommand() *cli.Command {
	return &cli.Command{
		Name:        "show",
		Usage:       "show a task, its files and its status",
		ArgsUsage:   "TASKDIR",
		Flags:       []cli.Flag{command.JSONFlag()},
		Description: command.Manual(`Shows the same as trellis status TASKDIR, and the files of its directory.`, []int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis task show 02-01-auth"),
		Action: cmd.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			t, err := app.TaskStatus(c.Context, p, dir)
			if err != nil {
				return err
			}
			return cmd.Print(c.Bool("json"), t, func() error {
				if err := cmd.ShowTask(c.Context, p, dir, t); err != nil {
					return err
				}
				return terminal.Files(cmd.Stdout, dir)
			})
		}),
	}
}
