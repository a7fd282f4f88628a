package durable

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/patience"
)

// appendWait bounds how long Append waits for other appenders, which need milliseconds.
const appendWait = 10 * time.Second

// Append adds one line to the JSON-lines file path, which it creates with permission perm (before umask) if it doesn't exist. A
// newline is added if line has none. Appenders of several processes wait for each other; a writer that replaces the file
// (WriteFile) needs a further lock that the appenders take, too.
//
// A last line without a newline is never joined with the new one: if it is a whole JSON value, as an editor may leave it, it is
// ended first; anything else is the rest of a write that was cut off and never reported as written, and is removed. After an error
// the file has its old lines as far as the disk allows, or the new one too if only the folder could not be synced.
func (d *Disk) Append(path string, line []byte, perm os.FileMode) error {
	return pathError("appending to", path, d.append(path, line, perm))
}

func (d *Disk) append(path string, line []byte, perm os.FileMode) error {
	if err := d.Step("create", path); err != nil {
		return err
	}
	f, err := openForAppend(path, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	size, open, err := d.repairTail(f, path)
	if err != nil {
		return err
	}
	if err := d.appendLine(f, path, line, open); err != nil {
		return errors.Join(err, f.Truncate(size))
	}
	return d.SyncDir(filepath.Dir(path))
}

func (d *Disk) appendLine(f *os.File, path string, line []byte, open bool) error {
	var b bytes.Buffer
	if open {
		b.WriteByte('\n')
	}
	b.Write(bytes.TrimSuffix(line, []byte("\n")))
	b.WriteByte('\n')
	if err := d.Write(f, path, b.Bytes()); err != nil {
		return err
	}
	return d.Sync(f, path)
}

// openForAppend opens and locks the file, so that no appender sees another's half-written line.
func openForAppend(path string, perm os.FileMode) (*os.File, error) {
	for wait := patience.New(appendWait); ; time.Sleep(time.Millisecond) {
		f, err := OpenOwn(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, perm)
		if err != nil {
			return nil, err
		}
		err = Flock(f, unix.LOCK_EX|unix.LOCK_NB)
		if err == nil && sameFile(f, path) {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking it: %w", err)
		}
		if wait.Over() {
			return nil, fmt.Errorf("another process has been writing it for %v", appendWait)
		}
	}
}

// repairTail removes a torn last line. It returns the size of the file and whether its last line still lacks the newline.
func (d *Disk) repairTail(f *os.File, path string) (size int64, open bool, err error) {
	st, err := f.Stat()
	if err != nil || st.Size() == 0 {
		return 0, false, err
	}
	size = st.Size()
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil || last[0] == '\n' {
		return size, false, err
	}
	tail, err := lastLine(f, size)
	if err != nil {
		return size, false, fileError(path, MaxRecords, err)
	}
	if wholeRecord(tail) {
		return size, true, nil
	}
	if err := d.Step("truncate", path); err != nil {
		return size, false, err
	}
	begin := size - int64(len(tail))
	return begin, false, f.Truncate(begin)
}

// lastLine returns the text after the last newline of a file, and ErrTooLarge if that is longer than any record.
func lastLine(f *os.File, size int64) ([]byte, error) {
	from := max(0, size-MaxRecords)
	data := make([]byte, size-from)
	if _, err := f.ReadAt(data, from); err != nil {
		return nil, err
	}
	begin := bytes.LastIndexByte(data, '\n') + 1
	if begin == 0 && from > 0 {
		return nil, ErrTooLarge
	}
	return data[begin:], nil
}

// wholeRecord reports whether line is a JSON object or array; a part of one never is, unlike 12, which is a part of 123.
func wholeRecord(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) > 0 && (line[0] == '{' || line[0] == '[') && json.Valid(line)
}
