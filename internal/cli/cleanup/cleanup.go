// Package cleanup is `trellis cleanup`: it shows what tasks left in the repository, and removes it.
package cleanup

import (
	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// Command returns `trellis cleanup`.
func Command(console *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "cleanup",
		Usage:     "list what tasks left behind, and remove what was merged",
		ArgsUsage: "[TASKDIR]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "merged", Usage: "remove worktree and branch of every task whose work is in its base"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only show what would be done"},
			&cli.BoolFlag{Name: "force", Usage: "do not ask; work that is not in the base is still saved, backups are not"},
			&cli.BoolFlag{Name: "backups", Usage: "list the backups instead"},
			&cli.BoolFlag{Name: "runs", Usage: "delete what runs of completed and archived tasks left in run/, beyond runs.keep and runs.size"},
			&cli.StringFlag{Name: "older", Usage: "with --backups, delete those older than `D`, such as 30d or 12h"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Without --merged and without a task it removes nothing: it lists worktrees and branches, and completes
tasks in review whose work is in the base branch. With a task, its worktree and branch are removed, merged or not.
Work that is not in the base is saved first under refs/trellis/backup: commits, and staged, unstaged and
untracked changes in the worktree. Ignored files are not saved. A task that is running, waiting or paused is left alone.
If nobody can be asked, unmerged work and backups are kept unless --force is given.
--runs deletes the records of what agents were told and did in old runs; journals, approvals, proofs and reports are kept.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitNotFound, command.ExitLocked}, "trellis cleanup", "trellis cleanup --merged", "trellis cleanup 02-01-auth --dry-run", "trellis cleanup --backups --older 30d", "trellis cleanup --runs --dry-run"),
		Action: func(c *cli.Context) error {
			o := options{c.Args().First(), c.Bool("merged"), c.Bool("backups"), c.Bool("runs"), c.Bool("dry-run"), c.Bool("force"), c.Bool("json"), c.String("older")}
			if err := o.check(); err != nil {
				return err
			}
			if err := console.RequirePerson("clean up"); err != nil {
				return err
			}
			p, err := console.Open(c.Context)
			if err != nil {
				return err
			}
			cfg, _ := p.Config() // listing and deleting backups does not use the settings
			if !o.backups {
				if cfg, err = p.ValidConfig(); err != nil {
					return err
				}
			}
			cmd := &call{console, p, p.Cleaner(cfg), o}
			switch {
			case o.runs:
				return cmd.cleanRuns(cfg.Runs)
			case o.backups:
				return cmd.cleanBackups(c.Context)
			}
			return cmd.cleanTasks(c.Context)
		},
	}
}

type options struct {
	task                                       string
	merged, backups, runs, dryRun, force, json bool
	older                                      string
}

// check returns a usage error for flags that exclude each other.
func (o options) check() error {
	switch {
	case o.runs && (o.merged || o.backups):
		return app.Usagef("--runs can't be combined with --merged or --backups: run one after the other")
	case o.backups && o.merged:
		return app.Usagef("--backups can't be combined with --merged: run one after the other")
	case o.older != "" && !o.backups:
		return app.Usagef("--older says which backups to delete: add --backups")
	}
	return nil
}

// call is one call of `trellis cleanup`.
type call struct {
	*command.Console
	project *app.Project
	cleaner *cleanup.Cleaner
	options
}
