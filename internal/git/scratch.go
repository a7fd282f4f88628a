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
	scratchLock   = "lock" // held as long as the process lives that uses the folder
)

// Scratch makes a folder for files that are of use to one process alone. Who is killed leaves it to the next one that makes
// some.
func (r *Repo) Scratch() (dir string, remove func() error, err error) {
	r.swept.Do(removeAbandoned)
	for {
		if dir, err = os.MkdirTemp("", scratchPrefix); err != nil {
			return "", nil, err
		}
		mine, err := durable.TryLock(filepath.Join(dir, scratchLock), durable.Holder{PID: os.Getpid()})
		switch {
		case err == nil:
			return dir, func() error { return discardScratch(dir, mine) }, nil
		case !errors.Is(err, durable.ErrHeld) && !errors.Is(err, fs.ErrNotExist): // else it was taken for abandoned just now
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
	}
}

// discardScratch removes such a folder, its lock last: who is killed on the way leaves a folder that tells, or an empty one.
func discardScratch(dir string, mine *durable.Lock) error {
	list, err := os.ReadDir(dir)
	for _, e := range list {
		if e.Name() != scratchLock {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	err = errors.Join(err, unlessDone(os.Remove(filepath.Join(dir, scratchLock))))
	return errors.Join(err, unlessDone(os.Remove(dir)), mine.Unlock())
}

// unlessDone leaves out that somebody else removed it, or took the folder for abandoned once its lock was gone: then it has
// that one's lock, who removes it.
func unlessDone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) { // the latter is a folder that is not empty
		return nil
	}
	return err
}

// removeAbandoned removes such folders of processes that were killed. What can't be locked is in use, or somebody else's.
func removeAbandoned() {
	dirs, _ := filepath.Glob(filepath.Join(os.TempDir(), scratchPrefix+"*")) // the pattern is a good one
	for _, dir := range dirs {
		path := filepath.Join(dir, scratchLock)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			_ = os.Remove(dir) // an empty one; who is just making it makes another
			continue
		}
		if lock, err := durable.TryLock(path, durable.Holder{PID: os.Getpid()}); err == nil {
			_ = discardScratch(dir, lock) // another try comes with the next process
		}
	}
}
