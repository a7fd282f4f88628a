package journal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const lockName = "lock"

// acquire takes the lock of the folder and makes sure that nothing of the former holder is still running.
func acquire(o Options) (*durable.Lock, error) {
	if err := makeFolder(o); err != nil {
		return nil, err
	}
	clear := o.Clear
	if clear == nil {
		clear = func(durable.Holder) error { return nil }
	}
	return durable.TakeOver(filepath.Join(o.Dir, lockName), o.Holder, clear)
}

// makeFolder creates the run's folder with a .gitignore for all of it. It does not create the folder above: a task whose
// directory was removed must not come back as an empty one.
func makeFolder(o Options) error {
	if err := o.Disk.Mkdir(o.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := durable.RealFolder(o.Dir); err != nil {
		return err
	}
	ignore := filepath.Join(o.Dir, ".gitignore")
	if _, err := os.Lstat(ignore); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return o.Disk.WriteFile(ignore, []byte("*\n"), 0o600)
}
