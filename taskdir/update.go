package taskdir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const (
	lockTimeout = 10 * time.Second       // for other changes of the task, which take milliseconds each
	saveTimeout = 500 * time.Millisecond // for an editor that deletes a file and creates it again
	updateTries = 200                    // how often people may save the file during one update
)

// Update changes the task.json in dir. It rereads the file under the task's write lock, calls change with it, writes what
// change set, and returns the current task. An update that changes something increments pipeline.revision, unless change set it
// or called KeepRevision; one that changes nothing writes nothing. If change returns an error, Update returns it and writes
// nothing. A file that Load can't read is never overwritten. Several goroutines and processes may update one task: each sees
// the others' changes. People may save the file at any time: change is then called again with what they saved, so that both
// changes end up in the file (durable.Replace says how far that goes); so change must have the same effect when called twice.
func (s Store) Update(dir string, change func(t *Task, e *Edit) error) (*Task, error) {
	var t *Task
	err := s.withLock(dir, func(owned func() bool) (err error) {
		t, err = update{s, dir, change, owned}.run()
		return err
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// update is one change of the task.json in dir, whose write lock is held as long as owned returns true.
type update struct {
	Store
	dir    string
	change func(t *Task, e *Edit) error
	owned  func() bool
}

func (s update) run() (*Task, error) {
	for range updateTries {
		before, wrote, err := s.try()
		if errors.Is(err, durable.ErrChanged) {
			continue
		}
		if err != nil {
			return nil, err
		}
		now, err := s.loadSettled()
		if err == nil && now.Pipeline.Revision < wrote.Pipeline.Revision {
			continue // then overwritten by somebody who had read it before
		}
		if err == nil && now.Status != before.Status && s.Changed != nil && !strings.HasPrefix(now.ID, DraftPrefix) {
			s.Changed(before, now)
		}
		return now, err
	}
	return nil, fmt.Errorf("updating %s: %w, %d times", s.Rel(filepath.Join(s.dir, TaskJSON)), durable.ErrChanged, updateTries)
}

// try changes the current file and returns the task before and after. The error wraps durable.ErrChanged if somebody saved the
// file meanwhile.
func (s update) try() (before, after *Task, err error) {
	before, err = s.loadSettled()
	if err != nil {
		return nil, nil, err
	}
	data, err := before.applyEdit(s.change)
	if err != nil || bytes.Equal(data, before.Raw) {
		return before, before, err
	}
	path := filepath.Join(s.dir, TaskJSON)
	if !s.owned() {
		return nil, nil, fmt.Errorf("updating %s: the write lock was removed meanwhile, nothing is written", s.Rel(path))
	}
	if err := s.Disk.Replace(path, before.Raw, data); err != nil {
		return nil, nil, fmt.Errorf("updating task: %w", err)
	}
	after, err = s.parse(s.dir, data)
	return before, after, err
}

// loadSettled is Load, but waits for a save in progress to end: until nobody has task.json open for writing, and for up to
// saveTimeout if it was just deleted, to be created again, or is incomplete.
func (s update) loadSettled() (*Task, error) {
	for end := time.Now().Add(saveTimeout); ; time.Sleep(5 * time.Millisecond) {
		data, err := durable.ReadSettled(filepath.Join(s.dir, TaskJSON))
		if errors.Is(err, durable.ErrHeld) {
			return nil, fmt.Errorf("reading task: %w", err)
		}
		var t *Task
		if err == nil && len(data) <= durable.MaxRecords {
			t, err = s.parse(s.dir, data)
		} else {
			t, err = s.Load(s.dir) // has the best error message
		}
		if err == nil || !changedRecently(s.dir) || time.Now().After(end) {
			return t, err
		}
	}
}

// changedRecently reports whether the task.json of dir, or dir itself, was changed a moment ago.
func changedRecently(dir string) bool {
	for _, path := range []string{filepath.Join(dir, TaskJSON), dir} {
		if st, err := os.Stat(path); err == nil && time.Since(st.ModTime()).Abs() < saveTimeout {
			return true
		}
	}
	return false
}

// applyEdit applies change to the task, and returns its file.
func (t *Task) applyEdit(change func(t *Task, e *Edit) error) ([]byte, error) {
	doc := strings.TrimPrefix(string(t.Raw), bom)
	e := &Edit{task: t, doc: doc, style: styleOf(doc)}
	if err := change(t, e); err != nil {
		return nil, err
	}
	if e.changed && !e.keepRevision && !e.revisionSet {
		e.Set("pipeline.revision", t.Pipeline.Revision+1)
	}
	if e.err != nil {
		return nil, fmt.Errorf("updating task %s: %w", t.ID, e.err)
	}
	mark := t.Raw[:len(t.Raw)-len(doc)]
	return append(mark[:len(mark):len(mark)], e.doc...), nil
}

// AddMissing adds to the task.json in dir the fields that it lacks, each at its place and with the value that reading assumes,
// and returns their names. The revision stays unchanged: a person asked for the update.
func (s Store) AddMissing(dir string) (fields []string, err error) {
	_, err = s.Update(dir, func(t *Task, e *Edit) error {
		e.KeepRevision()
		assumed := *t
		Defaults(&assumed)
		values := map[string]any{"id": assumed.Name, "name": assumed.Name, "title": assumed.Title, "createdAt": s.Clock().Format(time.DateOnly)}
		fields = nil
		for _, path := range allFields() {
			if gjson.Get(e.doc, path).Exists() {
				continue
			}
			fields = append(fields, path)
			if value, ok := values[path]; ok {
				e.Set(path, value)
			} else if e.err == nil {
				e.err = e.set(path, []byte(shapeOf(path).Raw))
			}
		}
		return nil
	})
	return fields, err
}

// allFields returns the fields of task.json and those below pipeline.
func allFields() []string {
	fields := keysOf("")
	for _, key := range keysOf("pipeline") {
		fields = append(fields, "pipeline."+key)
	}
	return fields
}

// RunDir creates dir's folder for machine state unless it exists, and returns it. Git ignores its contents.
func (s Store) RunDir(dir string) (string, error) {
	run := filepath.Join(dir, Run)
	if err := durable.RealFolder(run); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	ignore := filepath.Join(run, ".gitignore")
	if _, err := os.Stat(ignore); err == nil {
		return run, nil
	}
	// Not MkdirAll: a removed task directory must not come back.
	if err := s.Disk.Mkdir(run, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return run, s.Disk.WriteFile(ignore, []byte("*\n"), 0o600)
}

// Look calls look while no Trellis command changes the files of the task in dir.
func Look(s Store, dir string, look func() error) error {
	return s.withLock(dir, func(func() bool) error { return look() })
}

// withLock calls do while holding the write lock of the task in dir. owned reports whether the lock is still valid.
func (s Store) withLock(dir string, do func(owned func() bool) error) error {
	if s.CheckChange != nil {
		if err := s.CheckChange(dir); err != nil {
			return err
		}
	}
	lock, err := s.writeLock(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return s.loadError(dir, filepath.Join(dir, TaskJSON), err)
	}
	if err != nil {
		return fmt.Errorf("changing task %s: %w", filepath.Base(dir), err)
	}
	err = do(lock.StillInPlace)
	return cmp.Or(err, lock.Unlock()) // callers rely on getting do's error unchanged
}

func (s Store) writeLock(dir string) (*durable.Lock, error) {
	if _, err := os.Lstat(filepath.Join(dir, TaskJSON)); err != nil {
		return nil, err
	}
	if _, err := s.RunDir(dir); err != nil {
		return nil, err
	}
	return durable.WaitLockFor(filepath.Join(dir, WriteLock), durable.Holder{PID: os.Getpid(), Since: s.Clock()}, lockTimeout)
}
