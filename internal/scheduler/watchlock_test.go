package scheduler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edge F7: a watcher whose lock file is removed, as by git clean, makes it again, so no second watcher can begin.
func TestWatchLockIsRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{Rescan: 20 * time.Millisecond})
	for range 2 {
		w.Until("nothing in .runtime", func() bool { return os.RemoveAll(filepath.Dir(pulse.Lock(w.Dir))) == nil }) // the watcher writes there
		w.Until("the lock", func() bool {
			return durable.Held(pulse.Lock(w.Dir)) && pulse.Look(w.Dir, time.Now()).Beat.PID == os.Getpid()
		})
	}
	if _, err := scheduler.Watch(t.Context(), w.Site, scheduler.WatchOptions{Once: true, Rescan: time.Hour}); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("a second watcher: %v", err)
	}
	w.Ready("02-01-x")
	w.Until("a review", func() bool { return w.status("02-01-x") == trellis.Review })
}

// Edge F7: if another watcher takes the lock after the lock file was removed, the first one reports that and ends. It does not remove the
// other's watch.json.
func TestWatchLockIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), runnertest.Hang)
	defer cancel()
	go func() {
		_, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Rescan: 2 * time.Second})
		done <- err
	}()
	w.Until("a watcher", func() bool { return pulse.Look(w.Dir, time.Now()).Beat.PID == os.Getpid() })
	var other *durable.Lock
	w.Until("the lock, before the watcher has it again", func() bool {
		if err := os.Remove(pulse.Lock(w.Dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		var err error
		if other, err = durable.TryLock(pulse.Lock(w.Dir), durable.Holder{PID: 1}); err != nil && !errors.Is(err, durable.ErrHeld) {
			t.Fatal(err)
		}
		return err == nil
	})
	defer other.Unlock()
	var held *durable.HeldError
	if err := <-done; !errors.As(err, &held) || held.Path != pulse.Lock(w.Dir) || held.Holder.PID != 1 {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(pulse.File(w.Dir)); err != nil || w.Heard("was removed, and this watcher ends") != 1 {
		t.Errorf("got %v, said %q", err, w.Said)
	}
}
