// Package durable writes files that survive a power cut and takes locks that die with their holder.
//
// A file is replaced whole, so that a reader sees the old content or the new one and never half, and
// what was reported as written is still there after the machine lost power. Locks are flock(2) on a
// file that is never replaced, which the kernel frees however the holder ends.
package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// TempPrefix begins the name of a file that is being written. Whoever watches or lists a folder ignores such names.
const TempPrefix = ".tmp-"

// Disk writes files. The zero value and a nil *Disk are ready for use. It is safe for concurrent use by goroutines and processes;
// of several writers of one file the last one wins.
type Disk struct {
	// Fault, if set, is called before every step, and its error becomes the step's. Steps here are mkdir, create, truncate, write,
	// sync, rename, remove, look and syncdir; path is the file that the caller named, or the folder for mkdir and syncdir. Data is
	// then written in two halves with a call before each, so that a write can be torn.
	Fault func(step, path string) error
}

// Step calls Fault for a step that the caller is going to do itself.
func (d *Disk) Step(step, path string) error {
	if d == nil || d.Fault == nil {
		return nil
	}
	return d.Fault(step, path)
}

// WriteFile replaces the file path by one with the content data, or makes it with permission perm
// (before umask). A file that is there keeps its own permission, and a symbolic link is replaced, not followed.
//
// After an error the file has the old content, or the new one when only the folder could not be
// synced. A process killed on the way can leave a file named TempPrefix + base name, which the
// next WriteFile of the same path removes.
func (d *Disk) WriteFile(path string, data []byte, perm os.FileMode) error {
	return pathError("writing", path, d.writeFile(path, data, perm))
}

// pathError adds to an error, if there is one, what was being done to path.
func pathError(doing, path string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, path, err)
}

func (d *Disk) writeFile(path string, data []byte, perm os.FileMode) error {
	err := d.writeAndMove(path, data, perm, createTemp, func(temp *os.File) error {
		if err := d.Step("rename", path); err != nil {
			return err
		}
		return os.Rename(temp.Name(), path)
	})
	if err != nil {
		return err
	}
	return d.SyncDir(filepath.Dir(path))
}

// writeAndMove writes and syncs a file beside path, which create makes, and calls move to bring it to path. If that fails, it removes the
// file.
func (d *Disk) writeAndMove(path string, data []byte, perm os.FileMode, create func(string, os.FileMode) (*os.File, error), move func(temp *os.File) error) error {
	if err := d.Step("create", path); err != nil {
		return err
	}
	f, err := create(path, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	if err = d.fillTemp(f, path, data); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	made, err := f.Stat()
	if err == nil {
		err = move(f)
	}
	if now, statErr := os.Lstat(f.Name()); err != nil && statErr == nil && os.SameFile(now, made) {
		err = errors.Join(err, os.Remove(f.Name()))
	}
	return err
}

// fillTemp writes and syncs the temporary file f that is to become path.
func (d *Disk) fillTemp(f *os.File, path string, data []byte) error {
	if st, err := os.Lstat(path); err == nil && st.Mode().IsRegular() {
		if err := f.Chmod(st.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := d.Write(f, path, data); err != nil {
		return err
	}
	return d.Sync(f, path)
}

// createTemp creates the file that is going to become path, and locks it. It has a fixed name, so that the next write removes the
// file of a killed writer; only while another writer is at work on the same path is the name random.
func createTemp(path string, perm os.FileMode) (*os.File, error) {
	name := filepath.Join(filepath.Dir(path), TempPrefix+filepath.Base(path))
	removeAbandoned(name)
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err == nil {
		if lockErr := Flock(f, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(lockErr, unix.EWOULDBLOCK) && sameFile(f, name) {
			return f, nil // without lock support, nobody else takes it for abandoned either
		}
		f.Close() // another writer took it for abandoned before it was locked, and removes it
	} else if !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return createUnique(path, perm)
}

// createUnique creates a file that is going to become path, under a name that no other writer uses.
func createUnique(path string, perm os.FileMode) (*os.File, error) {
	return os.OpenFile(uniqueName(path), os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
}

// uniqueName returns a name beside path that nobody else uses.
func uniqueName(path string) string {
	return fmt.Sprintf("%s-%d-%x", filepath.Join(filepath.Dir(path), TempPrefix+filepath.Base(path)), os.Getpid(), rand.Uint64())
}

// removeAbandoned removes the temporary file of a writer that is gone: one that nobody has locked.
// While we hold its lock nobody else removes or renames it.
func removeAbandoned(name string) {
	f, err := OpenOwn(name, os.O_RDONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if Flock(f, unix.LOCK_EX|unix.LOCK_NB) == nil && sameFile(f, name) {
		os.Remove(name)
	}
}

// Write writes data to a file that the caller has opened, and calls Fault before each step.
func (d *Disk) Write(f *os.File, path string, data []byte) error {
	parts := [][]byte{data}
	if d != nil && d.Fault != nil {
		parts = [][]byte{data[:len(data)/2], data[len(data)/2:]}
	}
	for _, part := range parts {
		if err := d.Step("write", path); err != nil {
			return err
		}
		if _, err := f.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// Sync syncs a file that the caller has opened.
func (d *Disk) Sync(f *os.File, path string) error {
	if err := d.Step("sync", path); err != nil {
		return err
	}
	return f.Sync()
}

// SyncDir makes the names in the folder dir durable: files made, renamed and removed in it.
func (d *Disk) SyncDir(dir string) error {
	if err := d.Step("syncdir", dir); err != nil {
		return fmt.Errorf("syncing folder %s: %w", dir, err)
	}
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("syncing folder: %w", err)
	}
	defer f.Close()
	err = f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil // a file system that can't sync folders keeps names in order by itself or not at all
	}
	if err != nil {
		return fmt.Errorf("syncing folder: %w", err)
	}
	return nil
}

// Mkdir creates the folder dir. If it exists already, the error is fs.ErrExist.
func (d *Disk) Mkdir(dir string, perm os.FileMode) error {
	if err := d.Step("mkdir", dir); err != nil {
		return fmt.Errorf("making folder %s: %w", dir, err)
	}
	if err := os.Mkdir(dir, perm); err != nil {
		return fmt.Errorf("making folder: %w", err)
	}
	return d.SyncDir(filepath.Dir(dir))
}

// MkdirAll creates the folder dir and the missing folders above it.
func (d *Disk) MkdirAll(dir string, perm os.FileMode) error {
	st, err := os.Stat(dir)
	switch {
	case err == nil && st.IsDir():
		return nil
	case err == nil:
		return fmt.Errorf("making folder: %w", &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR})
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("making folder: %w", err)
	}
	if parent := filepath.Dir(dir); parent != dir {
		if err := d.MkdirAll(parent, perm); err != nil {
			return err
		}
	}
	err = d.Mkdir(dir, perm)
	if errors.Is(err, fs.ErrExist) { // another process has created it meanwhile
		if st, statErr := os.Stat(dir); statErr == nil && st.IsDir() {
			return d.SyncDir(filepath.Dir(dir))
		}
	}
	return err
}

// Rename moves a file or folder to a name that is free. It never replaces anything: a name that is
// taken, by an empty folder too, is an error (fs.ErrExist). When only a folder could not be
// synced, the move has happened all the same.
func (d *Disk) Rename(from, to string) error {
	if err := d.Step("rename", to); err != nil {
		return fmt.Errorf("renaming %s to %s: %w", from, to, err)
	}
	if err := renameFree(from, to); err != nil {
		return fmt.Errorf("renaming %s to %s: %w", from, to, err)
	}
	if err := d.SyncDir(filepath.Dir(to)); err != nil {
		return err
	}
	if filepath.Dir(from) == filepath.Dir(to) {
		return nil
	}
	return d.SyncDir(filepath.Dir(from))
}

// renameFree renames, and fails with EEXIST if the new name is taken.
func renameFree(from, to string) error {
	err := renameExclusive(from, to)
	if noExchange(err) {
		return renameChecked(from, to)
	}
	return err
}

// renameChecked is for file systems that can't refuse to replace by themselves. A file or an empty folder that appears at the new
// name between check and rename is replaced.
func renameChecked(from, to string) error {
	if _, err := os.Lstat(to); err == nil {
		return fs.ErrExist
	}
	return os.Rename(from, to)
}
