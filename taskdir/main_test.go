package taskdir_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// The test binary also serves as the other process that some tests need.
func TestMain(m *testing.M) {
	if dir := os.Getenv("TASKDIR_TEST_UPDATE"); dir != "" {
		os.Exit(updateMany(dir, os.Getenv("TASKDIR_TEST_WRITER")))
	}
	os.Exit(m.Run())
}

// newStore returns an empty store whose clock always returns noon of 2026-02-01.
func newStore(tb testing.TB) taskdir.Store {
	tb.Helper()
	root, err := filepath.EvalSymlinks(tb.TempDir())
	if err != nil {
		tb.Fatal(err)
	}
	s := taskdir.Store{Root: root, Now: func() time.Time { return time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC) }}
	if err := os.MkdirAll(s.Tasks(), 0o755); err != nil {
		tb.Fatal(err)
	}
	return s
}

// write puts a file into the store's tasks folder, and makes the folders above it.
func write(tb testing.TB, s taskdir.Store, name, text string) string {
	tb.Helper()
	path := filepath.Join(s.Tasks(), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
	return path
}

// byHand makes a task directory with text as its task.json, and returns its path.
func byHand(tb testing.TB, s taskdir.Store, id, text string) string {
	tb.Helper()
	return filepath.Dir(write(tb, s, filepath.Join(id, taskdir.TaskJSON), text))
}

func create(tb testing.TB, s taskdir.Store, n taskdir.New) *taskdir.Task {
	tb.Helper()
	task, err := s.Create(n)
	if err != nil {
		tb.Fatal(err)
	}
	return task
}

func load(tb testing.TB, s taskdir.Store, dir string) *taskdir.Task {
	tb.Helper()
	task, err := s.Load(dir)
	if err != nil {
		tb.Fatal(err)
	}
	return task
}

func read(tb testing.TB, path string) string {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	return string(data)
}

// set changes fields of a task without a new revision.
func set(tb testing.TB, s taskdir.Store, dir string, fields map[string]any) {
	tb.Helper()
	_, err := s.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.KeepRevision()
		for field, value := range fields {
			e.Set(field, value)
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// withStatus overwrites the status of a task, whatever it was.
func withStatus(tb testing.TB, s taskdir.Store, dir string, status trellis.Status) {
	tb.Helper()
	path := filepath.Join(dir, taskdir.TaskJSON)
	var fields map[string]any
	if err := json.Unmarshal([]byte(read(tb, path)), &fields); err != nil {
		tb.Fatal(err)
	}
	fields["status"] = status
	data, err := json.Marshal(fields)
	if err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		tb.Fatal(err)
	}
}
