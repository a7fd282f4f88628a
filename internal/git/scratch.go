package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const (
	scratchPrefix = "trellis-git-"
	scratchLock   = "lock" // locked as long as the process that uses the folder lives
)

// Scratch creates a folder for files that only this process uses, and returns it with the function that removes it. The folders of
// killed processes are removed by the next process that creates one.
func (r *Repo) Scratch() (dir string, remove func() error, err error) {
	r.sweepOnce.Do(removeAbandoned)
	for {
		if dir, err = os.MkdirTemp("", scratchPrefix); err != nil {
			return "", nil, err
		}
		mine, err := durable.TryLock(filepath.Join(dir, scratchLock), durable.Holder{PID: os.Getpid()})
		switch {
		case err == nil:
			return dir, func() error { return discardScratch(dir, mine) }, nil
		case !errors.Is(err, durable.ErrHeld) && !errors.Is(err, fs.ErrNotExist): // otherwise another process just took it for abandoned
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// discardScratch removes a scratch folder, its lock last: a process killed on the way leaves one known as abandoned, or an empty
// one.
func discardScratch(dir string, mine *durable.Lock) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if e.Name() != scratchLock {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	err = errors.Join(err, ignoreRemoved(os.Remove(filepath.Join(dir, scratchLock))))
	return errors.Join(err, ignoreRemoved(os.Remove(dir)), mine.Unlock())
}

// ignoreRemoved returns nil for the errors that mean that another process removed the file, or took the folder for abandoned once its
// lock was gone: it then holds a lock of that process, which removes the folder.
func ignoreRemoved(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) { // ErrExist: the folder is not empty
		return nil
	}
	return err
}

// removeAbandoned removes the scratch folders of killed processes. One that can't be locked is in use, or belongs to somebody
// else.
func removeAbandoned() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*")) // the pattern is valid
	for _, dir := range dirs {
		path := filepath.Join(dir, scratchLock)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(dir) // an empty one; a process that is just creating it creates another
			continue
		}
		if lock, err := durable.TryLock(path, durable.Holder{PID: os.Getpid()}); err == nil {
			_ = discardScratch(dir, lock) // on failure, the next process tries again
		}
	}
}
