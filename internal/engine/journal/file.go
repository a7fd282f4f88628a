package journal

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// file is an open journal, written by the process that holds the lock.
type file struct {
	path string
	disk *durable.Disk
	lock *durable.Lock
	f    *os.File
	scanResult
	unsynced bool  // has outcomes that are not synced yet
	broken   error // error after which nothing may be appended; the next open finds out what is on disk
}

// openFile opens and reads the journal of dir, and truncates a torn last line. It returns ErrNone if there is no journal.
func openFile(dir string, disk *durable.Disk, lock *durable.Lock) (*file, error) {
	path := filepath.Join(dir, journalName)
	f, err := durable.OpenOwn(path, os.O_RDWR|os.O_APPEND, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", path, ErrNone)
	}
	if err != nil {
		return nil, fmt.Errorf("opening journal: %w", err)
	}
	j := &file{path: path, disk: disk, lock: lock, f: f}
	if err := j.load(); err != nil {
		f.Close()
		return nil, err
	}
	return j, nil
}

func (j *file) load() error {
	data, err := durable.ReadOpen(j.f, j.path, durable.MaxJournal)
	if err != nil {
		return fmt.Errorf("reading journal: %w", err)
	}
	if j.scanResult, err = scan(j.path, data); err != nil {
		return err
	}
	if j.size == int64(len(data)) {
		return nil
	}
	if err := j.truncateTorn(); err != nil {
		return fmt.Errorf("cutting the torn end of %s: %w", j.path, err)
	}
	return nil
}

// truncateTorn truncates the journal after the last complete record.
func (j *file) truncateTorn() error {
	if err := j.disk.Step("truncate", j.path); err != nil {
		return err
	}
	if err := j.f.Truncate(j.size); err != nil {
		return err
	}
	return j.disk.Sync(j.f, j.path)
}

// checkOwnership returns an error if the journal is no longer ours: the lock or the file was removed or replaced (by git clean, or on a
// file system with unreliable locks), or another process has written to it.
func (j *file) checkOwnership() error {
	if dir := filepath.Dir(j.path); !durable.Exists(dir) {
		return asSuspended(&GoneError{dir})
	}
	why := ""
	st, err := j.f.Stat()
	switch now, nowErr := os.Lstat(j.path); {
	case !j.lock.StillInPlace():
		why = "its lock was removed or replaced"
	case err != nil || nowErr != nil || !os.SameFile(st, now):
		why = "it was removed or replaced"
	case st.Size() != j.size:
		why = fmt.Sprintf("it has %d bytes, %d are ours", st.Size(), j.size)
	default:
		return nil
	}
	return asSuspended(fmt.Errorf("%w: %s: %s", ErrFenced, j.path, why))
}

// append writes r with its number and the hash of the line before. When it returns nil, a record that is synced survives a power
// cut. After an error nothing is appended any more.
func (j *file) append(r *record) error {
	if j.broken == nil {
		j.broken = j.checkOwnership()
	}
	if j.broken != nil {
		return j.broken
	}
	r.N, r.Prev = j.n+1, j.prev
	line, err := json.Marshal(r)
	if err == nil {
		err = j.disk.Write(j.f, j.path, append(line, '\n'))
	}
	if err == nil && r.mustSync() {
		err = j.disk.Sync(j.f, j.path)
	}
	if err == nil {
		err = j.ledger.add(r)
	}
	if err != nil {
		j.broken = asSuspended(fmt.Errorf("appending to %s: %w", j.path, err))
		return j.broken
	}
	j.n, j.size, j.prev = r.N, j.size+int64(len(line))+1, hash(line)
	j.unsynced = !r.mustSync() && (j.unsynced || r.lazy)
	return nil
}

// syncPending syncs records that were not synced when they were appended.
func (j *file) syncPending() error {
	if j.broken != nil || !j.unsynced {
		return j.broken
	}
	if err := j.disk.Sync(j.f, j.path); err != nil {
		j.broken = asSuspended(fmt.Errorf("syncing %s: %w", j.path, err))
		return j.broken
	}
	j.unsynced = false
	return nil
}
