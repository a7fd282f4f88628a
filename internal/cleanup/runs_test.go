package cleanup_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/taskdir"
)

// runsStore returns a store with tasks of these statuses, by name. Each has a run with files of 40 days ago, and one of yesterday.
func runsStore(t *testing.T, now time.Time, tasks map[string]string) taskdir.Store {
	t.Helper()
	s := taskdir.Store{Root: t.TempDir(), Now: func() time.Time { return now }}
	for id, status := range tasks {
		dir := filepath.Join(s.Tasks(), id)
		put(t, filepath.Join(dir, "task.json"), fmt.Sprintf(`{"status": %q}`, status), now)
		for name, age := range map[string]int{"run/journal.1.jsonl": 40, "run/journal.jsonl": 1, "run/pull.json": 1, "report.md": 1, "approvals.jsonl": 1,
			"run/1/implement#1/1/stream.jsonl": 40, "run/1/objects/ab/cd": 40, "run/1/steps/step-a/stdout": 40, "run/2/implement#1/1/answer.md": 1, "run/inputs/x/prd.md": 40} {
			put(t, filepath.Join(dir, filepath.FromSlash(name)), strings.Repeat("x", 100), now.AddDate(0, 0, -age))
		}
		at := now.UTC().Truncate(time.Second)
		_, err := (&proof.Chain{Dir: dir}).Append(proof.Proof{Activity: "step-a/proof#1", Began: at, Ended: at, Kind: "test", Run: id + "/1", Step: "a", StepHash: "sha256:x", Task: id,
			Stdout: proof.Digest{Bytes: 100, Path: "1/steps/step-a/stdout", SHA256: strings.Repeat("ab", 32)}})
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func put(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// Edge F13: runs of completed and archived tasks expire by age and by size. Evidence is kept, and so are runs that a retry needs.
func TestRunsAreRemoved(t *testing.T) {
	now := time.Date(2026, 2, 1, 12, 0, 0, 0, time.UTC)
	s := runsStore(t, now, map[string]string{"01-01-done": "completed", "01-01-failed": "failed", "archive/2026-01/01-01-gone": "cancelled", "01-01-open": "review"})
	c := cleanup.Runs{Store: s, Now: s.Now}
	runs, err := c.List()
	if err != nil {
		t.Fatal(err)
	}
	said := func(list []cleanup.Run) (out string) {
		for _, r := range list {
			out += fmt.Sprintf("%s/%s %d, ", r.ID, r.Number, r.Size)
		}
		return out
	}
	if got, want := said(runs), "01-01-done/2 100, 01-01-gone/2 100, 01-01-done/1 200, 01-01-gone/1 200, "; got != want {
		t.Errorf("runs %s, want %s", got, want)
	}
	if got, want := said(c.Expired(runs, 0, 400)), "01-01-gone/1 200, "; got != want {
		t.Errorf("beyond 400 bytes %s, want %s", got, want)
	}
	if got := c.Expired(runs, 0, 0); len(got) > 0 {
		t.Errorf("without limits %s", said(got))
	}
	for _, r := range c.Expired(runs, 30*24*time.Hour, 0) {
		if err := c.Remove(r); err != nil {
			t.Fatal(err)
		}
	}
	for id, want := range map[string]int{"01-01-done": 8, "archive/2026-01/01-01-gone": 8, "01-01-failed": 10, "01-01-open": 10} {
		var left []string
		err := fs.WalkDir(os.DirFS(filepath.Join(s.Tasks(), id)), ".", func(name string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() && !strings.HasSuffix(name, "lock") && !strings.HasSuffix(name, ".gitignore") && name != "task.json" && name != "proofs.jsonl" {
				left = append(left, name)
			}
			return err
		})
		if err != nil || len(left) != want {
			t.Errorf("%s: %d files are left, want %d: %q, %v", id, len(left), want, left, err)
		}
	}
	if left, err := os.ReadDir(filepath.Join(s.Tasks(), "01-01-done", "run", "1")); err != nil || len(left) != 1 {
		t.Errorf("folders are left: %v, %v", left, err)
	}
}
