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

// ErrChanged says that a file is not what its writer took it for.
var ErrChanged = errors.New("it was changed meanwhile")

// Edit changes a file that people edit too. change is given its content, nil when there is no file, and returns what it
// is to be; the same leaves it alone, and so does nil where there is none. It is called again with what somebody else
// saved meanwhile, so that both changes are in the file in the end. See Replace for what is promised. A change that
// takes the file away by Remove is called again in the same way.
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

// Replace is WriteFile for a file that people edit: it is replaced only where it still has the content old, and made, with
// permission 0644 before umask, only where there is none when old is nil. Else nothing is written and the error matches
// ErrChanged. One that another program keeps open for writing for ten seconds is a *HeldError, and one that is no
// regular file an error.
//
// The new file is swapped with the old one, and what came out is looked at before it goes: a save that came in
// between is swapped in again, and so is a file that somebody still has open for writing. Of several saves of other programs
// within those microseconds the last one stands; those that replace files by this function do it one after the other. Two things are not known everywhere: who has a file open for writing (on Linux, in
// files of one's own on a local disk, the kernel tells), so that elsewhere an editor that writes in place can lose
// what it writes after the swap; and swapping (Linux and macOS, on the usual file systems): where it is missing, what is saved between
// the last look and the rename, some microseconds, is lost. So is a save in the instant of the swap whose look a
// SIGKILL prevents.
func (d *Disk) Replace(path string, old, data []byte) error {
	if err := d.replace(path, old, data); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

func (d *Disk) replace(path string, old, data []byte) error {
	if old == nil {
		return d.place(path, data, 0o644, createUnique, func(temp *os.File) error { return d.moveNew(temp, path) })
	}
	if err := waitUnchanged(path, old); err != nil { // before anything is written and synced for nothing
		return err
	}
	return d.place(path, data, 0o644, createUnique, func(temp *os.File) error { return d.swap(temp, path, old, data) })
}

// Remove is Replace with nothing: the file goes only where it still has the content old. It is moved aside and looked at there, so
// that a save that came in between is moved back.
func (d *Disk) Remove(path string, old []byte) error {
	if err := d.remove(path, old); err != nil {
		return fmt.Errorf("removing %s: %w", path, err)
	}
	return nil
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
	if err := unchanged(aside, old); err != nil {
		if lost := moveBack(aside, path); lost != nil {
			return lost
		}
		return asChanged(err)
	}
	return errors.Join(os.Remove(aside), d.SyncDir(filepath.Dir(path)))
}

// moveBack gives a file that was moved aside its name again. What has that name since then was saved later: that stays.
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

// moveNew gives the file temp the name path, if nothing has it.
func (d *Disk) moveNew(temp *os.File, path string) error {
	err := d.Rename(temp.Name(), path)
	if errors.Is(err, fs.ErrExist) {
		return ErrChanged
	}
	return err
}

// swap puts the file temp, which has the content data, in the place of path, if what comes out has the content old and
// nobody is writing it. Else all is as before.
func (d *Disk) swap(temp *os.File, path string, old, data []byte) error {
	if err := waitUnchanged(path, old); err != nil {
		return err
	}
	if err := d.Step("rename", path); err != nil {
		return err
	}
	name := temp.Name()
	temp.Close() // so that whoever has it open for writing from now on is somebody else
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
	return d.settle(name, path, old, data)
}

// lockSwaps lets one process at a time swap files of path's folder, for ten seconds at most: of two that swap the same file, each
// with a third's save in between, one would take the other's for an older save. The lock is flock(2) on the folder, which
// leaves no file behind; where folders can't be locked (NFS), nothing is.
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

// settle looks at what was swapped out of path and has the name out now: at once, and again after the folder is synced,
// for a writer whom the kernel was just letting in.
func (d *Disk) settle(out, path string, old, data []byte) error {
	err := d.Step("look", path)
	if err == nil {
		err = unchanged(out, old)
	}
	if err != nil {
		return errors.Join(asChanged(err), putBack(out, path, data))
	}
	syncErr := d.SyncDir(filepath.Dir(path))
	if err := unchanged(out, old); err != nil {
		return errors.Join(asChanged(err), putBack(out, path, data))
	}
	return errors.Join(syncErr, os.Remove(out))
}

// putBack undoes the exchange after which out is the name of what somebody saved, and path that of our file with the content data.
// What came to path since then was saved later: that stays, and what was saved before it goes.
func putBack(out, path string, data []byte) error {
	ours := func() bool { return unchanged(out, data) == nil }
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

// renameUnchanged is for file systems that can't exchange two names.
func (d *Disk) renameUnchanged(from, path string, old []byte) error {
	if err := unchanged(path, old); err != nil {
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

// errWriting says that a program has a file open for writing.
var errWriting = errors.New("another program has it open for writing")

// asChanged is ErrChanged for a file that is being changed or was replaced by something else.
func asChanged(err error) error {
	if errors.Is(err, errWriting) || errors.As(err, new(*FileError)) {
		return fmt.Errorf("%w: %w", ErrChanged, err)
	}
	return err
}

// unchanged says why the file path is not one with the content old that nobody writes.
func unchanged(path string, old []byte) error {
	now, err := readOnce(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !bytes.Equal(now, old) {
		return ErrChanged
	}
	return err
}

func waitUnchanged(path string, old []byte) error {
	return waitWriter(path, func() error { return unchanged(path, old) })
}

// ReadSettled reads a regular file that nobody is writing at that moment, as far as the system tells (see Replace). It
// waits for whoever does: after ten seconds that is a *HeldError.
func ReadSettled(path string) (data []byte, err error) {
	err = waitWriter(path, func() (err error) {
		data, err = readOnce(path)
		return err
	})
	return data, err
}

// waitWriter does something again while somebody writes the file that it is about.
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

// readOnce reads a file whole. The error is errWriting when somebody writes it meanwhile, and a *FileError where it is not one
// that can be replaced.
func readOnce(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ELOOP) {
		err = ErrLink
	}
	if err != nil {
		return nil, unfitFile(path, MaxRecords, err)
	}
	defer f.Close()
	if err := regular(f, MaxRecords); err != nil {
		return nil, unfitFile(path, MaxRecords, err)
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
		return nil, unfitFile(path, MaxRecords, err)
	}
	if beingWritten(f) {
		return nil, errWriting
	}
	after, err := f.Stat() // last, so that what was written and closed until then shows
	if err == nil && (after.Size() != int64(len(data)) || !after.ModTime().Equal(before.ModTime())) {
		err = errWriting
	}
	return data, err
}
