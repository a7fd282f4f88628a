package git_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// What a process that was killed kept for a snapshot goes with the next one; what a living one keeps stays.
func TestScratchOfTheKilledIsRemoved(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	if err := os.Mkdir(filepath.Join(temp, "trellis-git-empty"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"trellis-git-dead", "trellis-git-used", "trellis-git-other"} {
		if err := os.MkdirAll(filepath.Join(temp, name, "objects"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(temp, "trellis-git-dead", "lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	used, err := durable.TryLock(filepath.Join(temp, "trellis-git-used", "lock"), durable.Holder{PID: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	defer used.Unlock()
	b := newBox(t)
	s, err := b.Repo.Snapshot(t.Context(), b.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	got, err := filepath.Glob(filepath.Join(temp, "trellis-git-*"))
	if err != nil || len(got) != 2 {
		t.Errorf("left are %q, %v", got, err)
	}
	if _, err := os.Stat(filepath.Join(temp, "trellis-git-dead")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of a process that is gone: %v", err)
	}
}
