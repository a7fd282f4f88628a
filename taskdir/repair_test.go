package taskdir_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const brokenTask = "{\n  \"title\": \"x\",\n  \"status\": ready\n}\n"

// broken returns a store with one task, whose task.json is not valid JSON, and the task's directory.
func broken(t *testing.T) (s taskdir.Store, dir string) {
	t.Helper()
	s = taskdir.Store{Root: t.TempDir(), Now: func() time.Time { return time.Date(2026, 2, 1, 9, 0, 0, 0, time.UTC) }}
	dir = filepath.Join(s.Tasks(), "02-01-x")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, taskdir.TaskJSON), []byte(brokenTask), 0o644)); err != nil {
		t.Fatal(err)
	}
	return s, dir
}

func content(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestRepair(t *testing.T) {
	s, dir := broken(t)
	m, err := s.ProposeRepair(dir)
	if err != nil || m == nil {
		t.Fatalf("got %v, %v", m, err)
	}
	if got := content(t, filepath.Join(dir, taskdir.TaskJSON)); got != brokenTask {
		t.Errorf("a proposal wrote %q", got)
	}
	saved, err := s.Repair(dir, m)
	if err != nil || saved != filepath.Join(dir, "run", "task.json.broken-20260201T090000Z") || content(t, saved) != brokenTask {
		t.Errorf("got %s, %v", saved, err)
	}
	if task, err := s.Load(dir); err != nil || task.Status != trellis.Ready {
		t.Errorf("got %v, %v", task, err)
	}
	if m, err := s.ProposeRepair(dir); m != nil || err != nil {
		t.Errorf("a second proposal: got %v, %v", m, err)
	}
}

// A second broken file is saved under another name; a file that changed since it was shown is left alone.
func TestRepairTwiceAndTooLate(t *testing.T) {
	s, dir := broken(t)
	path := filepath.Join(dir, taskdir.TaskJSON)
	m, _ := s.ProposeRepair(dir)
	if err := os.WriteFile(path, []byte("{\"title\": mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if saved, err := s.Repair(dir, m); !errors.Is(err, taskdir.ErrChanged) || saved != "" || content(t, path) != "{\"title\": mine" {
		t.Errorf("got %s, %v", saved, err)
	}
	names := map[string]bool{}
	for _, text := range []string{brokenTask, brokenTask, "{\"id\": \"x\", \"title\": y}"} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		m, _ := s.ProposeRepair(dir)
		saved, err := s.Repair(dir, m)
		if err != nil || content(t, saved) != text {
			t.Errorf("got %s, %v", saved, err)
		}
		names[saved] = true
	}
	if len(names) != 2 {
		t.Errorf("got %v, want one file for each content", names)
	}
}

// If any disk operation fails, either the broken file is still there, or the repaired one and its saved original are.
func TestRepairOnABadDisk(t *testing.T) {
	for n := 1; ; n++ {
		s, dir := broken(t)
		m, _ := s.ProposeRepair(dir)
		steps := 0
		s.Disk = &durable.Disk{Fault: func(step, path string) error {
			if steps++; steps == n {
				return errors.New("no space left")
			}
			return nil
		}}
		_, err := s.Repair(dir, m)
		got := content(t, filepath.Join(dir, taskdir.TaskJSON))
		saved, _ := filepath.Glob(filepath.Join(dir, "run", "task.json.broken-*"))
		if got != brokenTask && (got != string(m.After) || len(saved) != 1 || content(t, saved[0]) != brokenTask) {
			t.Fatalf("step %d: got %q, saved %v", n, got, saved)
		}
		s.Disk = nil
		if m, _ := s.ProposeRepair(dir); m != nil {
			if _, err := s.Repair(dir, m); err != nil {
				t.Fatalf("again after step %d: %v", n, err)
			}
		}
		if err == nil {
			if n < 5 {
				t.Fatalf("only %d steps", n)
			}
			return
		}
	}
}
