package taskdir

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// AddSubtask links the task in child to the one in parent, both ways. A child has one parent, and no task is its own
// descendant. A link that exists already, or is half made after a crash, is completed.
func (s Store) AddSubtask(parent, child string) error {
	parentID, childID := filepath.Base(parent), filepath.Base(child)
	if err := (subtaskLinks{s}).checkCycle(parent, childID); err != nil {
		return err
	}
	if _, err := s.Load(parent); err != nil {
		return err
	}
	_, err := s.Update(child, func(t *Task, e *Edit) error {
		if t.Parent != "" && t.Parent != parentID {
			return fmt.Errorf("%s is a subtask of %s already: remove it there first", childID, t.Parent)
		}
		e.KeepRevision()
		e.Set("parent", parentID)
		return nil
	})
	if err != nil {
		return err
	}
	return subtaskLinks{s}.editChildren(parent, func(list []string) []string {
		if slices.Contains(list, childID) {
			return list
		}
		return append(list, childID)
	})
}

// subtaskLinks adds the links between parents and children to a store.
type subtaskLinks struct{ Store }

// checkCycle returns an error if child is parent or one of its ancestors.
func (s subtaskLinks) checkCycle(parent, child string) error {
	for seen := []string{}; parent != ""; {
		id := filepath.Base(parent)
		if id == child {
			return fmt.Errorf("%s can't be its own subtask, directly or through others", child)
		}
		t, err := s.Load(parent)
		if err != nil || t.Parent == "" || slices.Contains(seen, id) {
			return nil // a broken ancestor doesn't matter to this link
		}
		seen = append(seen, id)
		parent = filepath.Join(s.Tasks(), filepath.Base(t.Parent))
	}
	return nil
}

// RemoveSubtask undoes AddSubtask. A link that is only half there is removed as well; if there is none, it returns an error.
func (s Store) RemoveSubtask(parent, child string) error {
	parentID, childID := filepath.Base(parent), filepath.Base(child)
	p, err := s.Load(parent)
	if err != nil {
		return err
	}
	c, err := s.Load(child)
	if err != nil {
		return err
	}
	if c.Parent != parentID && !slices.Contains(p.Children, childID) {
		return fmt.Errorf("%s is not a subtask of %s", childID, parentID)
	}
	err = subtaskLinks{s}.editChildren(parent, func(list []string) []string {
		return slices.DeleteFunc(list, func(id string) bool { return id == childID })
	})
	if err != nil {
		return err
	}
	return subtaskLinks{s}.unlinkParent(child, parentID) // last, since a repeated call finds the link by it
}

// unlinkParent removes the parent from the task in child if it is parentID.
func (s subtaskLinks) unlinkParent(child, parentID string) error {
	_, err := s.Update(child, func(t *Task, e *Edit) error {
		if t.Parent == parentID {
			e.KeepRevision()
			e.Set("parent", nil)
		}
		return nil
	})
	return err
}

func (s subtaskLinks) editChildren(dir string, edit func([]string) []string) error {
	_, err := s.Update(dir, func(t *Task, e *Edit) error {
		e.KeepRevision()
		if list := edit(slices.Clone(t.Children)); !slices.Equal(list, t.Children) {
			e.Set("children", list)
		}
		return nil
	})
	return err
}

// CompleteParents completes the parent of the completed task in dir if that was the last of its children, then the parent's
// parent and so on, and returns their directory names. A parent whose own run is in progress is left to that run.
func (s Store) CompleteParents(dir string) (completed []string, err error) {
	for {
		t, err := s.Load(dir)
		if err != nil || t.Parent == "" || t.Status != trellis.Completed {
			return completed, err
		}
		parent := filepath.Join(s.Tasks(), filepath.Base(t.Parent))
		done, err := subtaskLinks{s}.completeParent(parent)
		if errors.Is(err, ErrNotFound) {
			return completed, nil // archived, or never existed
		}
		if err != nil || !done {
			return completed, err
		}
		completed = append(completed, filepath.Base(parent))
		dir = parent
	}
}

func (s subtaskLinks) completeParent(dir string) (done bool, err error) {
	if durable.Held(filepath.Join(dir, RunLock)) {
		return false, nil
	}
	_, err = s.Update(dir, func(t *Task, e *Edit) error {
		if t.Status == trellis.Completed || t.Status == trellis.Cancelled || len(t.Children) == 0 {
			return nil
		}
		for _, child := range t.Children {
			if !s.isCompleted(child) {
				return nil
			}
		}
		e.Set("status", trellis.Completed)
		e.Set("completedAt", s.Clock().Format(time.DateOnly))
		done = true
		return nil
	})
	return done, err
}

// Completed returns how many of a task's children are completed, archived ones included: the progress of a parent.
func (s Store) Completed(t *Task) (n int) {
	for _, child := range t.Children {
		if (subtaskLinks{s}).isCompleted(child) {
			n++
		}
	}
	return n
}

// isCompleted reports whether the task with that directory name is completed, live or archived.
func (s subtaskLinks) isCompleted(id string) bool {
	dirs, _ := s.archivedDirs(id) // an archive that can't be listed counts as without completed tasks
	for _, dir := range append(dirs, filepath.Join(s.Tasks(), id)) {
		if t, err := s.Load(dir); err == nil && t.Status == trellis.Completed {
			return true
		}
	}
	return false
}
