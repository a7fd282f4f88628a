package scheduler

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// watchLock makes this process the watcher of its repository, as long as it is kept.
type watchLock struct {
	s    *runner.Site
	lock *durable.Lock
}

// lockWatch takes the lock. It returns a *durable.HeldError if another process has it.
func lockWatch(s *runner.Site) (*watchLock, error) {
	l := &watchLock{s: s}
	return l, l.take()
}

// maxTakes is how often the folder may be removed while the lock is taken, as by a git clean that runs meanwhile.
const maxTakes = 10

func (l *watchLock) take() (err error) {
	path := l.s.Starter().WatchLock()
	for range maxTakes {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("making .trellis/.runtime: %w", err)
		}
		if l.lock, err = durable.TryLock(path, runlock.Holder("", l.s.Clock())); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

// renew takes the lock again if its file is gone, as after git clean: until then, a second watcher could take it. It returns
// an error if there is a second watcher, or the lock can't be taken.
func (l *watchLock) renew() (anew bool, err error) {
	if l.lock.StillInPlace() {
		return false, nil
	}
	lost := l.lock
	if err := l.take(); err != nil {
		l.lock = lost
		return false, err
	}
	return true, lost.Unlock()
}

// release ends the watch. It removes the last heartbeat, unless that is another watcher's.
func (l *watchLock) release() error {
	defer l.lock.Unlock()
	if !l.lock.StillInPlace() {
		return nil
	}
	return pulse.Remove(l.s.Store.Root)
}
