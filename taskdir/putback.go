package taskdir

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Project sets the status of a task that a run holds. While it does, the journal is the truth and the status
// its projection: what an old buffer of an editor or a git checkout wrote over it is put right, so the move
// is not checked against the table.
func (e *Edit) Project(status trellis.Status) { e.force(status, "projecting") }

// PutBack gives a task the status that it had before a person called it off or put it away. It leads where Set does not.
func (e *Edit) PutBack(status trellis.Status) { e.force(status, "putting back") }

func (e *Edit) force(status trellis.Status, doing string) {
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

// Unarchive undoes Archive: it moves the task in dir of the archive to the place of its name, gives it the status and the day
// of completion that it had, and has those name it again that did. A name that is taken is an *ExistsError, and nothing is
// changed.
func (s Store) Unarchive(dir, id string, status trellis.Status, completedAt string) (to string, err error) {
	if to, err = (archiver{s}).moveBack(dir, id); err != nil {
		return "", fmt.Errorf("taking %s out of the archive: %w", id, err)
	}
	t, err := s.Update(to, func(t *Task, e *Edit) error {
		e.KeepRevision()
		if t.Status != status {
			e.PutBack(status)
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

// afterMoveBack mends what afterMove changed for a task that was in the archive as from.
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
