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
	// ErrIrregular says that a path is no file with content: a folder, a pipe, a socket, a device.
	ErrIrregular = errors.New("it is no regular file")
	// ErrTooLarge says that a file is larger than whoever reads it wants to have in memory.
	ErrTooLarge = errors.New("it is too large")
)

// ReadBelow reads a regular file of at most max bytes below a folder in which programs that nobody trusts write. It
// follows no link that leads out of the folder, waits for nobody at the other end of a pipe, and takes no more memory than
// that. Errors besides those of the file system are ErrIrregular and ErrTooLarge.
func ReadBelow(dir, name string, max int64) ([]byte, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	f, err := root.OpenFile(filepath.FromSlash(name), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readRegular(f, max)
}

func readRegular(f *os.File, max int64) ([]byte, error) {
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = ErrIrregular
	}
	if err == nil && st.Size() > max {
		err = fmt.Errorf("%w: %d bytes", ErrTooLarge, st.Size())
	}
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: f.Name(), Err: err}
	}
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(data)) > max { // it grew meanwhile
		err = &fs.PathError{Op: "read", Path: f.Name(), Err: ErrTooLarge}
	}
	return data, err
}
