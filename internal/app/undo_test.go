package app_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// Undo does not offer entries of its record that are invalid, whose task is gone, or whose path leads elsewhere.
func TestUndoOffersWhatWasDone(t *testing.T) {
	p, _ := configured(t, "")
	archived := filepath.Join(p.Root, ".trellis", "tasks", "archive", "2026-02", "02-01-one")
	for _, dir := range []string{archived, filepath.Join(p.Repo.Common, "trellis")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for line, want := range map[string]int{
		`{"kind": "archive", "task": "02-01-one", "was": "review", "archived": ".trellis/tasks/archive/2026-02/02-01-one"}`: 1,
		`{"kind": "archive", "task": "02-01-one", "archived": ".git"}`:                                                      0,
		`{"kind": "archive", "task": "02-01-one", "archived": ".trellis/tasks/archive/2026-02/../../../../.git"}`:           0,
		`{"kind": "archive", "task": "../02-01-one", "archived": ".trellis/tasks/archive/2026-02/02-01-one"}`:               0,
		`{"kind": "rm", "task": "02-01-one", "commit": "--help"}`:                                                           0,
		`{"kind": "cleanup", "task": "02-01-one"}`:                                                                          0,
		`{"kind": "cancel", "task": "02-01-gone", "was": "ready"}`:                                                          0,
		`{"kind": "arch`: 0,
	} {
		if err := os.WriteFile(filepath.Join(p.Repo.Common, "trellis", "undo.jsonl"), fmt.Appendln(nil, line), 0o644); err != nil {
			t.Fatal(err)
		}
		if list, err := p.Undo().List(t.Context()); err != nil || len(list) != want {
			t.Errorf("%s: got %v, %v", line, list, err)
		}
	}
}
