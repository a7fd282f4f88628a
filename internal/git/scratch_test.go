package git_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// The next snapshot removes the scratch folders that killed processes left; those of living processes stay.
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
	b := gittest.New(t)
	s, err := snapshot.New(b.Repo).Snapshot(t.Context(), b.Dir)
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

// A process that looks for scratch folders of killed processes may find one that its owner is just removing: neither of
// them fails, and nothing is left.
func TestScratchIsRemovedByTwoAtOnce(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	b := gittest.New(t)
	folders := filepath.Join(temp, "trellis-git-*")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			dirs, _ := filepath.Glob(folders)
			for _, dir := range dirs {
				lock, err := durable.TryLock(filepath.Join(dir, "lock"), durable.Holder{PID: os.Getpid()})
				if err == nil {
					err = errors.Join(os.RemoveAll(dir), lock.Unlock())
				}
				if err != nil && !errors.Is(err, durable.ErrHeld) && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrExist) { // its owner was faster, or is about to lock it
					t.Error(err)
				}
			}
		}
	}()
	for range 60 {
		s, err := snapshot.New(b.Repo).Snapshot(t.Context(), b.Dir)
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-stopped
	if got, err := filepath.Glob(folders); err != nil || len(got) > 0 {
		t.Errorf("left are %q, %v", got, err)
	}
}
