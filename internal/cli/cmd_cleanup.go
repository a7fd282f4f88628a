package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// cleanupCommand is `trellis cleanup`.
func (a *console) cleanupCommand() *cli.Command {
	return &cli.Command{
		Name:      "cleanup",
		Usage:     "show what tasks left, and take away what was merged",
		ArgsUsage: "[TASKDIR]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "merged", Usage: "take away worktree and branch of every task whose work is in its base"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only say what would be done"},
			&cli.BoolFlag{Name: "force", Usage: "ask nothing; what is not in the base is saved all the same, backups are not"},
			&cli.BoolFlag{Name: "backups", Usage: "show the backups instead"},
			&cli.BoolFlag{Name: "runs", Usage: "delete what runs of completed and archived tasks left below run/, beyond runs.keep and runs.size"},
			&cli.StringFlag{Name: "older", Usage: "with --backups, delete those older than `D`, as in 30d or 12h"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Without --merged and without a task it removes nothing: it lists worktrees and branches, and completes
tasks in review whose work is in the base branch. With a task, its worktree and branch go, merged or not.
What is not in the base then is saved first, under refs/trellis/backup: commits, and what is staged, not staged and
untracked in the worktree. Files that git ignores are not saved. A task that runs, waits or is paused is left alone.
Where nobody can be asked, work that is not merged and backups stay unless --force is given.
With --runs, what agents were told and did in old runs is deleted; journals, approvals, proofs and reports stay.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitNotFound, command.ExitLocked}, "trellis cleanup", "trellis cleanup --merged", "trellis cleanup 02-01-auth --dry-run", "trellis cleanup --backups --older 30d", "trellis cleanup --runs --dry-run"),
		Action: func(c *cli.Context) error {
			o := cleanupOptions{c.Args().First(), c.Bool("merged"), c.Bool("dry-run"), c.Bool("force"), c.Bool("json"), c.String("older")}
			switch {
			case c.NArg() > 1:
				return command.WrongArguments(c)
			case c.Bool("runs") && (o.merged || c.Bool("backups")):
				return app.Usagef("--runs and --merged or --backups are two things")
			case c.Bool("backups") && o.merged:
				return app.Usagef("--backups and --merged are two things")
			case o.older != "" && !c.Bool("backups"):
				return app.Usagef("--older says which backups to delete: add --backups")
			}
			if _, inside := proc.InsideRun(a.Env); inside {
				return app.Usagef("this runs inside a task or a run: only a person can clean up")
			}
			p, err := a.Open(c.Context)
			if err != nil {
				return err
			}
			cfg, err := p.ValidConfig()
			if err != nil {
				return err
			}
			clean := p.Cleaner(cfg)
			if c.Bool("runs") {
				return a.cleanRuns(p, clean, o)
			}
			if c.Bool("backups") {
				return a.backups(c.Context, p, clean, o)
			}
			return a.cleanup(c.Context, p, clean, o)
		},
	}
}

type cleanupOptions struct {
	task                        string
	merged, dryRun, force, json bool
	older                       string
}

func (a *console) cleanup(ctx context.Context, p *app.Project, clean *delivery.Cleaner, o cleanupOptions) error {
	r := cleanupReport{root: p.Root, dryRun: o.dryRun}
	list, err := a.toClean(ctx, p, clean, o, &r)
	if err != nil {
		return err
	}
	for _, l := range list {
		r.add(l)
	}
	if !o.dryRun {
		if r.Completed, err = clean.Settle(ctx, list); err != nil {
			return err
		}
		for i, l := range list {
			r.Tasks[i].Status = l.Status
		}
	}
	var problem error
	if (o.task != "" || o.merged) && !o.dryRun {
		if problem, err = a.takeAway(ctx, clean, o, list, &r); err != nil {
			return err
		}
	}
	for _, id := range r.Completed {
		a.Say("%s is completed: its work was merged", id)
	}
	if o.json {
		err = terminal.JSON(a.Stdout, r.document())
	} else {
		err = r.print(a.Stdout, o)
	}
	return errors.Join(err, problem)
}

// toClean are the tasks that a call is about.
func (a *console) toClean(ctx context.Context, p *app.Project, clean *delivery.Cleaner, o cleanupOptions, r *cleanupReport) (list []delivery.Leftover, err error) {
	if o.task == "" {
		list, r.orphans, err = clean.Look(ctx)
		return list, err
	}
	dir, err := p.Find(o.task)
	if err != nil {
		return nil, err
	}
	l, err := clean.LookAt(ctx, dir)
	return []delivery.Leftover{l}, err
}

// takeAway removes what may be removed. With a task that was named, why it is left is a problem; else it is shown.
func (a *console) takeAway(ctx context.Context, clean *delivery.Cleaner, o cleanupOptions, list []delivery.Leftover, r *cleanupReport) (problem, err error) {
	if yes, problem := a.agreed(o, list); problem != nil || !yes {
		return problem, nil
	}
	for i, l := range list {
		if o.task == "" && (l.Proof == "" || l.Keeps != "") || l.Nothing() {
			continue
		}
		done, err := clean.Remove(ctx, l.Dir, o.merged)
		r.Completed = append(r.Completed, done.Completed...)
		var kept *delivery.KeptError
		switch {
		case errors.As(err, &kept):
			r.Tasks[i].Error, err = kept.Why, app.WithHints(app.AsKind(app.ErrUnmet, err), kept.Hint)
		case errors.Is(err, durable.ErrHeld):
			r.Tasks[i].Error = err.Error()
		case err != nil && ctx.Err() != nil:
			return nil, err
		case err != nil:
			r.Tasks[i].Error = err.Error()
		default:
			r.removed(i, done)
		}
		if err != nil && o.task == "" {
			a.Say("%s: %v", l.ID, err)
			err = app.Quiet(app.ErrFailed)
		}
		if problem == nil {
			problem = err
		}
	}
	return problem, nil
}

// agreed asks on a terminal whether to take away what is in the list.
func (a *console) agreed(o cleanupOptions, list []delivery.Leftover) (bool, error) {
	var names []string
	unmerged := ""
	for _, l := range list {
		if l.Nothing() || l.Keeps != "" || l.Proof == "" && o.merged {
			continue
		}
		text := l.ID + " (" + size(l.Size()) + ")"
		if l.Proof == "" {
			text += ", which is not merged: " + l.Why + "; a backup is made first"
			unmerged = l.ID
		}
		if lost := ignoredIn(l); lost != "" {
			text += ", with files that git ignores and no backup has: " + lost
		}
		names = append(names, text)
	}
	if len(names) == 0 || o.force {
		return true, nil
	}
	if !a.CanAsk() {
		return unmerged == "", unasked(unmerged)
	}
	for _, name := range names {
		a.Say("worktree and branch of %s", name)
	}
	return a.Confirm("remove them?")
}

// unasked is why a task whose work is not merged is left when nobody can be asked.
func unasked(id string) error {
	if id == "" {
		return nil
	}
	return app.WithHints(app.AsKind(app.ErrUnmet, fmt.Errorf("%s is not merged, and nobody is here to be asked: it stays", id)), "trellis cleanup "+id+" --dry-run", "trellis cleanup "+id+" --force")
}

// backups lists backups, or deletes the old ones.
func (a *console) backups(ctx context.Context, p *app.Project, clean *delivery.Cleaner, o cleanupOptions) error {
	task := ""
	if o.task != "" {
		task = filepath.Base(o.task) // the task itself may be gone
		if dir, err := p.Find(o.task); err == nil {
			task = filepath.Base(dir)
		}
	}
	list, err := clean.Backups(ctx, task)
	if err != nil {
		return err
	}
	if o.older == "" {
		return a.showBackups(list, o)
	}
	age, err := days(o.older)
	if err != nil {
		return err
	}
	list = clean.Older(list, age)
	if o.dryRun || len(list) == 0 {
		return a.showBackups(list, o)
	}
	question := fmt.Sprintf("delete %s for good?", command.Count(len(list), "backup"))
	switch {
	case o.force:
	case !a.CanAsk():
		return app.WithHints(app.AsKind(app.ErrUnmet, errors.New("backups are deleted for good, and nobody is here to be asked: they stay")), "trellis cleanup --backups --older "+o.older+" --force")
	default:
		if yes, err := a.Confirm(question); err != nil || !yes {
			return err
		}
	}
	if list, err = a.prune(ctx, clean, list); err != nil {
		return err
	}
	return a.showBackups(list, o)
}

// prune deletes backups for good. Those that are others by now stay, and are not in the list that is left.
func (a *console) prune(ctx context.Context, clean *delivery.Cleaner, list []delivery.Backup) (deleted []delivery.Backup, err error) {
	for _, b := range list {
		var moved *git.MovedError
		switch err := clean.Prune(ctx, b); {
		case errors.As(err, &moved):
			a.Say("%v; it stays", err)
			continue
		case err != nil:
			return deleted, err
		}
		a.Say("deleted %s; until git gc it comes back with: git update-ref %s %s", b.Ref, b.Ref, b.Commit)
		b.Restore = strings.TrimSuffix(b.Restore, b.Ref) + b.Commit // the name is gone
		deleted = append(deleted, b)
	}
	return deleted, nil
}

// days is a length of time, in days or as Go writes it.
func days(text string) (time.Duration, error) {
	if n, ok := strings.CutSuffix(text, "d"); ok {
		if d, err := strconv.ParseUint(n, 10, 16); err == nil {
			return time.Duration(d) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, app.Usagef("--older %q is no length of time, as 30d and 12h are", text)
	}
	return d, nil
}
