package durable_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Edge S (left temporary files): those of killed writers are removed after an hour; one that is being written and other files stay.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "task.json")
	write(t, path, before)
	if err := play(t, "write-and-die", "5", path, after).Run(); err == nil {
		t.Fatal("it was not killed")
	}
	write(t, filepath.Join(dir, ".tmp-other-1-2"), "left")
	write(t, filepath.Join(dir, ".tmp-held"), "at work")
	held, err := durable.TryLock(filepath.Join(dir, ".tmp-held"), durable.Holder{})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Unlock()
	durable.Sweep(dir, time.Now())
	if got, want := names(t, dir), ".tmp-held .tmp-other-1-2 .tmp-task.json task.json"; got != want {
		t.Errorf("at once: got %q, want %q", got, want)
	}
	durable.Sweep(dir, time.Now().Add(2*time.Hour))
	if got, want := names(t, dir), ".tmp-held task.json"; got != want {
		t.Errorf("after two hours: got %q, want %q", got, want)
	}
}
