package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const lockName = "lock"

// acquire takes the lock of the folder and makes sure that the former holder left nothing running.
//
// Guard and marker of the former holder stay in the file until Clear has said so. Were they written over
// at once, then whoever comes after a Clear that failed, or after a crash, could not find those processes.
func acquire(o Options) (*durable.Lock, error) {
	if err := makeFolder(o); err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, lockName)
	holder := o.Holder
	former, _ := durable.ReadHolder(path) // what can't be read is not worth keeping
	if former.Guard != 0 || former.Marker != "" {
		holder.Guard, holder.GuardStart, holder.Marker = former.Guard, former.GuardStart, former.Marker
	}
	lock, err := durable.TryLock(path, holder)
	if err != nil || o.Clear == nil {
		return lock, err
	}
	former = lock.Previous()
	if err := o.Clear(former); err != nil {
		return nil, errors.Join(err, stamp(path, former), lock.Unlock())
	}
	if err := stamp(path, o.Holder); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	return lock, nil
}

// stamp writes h into a lock file that we hold: in one call, and padded, so that a reader never
// finds half of it.
func stamp(path string, h durable.Holder) error {
	data, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("writing lock %s: %w", path, err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("writing lock: %w", err)
	}
	defer f.Close()
	if st, err := f.Stat(); err == nil {
		data = append(data, bytes.Repeat([]byte(" "), max(0, int(st.Size())-len(data)-1))...)
	}
	if _, err := f.WriteAt(append(data, '\n'), 0); err != nil {
		return fmt.Errorf("writing lock: %w", err)
	}
	return nil
}

// makeFolder makes the run's folder, which git never sees. The folder above it is not made: a task
// whose directory is gone must not come back as an empty one.
func makeFolder(o Options) error {
	if err := o.Disk.Mkdir(o.Dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	ignore := filepath.Join(o.Dir, ".gitignore")
	if _, err := os.Lstat(ignore); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return o.Disk.WriteFile(ignore, []byte("*\n"), 0o600)
}
