package taskdir

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Archive moves the task in dir to archive/YYYY-MM and returns its new directory. A task in review becomes completed. Rows of
// its context files that name its own files are adapted; its children lose their parent; it stays in its parent's list, which
// counts it. If the archive already has that name, it gets a suffix, and the tasks that refer to it are updated.
//
// A task that runs (*durable.HeldError), waits or is paused (*UnfinishedError) is refused. Archiving an archived task repeats
// the steps after the move, in case they were interrupted.
func (s Store) Archive(dir string) (string, error) {
	id := filepath.Base(dir)
	if strings.HasPrefix(id, DraftPrefix) {
		return "", fmt.Errorf("archiving %s: it is still being planned", id)
	}
	if filepath.Dir(dir) != s.Tasks() {
		return dir, archiver{s}.completeMove(dir, id)
	}
	to, err := archiver{s}.move(dir)
	if err != nil {
		return "", fmt.Errorf("archiving %s: %w", id, err)
	}
	return to, archiver{s}.completeMove(to, id)
}

// UnfinishedError is the error for a task that is not archived because its run may go on.
type UnfinishedError struct {
	ID     string
	Status trellis.Status
}

func (e *UnfinishedError) Error() string { return "it is " + string(e.Status) }

// archiver moves tasks to the archive of a store, and updates the references to them.
type archiver struct{ Store }

// completeMove does the steps after the move of the task that was id to the archive, as far as they are not done yet.
func (s archiver) completeMove(to, id string) error {
	if err := s.afterMove(to, id); err != nil {
		return fmt.Errorf("archiving %s: %w", id, err)
	}
	_, err := s.CompleteParents(to)
	return err
}

// move completes and moves a task. It holds the run lock, so that no run begins meanwhile.
func (s archiver) move(dir string) (to string, err error) {
	if _, err := s.Load(dir); err != nil {
		return "", err
	}
	if _, err := s.RunDir(dir); err != nil {
		return "", err
	}
	lock, err := runlock.Take(dir, s.Clock())
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if err := s.complete(dir); err != nil {
		return "", err
	}
	month := filepath.Join(s.Tasks(), archiveName, s.Clock().Format("2006-01"))
	if err := s.Disk.MkdirAll(month, 0o755); err != nil {
		return "", err
	}
	return s.moveTo(dir, month)
}

// complete checks that the task may be archived, and completes it if it is in review.
func (s archiver) complete(dir string) error {
	_, err := s.Update(dir, func(t *Task, e *Edit) error {
		switch t.Status {
		case trellis.InProgress:
			if _, err := os.Lstat(filepath.Join(dir, Journal)); errors.Is(err, fs.ErrNotExist) {
				return nil // done by hand, or with another tool
			}
			fallthrough
		case trellis.Waiting, trellis.Paused:
			return &UnfinishedError{t.ID, t.Status}
		case trellis.Review:
			e.Set("status", trellis.Completed)
			e.Set("completedAt", s.Clock().Format(time.DateOnly))
		}
		return nil
	})
	return err
}

func (s archiver) moveTo(dir, month string) (string, error) {
	id := filepath.Base(dir)
	for i := 1; ; i++ {
		name := id
		if i > 1 {
			name = fmt.Sprintf("%s-%d", id, i)
		}
		taken, err := s.archivedDirs(name)
		if err != nil {
			return "", err
		}
		if len(taken) > 0 {
			continue
		}
		to := filepath.Join(month, name)
		if err := s.Disk.Rename(dir, to); !errors.Is(err, fs.ErrExist) {
			return to, err
		}
	}
}

// afterMove updates the references to the task that was id and is now in dir.
func (s archiver) afterMove(dir, id string) error {
	t, err := s.Load(dir)
	if err != nil {
		return err
	}
	if err := s.fixContext(dir, filepath.Join(s.Tasks(), id)); err != nil {
		return err
	}
	for _, child := range t.Children {
		err := subtaskLinks{s.Store}.unlinkParent(filepath.Join(s.Tasks(), filepath.Base(child)), id)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if t.ID == id {
		return nil
	}
	return s.renameEverywhere(id, t.ID)
}

// renameEverywhere changes the directory name in the live tasks that refer to it. Tasks that can't be read are left unchanged.
func (s archiver) renameEverywhere(from, to string) error {
	entries, err := s.List()
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if t := entry.Task; entry.Err != nil || !slices.Contains(t.Children, from) && !slices.Contains(t.Pipeline.DependsOn, from) && t.Pipeline.StackedOn != from {
			continue
		}
		_, err := s.Update(entry.Dir, func(t *Task, e *Edit) error {
			e.KeepRevision()
			if t.Pipeline.StackedOn == from {
				e.Set("pipeline.stacked_on", to)
			}
			for field, list := range map[string][]string{"children": t.Children, "pipeline.depends_on": t.Pipeline.DependsOn} {
				if i := slices.Index(list, from); i >= 0 {
					list = slices.Clone(list)
					list[i] = to
					e.Set(field, list)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// fixContext changes the rows of the context files in dir that name files below from to name those below dir.
func (s archiver) fixContext(dir, from string) error {
	names, err := ContextFiles(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		err := s.Disk.Edit(filepath.Join(dir, name), func(data []byte) (fixed []byte, _ error) {
			for line := range bytes.Lines(data) {
				fixed = append(fixed, fixRow(line, s.Rel(from), s.Rel(dir))...)
			}
			return fixed, nil
		})
		if err != nil {
			return fmt.Errorf("mapping context: %w", err)
		}
	}
	return nil
}

// fixRow changes the path of one row if it is below from.
func fixRow(line []byte, from, to string) []byte {
	if !json.Valid(line) {
		return line
	}
	for _, key := range []string{"file", "path"} {
		rest, ok := strings.CutPrefix(gjson.GetBytes(line, key).Str, from+"/")
		if !ok {
			continue
		}
		raw, err := text.JSON(to + "/" + rest)
		if err != nil {
			continue
		}
		if fixed, err := sjson.SetRawBytes(line, key, raw); err == nil {
			return fixed
		}
	}
	return line
}
