package taskdir

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// SetFromJournal sets the status of a task that a run holds. Until it ends, the journal is authoritative, and the status its
// projection: a stale value from an editor or a git checkout is corrected, so the transition is not checked.
func (e *Edit) SetFromJournal(status trellis.Status) { e.forceStatus(status, "projecting") }

// RestoreStatus restores the status that a task had before a person cancelled or archived it, by transitions that Set refuses.
func (e *Edit) RestoreStatus(status trellis.Status) { e.forceStatus(status, "putting back") }

func (e *Edit) forceStatus(status trellis.Status, doing string) {
	if e.err != nil {
		return
	}
	raw, err := encodeFor("status", status)
	if err == nil {
		_, err = trellis.ParseStatus(string(status))
	}
	if err == nil {
		err = e.set("status", raw)
	}
	if err != nil {
		e.err = fmt.Errorf("%s the status: %w", doing, err)
	}
}

// Unarchive undoes Archive: it moves the task in the archive directory dir back to its name, restores its status and completion
// day, and restores the references of other tasks to it. If the name is taken, the error is an *ExistsError and nothing is
// changed.
func (s Store) Unarchive(dir, id string, status trellis.Status, completedAt string) (to string, err error) {
	if to, err = (archiver{s}).moveBack(dir, id); err != nil {
		return "", fmt.Errorf("taking %s out of the archive: %w", id, err)
	}
	t, err := s.Update(to, func(t *Task, e *Edit) error {
		e.KeepRevision()
		if t.Status != status {
			e.RestoreStatus(status)
			e.Set("completedAt", completedAt)
		}
		return nil
	})
	if err == nil {
		err = archiver{s}.afterMoveBack(t, dir)
	}
	if err != nil {
		return to, fmt.Errorf("taking %s out of the archive: %w", id, err)
	}
	return to, nil
}

func (s archiver) moveBack(dir, id string) (to string, err error) {
	lock, err := runlock.Take(dir, s.Clock())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	to = filepath.Join(s.Tasks(), id)
	if durable.Exists(to) {
		return "", &ExistsError{ID: id, Dir: to}
	}
	return to, s.Disk.Rename(dir, to)
}

// afterMoveBack reverts the changes of afterMove for a task that was in the archive as from.
func (s archiver) afterMoveBack(t *Task, from string) error {
	if err := s.fixContext(t.Dir, from); err != nil {
		return err
	}
	for _, child := range t.Children {
		dir := filepath.Join(s.Tasks(), filepath.Base(child))
		if !durable.Exists(dir) {
			continue
		}
		_, err := s.Update(dir, func(c *Task, e *Edit) error {
			e.KeepRevision()
			if c.Parent == "" {
				e.Set("parent", t.ID)
			}
			return nil
		})
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if was := filepath.Base(from); was != t.ID {
		return s.renameEverywhere(was, t.ID)
	}
	return nil
}
