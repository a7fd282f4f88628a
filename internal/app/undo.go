package app

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// UndoEntry is something that a person had done to a task and can undo.
type UndoEntry struct {
	Kind   UndoKind       `json:"kind"`
	Task   string         `json:"task"` // the directory's name at that time
	At     time.Time      `json:"at"`
	Brings string         `json:"brings"`           // what undoing it restores
	Blocks string         `json:"blocks,omitempty"` // why it can't be undone now; "" if it can
	Was    trellis.Status `json:"was,omitempty"`    // the task's status before

	Outcome   trellis.Outcome     `json:"outcome,omitempty"`   // before the task was cancelled
	Ran       bool                `json:"ran,omitempty"`       // a run was in progress when the task was cancelled
	Completed string              `json:"completed,omitempty"` // the day of completion before the task was archived
	Archived  string              `json:"archived,omitempty"`  // its path in the archive, relative to the top of the repository
	Parent    string              `json:"parent,omitempty"`    // parent of a removed task
	Commit    string              `json:"commit,omitempty"`    // commit with the directory of a removed task
	Taken     *cleanup.Restorable `json:"taken,omitempty"`     // what cleanup removed
}

// UndoKind is the name of the command that was run.
type UndoKind string

// The commands that can be undone.
const (
	Cancelled UndoKind = "cancel"
	Archived  UndoKind = "archive"
	Removed   UndoKind = "rm"
	CleanedUp UndoKind = "cleanup"
)

// Undo reverts what people had done to tasks. Deeds are recorded in a file in git's folder, where no commit writes; whether a
// deed is still in effect and can be undone is checked in the tasks, the archive and the backups themselves.
type Undo struct{ p *Project }

// Undo returns the undo of the project.
func (p *Project) Undo() Undo { return Undo{p} }

// maxDeeds is the maximum number of deeds that are kept, the latest ones.
const maxDeeds = 100

const undoFile = "trellis/undo.jsonl"

// record records a deed. An earlier deed of the same kind and task can't be undone any more.
func (u Undo) record(d UndoEntry) error {
	if err := u.p.Store.Disk.MkdirAll(filepath.Join(u.p.Repo.Common, filepath.Dir(undoFile)), 0o700); err != nil {
		return err
	}
	d.At = u.p.Env.Now().UTC().Truncate(time.Second)
	return u.change(d, func(list []UndoEntry) []UndoEntry {
		list = append(list, d)
		return list[max(0, len(list)-maxDeeds):]
	})
}

// forget removes a deed from the file.
func (u Undo) forget(d UndoEntry) error {
	return u.change(d, func(list []UndoEntry) []UndoEntry { return list })
}

func (u Undo) change(d UndoEntry, with func([]UndoEntry) []UndoEntry) error {
	err := u.p.Store.Disk.Edit(filepath.Join(u.p.Repo.Common, undoFile), func(data []byte) ([]byte, error) {
		list := slices.DeleteFunc(parseDeeds(data), func(was UndoEntry) bool { return was.Kind == d.Kind && was.Task == d.Task })
		var b bytes.Buffer
		for _, deed := range with(list) {
			line, err := json.Marshal(deed)
			if err != nil {
				return nil, err
			}
			b.Write(append(line, '\n'))
		}
		return b.Bytes(), nil
	})
	if err != nil {
		return fmt.Errorf("remembering what can be undone: %w", err)
	}
	return nil
}

// parseDeeds returns the deeds in data, skipping lines that can't be read.
func parseDeeds(data []byte) (list []UndoEntry) {
	for line := range bytes.Lines(data) {
		var d UndoEntry
		if json.Unmarshal(line, &d) == nil && d.Task == filepath.Base(d.Task) && d.Task != "." && d.Task != ".." {
			list = append(list, d)
		}
	}
	return list
}

// List returns the deeds that are still in effect, the latest first.
func (u Undo) List(ctx context.Context) (list []UndoEntry, err error) {
	data, err := durable.ReadBelow(u.p.Repo.Common, undoFile, durable.MaxRecords)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, d := range parseDeeds(data) {
		inEffect, err := u.inspect(ctx, &d)
		if err != nil {
			return nil, err
		}
		if inEffect {
			list = append(list, d)
		}
	}
	slices.Reverse(list)
	return list, nil
}

func (u Undo) dir(d UndoEntry) string { return filepath.Join(u.p.Store.Tasks(), d.Task) }

// inspect sets what a deed would restore and what blocks that, and reports whether the deed is still in effect.
func (u Undo) inspect(ctx context.Context, d *UndoEntry) (inEffect bool, err error) {
	d.Blocks = ""
	_, dirErr := os.Lstat(u.dir(*d))
	switch d.Kind {
	case Cancelled:
		t, err := u.p.Store.Load(u.dir(*d))
		d.Brings = "the task as " + string(d.Was)
		if d.needsRun() {
			d.Brings = "the task, to resume with the work done so far"
		}
		return err == nil && t.Status == trellis.Cancelled, nil
	case Archived:
		d.Brings = fmt.Sprintf("%s, as %s", u.p.Store.Rel(u.dir(*d)), d.Was)
		if dirErr == nil {
			d.Blocks = u.p.Store.Rel(u.dir(*d)) + " is there: another task has its name"
		}
		_, archivedErr := os.Lstat(filepath.Join(u.p.Root, d.Archived))
		month := filepath.Dir(filepath.Join(u.p.Root, d.Archived))
		return archivedErr == nil && filepath.Dir(month) == filepath.Join(u.p.Store.Tasks(), "archive"), nil
	case Removed:
		d.Brings = u.p.Store.Rel(u.dir(*d))
		if dirErr == nil {
			d.Blocks = d.Brings + " is there: another task has its name"
		}
		return u.hasCommit(ctx, d.Commit)
	case CleanedUp:
		return u.inspectCleanup(ctx, d)
	}
	return false, nil
}

// needsRun reports whether undoing a cancellation needs another run, as the one that was in progress has ended.
func (d UndoEntry) needsRun() bool { return d.Was == trellis.InProgress || d.Ran }

func (u Undo) hasCommit(ctx context.Context, commit string) (bool, error) {
	if commit == "" {
		return false, nil
	}
	_, err := u.p.Repo.Refs().TreeAt(ctx, commit)
	return err == nil, ctx.Err()
}

func (u Undo) inspectCleanup(ctx context.Context, d *UndoEntry) (bool, error) {
	if d.Taken == nil || d.Taken.Branch == "" {
		return false, nil
	}
	d.Brings = "branch " + d.Taken.Branch
	if d.Taken.Worktree != "" {
		d.Brings += " and worktree " + ShortPath(u.p.Root, d.Taken.Worktree)
		if _, err := os.Lstat(d.Taken.Worktree); err == nil {
			d.Blocks = ShortPath(u.p.Root, d.Taken.Worktree) + " is there"
		}
	}
	if err := u.p.Repo.Refs().BranchFree(ctx, d.Taken.Branch); err != nil {
		d.Blocks = err.Error()
	}
	if _, err := u.p.Store.Load(u.dir(*d)); err != nil {
		d.Blocks = "the task is not in " + u.p.Store.Rel(u.p.Store.Tasks())
	}
	for _, commit := range []string{d.Taken.Tip, d.Taken.Saved} {
		if there, err := u.hasCommit(ctx, commit); commit != "" && !there {
			return false, err
		}
	}
	return true, nil
}

// Revert undoes a deed.
func (u Undo) Revert(ctx context.Context, d UndoEntry) (done OrderResult, err error) {
	if d.Blocks != "" {
		return done, WithHints(AsKind(ErrUnmet, fmt.Errorf("%s of %s can't be undone: %s", d.Kind, d.Task, d.Blocks)), "trellis undo --list")
	}
	dir := u.dir(d)
	switch d.Kind {
	case Cancelled:
		if d.needsRun() {
			done, err = u.p.Orders().Retry(ctx, dir, false)
			break
		}
		done, err = u.uncancel(ctx, d)
	case Archived:
		_, err = u.p.Store.Unarchive(filepath.Join(u.p.Root, d.Archived), d.Task, d.Was, d.Completed)
	case Removed:
		err = u.unremove(ctx, d)
	case CleanedUp:
		cfg, problem := u.p.ValidConfig()
		if problem != nil {
			return done, problem
		}
		err = u.p.Cleaner(cfg).Restore(ctx, dir, *d.Taken)
	}
	if err != nil {
		return done, err
	}
	if done.Says == "" {
		done = u.p.Orders().orderResult(dir, "brought back: "+d.Brings, "")
		done.Next, _ = u.p.Next(ctx, dir) // there is none for a task that can't be read
	}
	return done, u.forget(d)
}

func (u Undo) uncancel(ctx context.Context, d UndoEntry) (OrderResult, error) {
	dir := u.dir(d)
	_, err := u.p.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status != trellis.Cancelled {
			return Usagef("%s is %s by now", t.ID, t.Status.InWords())
		}
		e.RestoreStatus(d.Was)
		e.Set("pipeline.outcome", d.Outcome)
		return nil
	})
	if err != nil {
		return OrderResult{}, err
	}
	next, _ := u.p.Next(ctx, dir)
	return u.p.Orders().orderResult(dir, d.Task+" is "+d.Was.InWords()+" again", next), nil
}

// unremove restores the directory of a task in one rename.
func (u Undo) unremove(ctx context.Context, d UndoEntry) error {
	runtime, err := u.p.RuntimeDir()
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp(runtime, "undo-")
	if err != nil {
		return fmt.Errorf("undoing rm of %s: %w", d.Task, err)
	}
	defer os.RemoveAll(temp)
	rel := filepath.ToSlash(u.p.Store.Rel(u.dir(d)))
	if err := snapshot.NewBackups(u.p.Repo).ExportFolder(ctx, d.Commit, rel, temp); err != nil {
		return err
	}
	if err := u.p.Store.Disk.Rename(filepath.Join(temp, rel), u.dir(d)); err != nil {
		return err
	}
	if d.Parent == "" {
		return nil
	}
	parent := filepath.Join(u.p.Store.Tasks(), filepath.Base(d.Parent))
	if _, err := os.Lstat(parent); err != nil {
		return nil // the parent is gone as well
	}
	return u.p.Store.AddSubtask(parent, u.dir(d))
}

// recordCancel records the state of a task that is about to be cancelled.
func (u Undo) recordCancel(dir string) {
	t, err := u.p.Store.Load(dir)
	if err != nil || t.Status == trellis.Cancelled || filepath.Dir(dir) != u.p.Store.Tasks() {
		return
	}
	_, ran := runner.Held(dir)
	u.warn(u.record(UndoEntry{Kind: Cancelled, Task: t.ID, Was: t.Status, Outcome: t.Pipeline.Outcome, Ran: ran}))
}

// warn prints why something can't be undone later; the command itself has succeeded all the same.
func (u Undo) warn(err error) {
	if err != nil {
		u.p.Env.say("%v", err)
	}
}

// Archive moves a task to the archive, and returns its new path. A task whose run may go on has to be cancelled first.
func (o Orders) Archive(dir string) (to string, err error) {
	p := o.p
	was, loadErr := p.Store.Load(dir)
	to, err = p.Store.Archive(dir)
	if unfinished, ok := errors.AsType[*taskdir.UnfinishedError](err); ok {
		return "", WithHints(AsKind(ErrUnmet, err), "trellis cancel "+trellis.ShellWord(unfinished.ID), "trellis task archive "+trellis.ShellWord(unfinished.ID))
	}
	if err != nil || loadErr != nil || to == dir {
		return to, err
	}
	p.Undo().warn(p.Undo().record(UndoEntry{Kind: Archived, Task: was.ID, Was: was.Status, Completed: was.CompletedAt, Archived: p.Store.Rel(to)}))
	return to, nil
}

// RemoveWorktree removes the worktree and branch of a task.
func (o Orders) RemoveWorktree(ctx context.Context, c *cleanup.Cleaner, dir string, merged bool) (cleanup.Removal, error) {
	p := o.p
	done, err := c.Remove(ctx, dir, merged)
	if err != nil || done.Branch == "" {
		return done, err
	}
	taken, noteErr := done.Restorable(ctx, p.Repo)
	if noteErr == nil {
		noteErr = p.Undo().record(UndoEntry{Kind: CleanedUp, Task: done.ID, Was: done.Status, Taken: &taken})
	}
	p.Undo().warn(noteErr)
	return done, nil
}
