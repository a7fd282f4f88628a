package durable

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

var (
	// ErrIrregular says that a path is no file with content: a pipe, a socket, a device. A folder is EISDIR.
	ErrIrregular = errors.New("it is no regular file")
	// ErrTooLarge says that a file is larger than whoever reads it wants to have in memory.
	ErrTooLarge = errors.New("it is too large")
)

// OpenBelow opens a regular file of at most max bytes below a folder in which programs that nobody trusts write. It follows
// no link that leads out of the folder, and waits for nobody at the other end of a pipe. Errors besides those of the file
// system are ErrIrregular and ErrTooLarge. The file may grow: who reads it stops at what they want.
func OpenBelow(dir, name string, max int64) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if err := regular(f, max); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadBelow is OpenBelow and what is in the file: it takes no more memory than max. A file that grows beyond that while it is
// read is ErrTooLarge.
func ReadBelow(dir, name string, max int64) ([]byte, error) {
	f, err := OpenBelow(dir, name, max)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(data)) > max {
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: ErrTooLarge}
	}
	return data, err
}

func regular(f *os.File, max int64) error {
	st, err := f.Stat()
	switch {
	case err == nil && st.IsDir():
		err = syscall.EISDIR
	case err == nil && !st.Mode().IsRegular():
		err = ErrIrregular
	}
	if err == nil && st.Size() > max {
		err = fmt.Errorf("%w: %d bytes", ErrTooLarge, st.Size())
	}
	if err != nil {
		return &fs.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	return nil
}
