package durable

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/patience"
)

const (
	writerWait = 10 * time.Second // for a program that has a file open for writing: editors need milliseconds
	editTries  = 200              // times that a file may change under an edit
)

// ErrChanged means that a file does not have the content that its writer expected.
var ErrChanged = errors.New("it was changed meanwhile")

// Edit changes a file that people edit too. It calls change with the content of the file, nil if there is none, and writes the
// content that change returns, unless that is the same, or nil where there is no file. If somebody else saves the file meanwhile,
// change is called again with the saved content, so that the file ends up with both changes. See Replace for the guarantees. A
// change that removes the file with Remove is called again in the same way.
func (d *Disk) Edit(path string, change func(old []byte) ([]byte, error)) error {
	for range editTries {
		old, err := ReadSettled(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("editing %s: %w", path, err)
		}
		data, err := change(old)
		if err == nil && !(bytes.Equal(data, old) && (old != nil || data == nil)) {
			err = d.Replace(path, old, data)
		}
		if !errors.Is(err, ErrChanged) {
			return err
		}
	}
	return fmt.Errorf("editing %s: %w, %d times", path, ErrChanged, editTries)
}

// Replace is WriteFile for a file that people edit: it replaces the file only if that still has the content old. If old is nil, it
// creates the file, with permission 0644 before umask, only if there is none. Otherwise nothing is written and the error matches
// ErrChanged. If another program keeps the file open for writing for ten seconds, the error is a *HeldError; a file that is not a
// regular one is an error, too.
//
// The new file is swapped with the old one, which is checked before it is removed: if somebody saved it in between, or still has
// it open for writing, it is swapped back. Of several saves of other programs within those microseconds the last one wins; calls
// of Replace in several processes wait for each other. Two things do not work everywhere. Whether somebody has a file open for
// writing is known on Linux, for one's own files on a local disk; elsewhere, an editor that writes in place can lose what it
// writes after the swap. Swapping works on Linux and macOS, on the usual file systems; elsewhere, what is saved in the few
// microseconds between the last check and the rename is lost. So is a save in the instant of a swap whose check a SIGKILL
// prevents.
func (d *Disk) Replace(path string, old, data []byte) error {
	return pathError("writing", path, d.replace(path, old, data))
}

func (d *Disk) replace(path string, old, data []byte) error {
	if old == nil {
		return d.writeAndMove(path, data, 0o644, createUnique, func(temp *os.File) error { return d.moveNew(temp, path) })
	}
	if err := waitUnchanged(path, old); err != nil { // before anything is written and synced for nothing
		return err
	}
	return d.writeAndMove(path, data, 0o644, createUnique, func(temp *os.File) error { return d.swap(temp, path, old, data) })
}

// Remove is Replace with nothing: it removes the file only if that still has the content old. The file is moved aside and checked
// there, so that a save that came in between is moved back.
func (d *Disk) Remove(path string, old []byte) error {
	return pathError("removing", path, d.remove(path, old))
}

func (d *Disk) remove(path string, old []byte) error {
	if err := waitUnchanged(path, old); err != nil {
		return asChanged(err)
	}
	if err := d.Step("remove", path); err != nil {
		return err
	}
	unlock, err := lockSwaps(path)
	if err != nil {
		return err
	}
	defer unlock()
	aside := uniqueName(path)
	err = os.Rename(path, aside)
	if errors.Is(err, fs.ErrNotExist) {
		return ErrChanged
	}
	if err != nil {
		return err
	}
	if err := checkUnchanged(aside, old); err != nil {
		if lost := moveBack(aside, path); lost != nil {
			return lost
		}
		return asChanged(err)
	}
	return errors.Join(os.Remove(aside), d.SyncDir(filepath.Dir(path)))
}

// moveBack gives a file that was moved aside its name back. A file that has got this name since was saved later, and stays.
func moveBack(aside, path string) error {
	err := renameFree(aside, path)
	if errors.Is(err, fs.ErrExist) {
		return os.Remove(aside)
	}
	if err != nil {
		return fmt.Errorf("moving back what was saved, which is in %s: %w", aside, err)
	}
	return nil
}

// moveNew renames the file temp to path, unless something exists there.
func (d *Disk) moveNew(temp *os.File, path string) error {
	err := d.Rename(temp.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return ErrChanged
	}
	return err
}

// swap replaces path by the file temp, which has the content data, if the replaced file has the content old and nobody is writing
// it. Otherwise all stays as before.
func (d *Disk) swap(temp *os.File, path string, old, data []byte) error {
	if err := waitUnchanged(path, old); err != nil {
		return err
	}
	if err := d.Step("rename", path); err != nil {
		return err
	}
	name := temp.Name()
	temp.Close() // so that from now on only others can have it open for writing
	unlock, err := lockSwaps(path)
	if err != nil {
		return err
	}
	defer unlock()
	err = exchange(name, path)
	switch {
	case noExchange(err):
		return d.renameUnchanged(name, path, old)
	case errors.Is(err, fs.ErrNotExist): // deleted, or its folder was moved
		return ErrChanged
	case err != nil:
		return err
	}
	return d.settleSwap(name, path, old, data)
}

// lockSwaps lets one process at a time swap files in path's folder, for ten seconds at most: of two that swap the same file, each
// with a third's save in between, one would take the other's for an older save. The lock is flock(2) on the folder, which leaves
// no file behind; where folders can't be locked (NFS), there is no lock.
func lockSwaps(path string) (unlock func(), err error) {
	folder, err := os.Open(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrChanged
	}
	if err != nil {
		return nil, err
	}
	err = waitWriter(path, func() error {
		if err := Flock(folder, unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
			return errWriting
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return func() { folder.Close() }, nil // which unlocks it
}

// settleSwap checks the file that was swapped out of path and is now named out: at once, and again after the folder is synced, in case
// the kernel was just letting a writer in.
func (d *Disk) settleSwap(out, path string, old, data []byte) error {
	err := d.Step("look", path)
	if err == nil {
		err = checkUnchanged(out, old)
	}
	if err != nil {
		return errors.Join(asChanged(err), putBack(out, path, data))
	}
	syncErr := d.SyncDir(filepath.Dir(path))
	if err := checkUnchanged(out, old); err != nil {
		return errors.Join(asChanged(err), putBack(out, path, data))
	}
	return errors.Join(syncErr, os.Remove(out))
}

// putBack undoes the exchange after which out is the file that somebody saved, and path our file with the content data. A file
// that has got to path since was saved later: it stays, and the earlier save is removed.
func putBack(out, path string, data []byte) error {
	ours := func() bool { return checkUnchanged(out, data) == nil }
	for {
		saved, err := os.Lstat(out)
		if err != nil {
			return fmt.Errorf("putting back what was saved: %w", err)
		}
		err = exchange(out, path)
		if errors.Is(err, fs.ErrNotExist) { // deleted since then
			return os.Remove(out)
		}
		if err != nil {
			return fmt.Errorf("putting back what was saved, which is in %s: %w", out, err)
		}
		if ours() {
			return os.Remove(out)
		}
		ours = func() bool { now, err := os.Lstat(out); return err == nil && os.SameFile(now, saved) }
	}
}

// renameUnchanged renames from to path, unless path changed, on file systems that can't exchange two names.
func (d *Disk) renameUnchanged(from, path string, old []byte) error {
	if err := checkUnchanged(path, old); err != nil {
		return asChanged(err)
	}
	if err := os.Rename(from, path); err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

func noExchange(err error) bool {
	return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP)
}

// errWriting means that a program has a file open for writing.
var errWriting = errors.New("another program has it open for writing")

// asChanged adds ErrChanged to an error that means that a file is being written, or was replaced by something other than a file.
func asChanged(err error) error {
	if errors.Is(err, errWriting) || errors.As(err, new(*FileError)) {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}

// checkUnchanged returns an error unless the file path has the content old and nobody is writing it.
func checkUnchanged(path string, old []byte) error {
	now, err := readOnce(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(now, old) {
		return ErrChanged
	}
	return err
}

func waitUnchanged(path string, old []byte) error {
	return waitWriter(path, func() error { return checkUnchanged(path, old) })
}

// ReadSettled reads a regular file that nobody is writing at that moment, as far as the system tells (see Replace). It waits for a
// writer, but returns a *HeldError after ten seconds.
func ReadSettled(path string) (data []byte, err error) {
	err = waitWriter(path, func() (err error) {
		data, err = readOnce(path)
		return err
	})
	return data, err
}

// waitWriter calls do again while that returns errWriting, since somebody is writing path; after ten seconds it returns a
// *HeldError.
func waitWriter(path string, do func() error) error {
	for wait := patience.New(writerWait); ; time.Sleep(time.Millisecond) {
		err := do()
		if !errors.Is(err, errWriting) {
			return err
		}
		if wait.Over() {
			return &HeldError{Path: path}
		}
	}
}

// readOnce reads a whole file. It returns errWriting if somebody is writing the file, and a *FileError if it can't be replaced.
func readOnce(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		err = ErrLink
	}
	if err != nil {
		return nil, fileError(path, MaxRecords, err)
	}
	defer f.Close()
	if err := checkRegular(f, MaxRecords); err != nil {
		return nil, fileError(path, MaxRecords, err)
	}
	if beingWritten(f) {
		return nil, errWriting
	}
	before, err := f.Stat()
	if err != nil {
		return nil, err
	}
	data, err := readAll(f, MaxRecords)
	if err != nil {
		return nil, fileError(path, MaxRecords, err)
	}
	if beingWritten(f) {
		return nil, errWriting
	}
	after, err := f.Stat() // last, to notice what was written and closed until then
	if err == nil && (after.Size() != int64(len(data)) || !after.ModTime().Equal(before.ModTime())) {
		err = errWriting
	}
	return data, err
}
