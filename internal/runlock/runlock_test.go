package runlock_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/runlock"
)

// Whoever takes a task has what its processes are found by in the lock, so that the next finds them when it is killed (edge S8).
func TestLockTellsWhereProcessesAre(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := runlock.Take(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	got, err := durable.ReadHolder(filepath.Join(dir, "run", "lock"))
	if err != nil {
		t.Fatal(err)
	}
	folder, err := proc.CgroupFolder()
	if got.Cgroups != folder || got.Marker != runlock.Marker(dir) || got.PID != os.Getpid() {
		t.Errorf("got %+v, want control groups in %q (%v)", got, folder, err)
	}
}
