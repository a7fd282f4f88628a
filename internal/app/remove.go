package app

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Remove removes the directory of a task that no work was done for, and returns the command that restores it.
func (o Orders) Remove(ctx context.Context, dir string) (restore string, err error) {
	p := o.p
	if filepath.Dir(dir) != p.Store.Tasks() {
		return "", Usagef("%s is archived, and an archive keeps what it has", filepath.Base(dir))
	}
	if _, err := o.openToRemove(ctx, dir); err != nil {
		return "", err
	}
	if _, err := p.Store.RunDir(dir); err != nil {
		return "", err
	}
	lock, err := runlock.Take(dir, p.Env.Now()) // prevents runs from beginning meanwhile
	if err != nil {
		return "", err
	}
	defer lock.Unlock()
	t, err := o.openToRemove(ctx, dir)
	if err != nil {
		return "", err
	}
	if t != nil && t.Parent != "" {
		if err := p.Store.RemoveSubtask(filepath.Join(p.Store.Tasks(), t.Parent), dir); err != nil && !errors.Is(err, taskdir.ErrNotFound) {
			return "", err
		}
	}
	saved, err := cleanup.Backups{Store: p.Store, Repo: p.Repo}.SaveTask(ctx, dir)
	if err != nil {
		return "", err
	}
	if err := o.deleteDir(dir); err != nil {
		return "", err
	}
	gone := UndoEntry{Kind: Removed, Task: filepath.Base(dir), Commit: saved.Commit}
	if t != nil {
		gone.Was, gone.Parent = t.Status, t.Parent
	}
	p.Undo().warn(p.Undo().record(gone))
	return saved.Restore, nil
}

// openToRemove returns the task in dir, nil if it can't be read, or an error if it may not be removed.
func (o Orders) openToRemove(ctx context.Context, dir string) (*taskdir.Task, error) {
	t, err := o.p.Store.Load(dir)
	if problem := (*trellis.Problem)(nil); err != nil && !errors.As(err, &problem) {
		return nil, err
	}
	if t == nil {
		return nil, nil
	}
	work, err := o.hasWork(ctx, t)
	if err != nil || !work && slices.Contains([]trellis.Status{trellis.Planning, trellis.Rejected, trellis.Ready}, t.Status) {
		return t, err
	}
	where := ""
	if work {
		where = " and has work on its branch"
	}
	next := []string{"trellis task archive " + trellis.ShellWord(t.ID)}
	if t.Status != trellis.Cancelled && trellis.Move(t.Status, trellis.Cancelled) == nil {
		next = append([]string{"trellis cancel " + trellis.ShellWord(t.ID)}, next...)
	}
	return nil, WithHints(Usagef("%s is %s%s: what ran is put away, not removed", t.ID, t.Status.InWords(), where), next...)
}

// hasWork reports whether a task has begun and has a branch or a worktree.
func (o Orders) hasWork(ctx context.Context, t *taskdir.Task) (bool, error) {
	p := o.p
	if t.Pipeline.BaseCommit == "" {
		return false, nil
	}
	tip, err := p.Repo.Refs().Branch(ctx, t.BranchName())
	return tip != "" || p.Worktree(t) != "", err
}

// deleteDir moves a task directory away in one rename and then deletes it, so that nobody sees half of one.
func (o Orders) deleteDir(dir string) error {
	p := o.p
	runtime, err := p.RuntimeDir()
	if err != nil {
		return err
	}
	gone, err := os.MkdirTemp(runtime, "removed-")
	if err != nil {
		return fmt.Errorf("removing %s: %w", p.Store.Rel(dir), err)
	}
	if err := p.Store.Disk.Rename(dir, filepath.Join(gone, filepath.Base(dir))); err != nil {
		return errors.Join(err, os.Remove(gone))
	}
	return os.RemoveAll(gone)
}
