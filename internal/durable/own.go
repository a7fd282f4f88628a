package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// RealFolder returns an error unless dir is a folder to write into: a link would lead writes elsewhere. If dir doesn't exist yet,
// the error is fs.ErrNotExist.
func RealFolder(dir string) error {
	st, err := os.Lstat(dir)
	switch {
	case err != nil:
		return fileError(dir, 0, err)
	case st.Mode()&fs.ModeSymlink != 0:
		return &FileError{Path: dir, Err: ErrLink}
	case !st.IsDir():
		return &FileError{Path: dir, Err: syscall.ENOTDIR}
	}
	return nil
}

// CheckOwn returns an error unless OpenOwn opens the file.
func CheckOwn(path string) error {
	f, err := OpenOwn(path, os.O_RDONLY, 0)
	if err == nil {
		err = f.Close()
	}
	return err
}

// OpenOwn opens a file that is written in place, such as a lock or a log, in a folder where others can write. It returns an error
// if the file or its folder is a link, or if the file is not a regular one. Flags are those of os.OpenFile.
func OpenOwn(path string, flags int, perm os.FileMode) (*os.File, error) {
	if err := RealFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, flags|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, perm)
	if errors.Is(err, syscall.ELOOP) {
		err = ErrLink
	}
	if f, err = ifRegular(f, AnySize, err); err != nil {
		return nil, fileError(path, 0, err)
	}
	return f, nil
}

// WriteOwn writes a file in place, for callers that can do without the file after a crash; see OpenOwn for the files that it
// accepts.
func WriteOwn(path string, data []byte, perm os.FileMode) error {
	f, err := OpenOwn(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, perm)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Close())
}

// WriteBelow writes a file below a folder in which others write. It follows no link out of that folder, and writes only to regular
// files, not to a pipe that nobody reads.
func WriteBelow(dir, name string, data []byte, perm os.FileMode) error {
	name = filepath.FromSlash(name)
	f, err := createBelow(dir, name, perm)
	if err != nil {
		return fileError(filepath.Join(dir, name), 0, err)
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
