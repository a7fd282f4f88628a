package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// RealFolder says why dir is not a folder to write into: a link would lead what is written elsewhere. One that is not there
// yet is fs.ErrNotExist.
func RealFolder(dir string) error {
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return unfitFile(dir, 0, err)
	case st.Mode()&fs.ModeSymlink != 0:
		return &FileError{Path: dir, Err: ErrLink}
	case !st.IsDir():
		return &FileError{Path: dir, Err: syscall.ENOTDIR}
	}
	return nil
}

// CheckOwn says why a file is none that OpenOwn opens.
func CheckOwn(path string) error {
	f, err := OpenOwn(path, os.O_RDONLY, 0)
	if err == nil {
		err = f.Close()
	}
	return err
}

// OpenOwn opens a file that is written in its place, a lock or a log, in a folder where others can write: the file is no
// link, nor is its folder, and it is a regular one. Flags are those of os.OpenFile.
func OpenOwn(path string, flags int, perm os.FileMode) (*os.File, error) {
	if err := RealFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if errors.Is(err, syscall.ELOOP) {
		err = ErrLink
	}
	if f, err = ifRegular(f, AnySize, err); err != nil {
		return nil, unfitFile(path, 0, err)
	}
	return f, nil
}

// WriteOwn writes a file in its place, for who can do without it after a crash; OpenOwn says which.
func WriteOwn(path string, data []byte, perm os.FileMode) error {
	f, err := OpenOwn(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// WriteBelow writes a file below a folder in which others write: through no link that leads out of it, and into nothing that
// is no file, a pipe that nobody reads.
func WriteBelow(dir, name string, data []byte, perm os.FileMode) error {
	name = filepath.FromSlash(name)
	f, err := createBelow(dir, name, perm)
	if err != nil {
		return unfitFile(filepath.Join(dir, name), 0, err)
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

func createBelow(dir, name string, perm os.FileMode) (*os.File, error) {
	root, err := openRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return nil, err
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|syscall.O_NONBLOCK, perm)
	return ifRegular(f, AnySize, err)
}
