package cleanup

import (
	"context"
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// cleanTasks shows what tasks left, and removes it if the call asks for that.
func (cmd *call) cleanTasks(ctx context.Context) error {
	r := report{root: cmd.project.Root}
	list, err := cmd.selectedTasks(ctx, &r)
	if err != nil {
		return err
	}
	for _, l := range list {
		r.add(l)
	}
	if !cmd.dryRun {
		if r.Completed, err = cmd.cleaner.Completer().CompleteMerged(ctx, list); err != nil {
			return err
		}
		for i, l := range list {
			r.Tasks[i].Status = l.Status
		}
	}
	var problem error
	if (cmd.task != "" || cmd.merged) && !cmd.dryRun {
		if problem, err = cmd.remove(ctx, list, &r); err != nil {
			return err
		}
	}
	for _, id := range r.Completed {
		cmd.Say("%s is completed: its work was merged", id)
	}
	if cmd.json {
		err = terminal.JSON(cmd.Stdout, r.complete())
	} else {
		err = r.print(cmd.Stdout, cmd.options)
	}
	return errors.Join(err, problem)
}

// selectedTasks returns the tasks that the call is about.
func (cmd *call) selectedTasks(ctx context.Context, r *report) (list []cleanup.Leftover, err error) {
	if cmd.task == "" {
		list, r.Orphans, err = cmd.cleaner.Look(ctx)
		return list, err
	}
	dir, err := cmd.project.Find(cmd.task)
	if err != nil {
		return nil, err
	}
	l, err := cmd.cleaner.LookAt(ctx, dir)
	return []cleanup.Leftover{l}, err
}

// remove removes what may be removed. problem is why a named task was kept; if all are meant, reasons are only printed.
func (cmd *call) remove(ctx context.Context, list []cleanup.Leftover, r *report) (problem, err error) {
	if yes, problem := cmd.confirmTasks(list); problem != nil || !yes {
		return problem, nil
	}
	for i, l := range list {
		if cmd.task == "" && (l.Proof == "" || l.Keeps != "") || l.Nothing() {
			continue
		}
		done, err := cmd.project.Orders().RemoveWorktree(ctx, cmd.cleaner, l.Dir, cmd.merged)
		r.Completed = append(r.Completed, done.Completed...)
		var kept *cleanup.KeptError
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
			r.recordRemoval(i, done)
		}
		if err != nil && cmd.task == "" {
			cmd.Say("%s: %v", l.ID, err)
			err = app.Quiet(app.ErrFailed)
		}
		if problem == nil {
			problem = err
		}
	}
	return problem, nil
}

// confirmTasks asks on a terminal whether to remove worktrees and branches. Without one, unmerged work needs --force.
func (cmd *call) confirmTasks(list []cleanup.Leftover) (bool, error) {
	var names []string
	unmerged := ""
	for _, l := range list {
		if l.Nothing() || l.Keeps != "" || l.Proof == "" && cmd.merged {
			continue
		}
		said := l.ID + " (" + text.Bytes(l.Size()) + ")"
		if l.Proof == "" {
			said += ", which is not merged: " + l.Why + "; a backup is made first"
			unmerged = l.ID
		}
		var lost []string
		for _, t := range l.Trees {
			lost = append(lost, t.Ignored...)
		}
		if len(lost) > 0 {
			said += ", with files that git ignores and no backup has: " + text.JoinFirst(lost, 5)
		}
		names = append(names, said)
	}
	if len(names) == 0 || cmd.force {
		return true, nil
	}
	switch {
	case cmd.CanAsk():
	case unmerged == "":
		return true, nil
	default:
		err := fmt.Errorf("%s is not merged, and there is no terminal to ask on: it stays", unmerged)
		return false, app.WithHints(app.AsKind(app.ErrUnmet, err), "trellis cleanup "+trellis.ShellWord(unmerged)+" --dry-run", "trellis cleanup "+trellis.ShellWord(unmerged)+" --force")
	}
	for _, name := range names {
		cmd.Say("worktree and branch of %s", name)
	}
	return cmd.Confirm("remove them?")
}
