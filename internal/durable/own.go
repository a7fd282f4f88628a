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
	if err == nil {
		if err = regular(f, 1<<62); err != nil {
			f.Close()
		}
	}
	if err != nil {
		return nil, unfitFile(path, 0, err)
	}
	return f, nil
}
