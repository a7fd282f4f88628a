package planner

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// If a person saves a file of an earlier planning while it is being removed, the saved version is kept, as the old one would be.
func TestDiscardKeepsASave(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, taskdir.Research)
	if err := os.WriteFile(path, []byte("earlier\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	saved := false
	f := files{dir, &durable.Disk{Fault: func(string, string) error {
		if saved {
			return nil
		}
		saved = true
		return os.WriteFile(path, []byte("by hand\n"), 0o644)
	}}}
	call := flow.Call{Run: "11-20-x/1", ID: "/write#1", Attempt: 1}
	if err := f.discard(call, taskdir.Research); err != nil {
		t.Fatal(err)
	}
	kept, err := filepath.Glob(filepath.Join(dir, taskdir.Run, "*", "*", "before", taskdir.Research))
	if err != nil || len(kept) != 1 {
		t.Fatalf("got %q, %v", kept, err)
	}
	if got, err := os.ReadFile(kept[0]); err != nil || string(got) != "by hand\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if _, err := os.Lstat(path); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
}
