package runner

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// foldAt is the size of a day's file beyond which its lines are replaced by their sum.
const foldAt = 1 << 20

// headSize is so much of the beginning of a day's file as tells it from the one that replaces it.
const headSize = 64

// spending is a line of the ledger.
type spending struct {
	Folded int64         `json:"folded,omitempty"` // it is the sum of lines, of so many bytes since midnight
	Task   string        `json:"task"`
	Call   string        `json:"call"`
	Used   trellis.Usage `json:"used"`
}

// sum is what the lines of data tell.
func sum(data []byte) (all spending) {
	for line := range bytes.Lines(data) {
		var s spending
		if json.Unmarshal(line, &s) == nil {
			all.Used, all.Folded = all.Used.Add(s.Used), all.Folded+s.Folded
		}
	}
	return all
}

// appendLine writes a line by itself, whatever end a torn one before it has, and folds a file that got large.
func appendLine(d *durable.Disk, path string, line []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := openLocked(path, syscall.LOCK_SH)
	if err != nil {
		return err
	}
	_, err = f.Write(append(append([]byte{'\n'}, line...), '\n'))
	st, statErr := f.Stat()
	err = errors.Join(err, statErr, f.Close())
	if err == nil && st.Size() > foldAt {
		_ = fold(d, path) // the next one tries again
	}
	return err
}

// openLocked opens the file that path names now. Who holds it shared may append to it, and who holds it alone may
// replace it: so no line goes into a file that was replaced.
func openLocked(path string, how int) (*os.File, error) {
	for {
		f, err := durable.OpenOwn(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		if err := flock(f, how); err != nil {
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		}
		mine, err := f.Stat()
		named, statErr := os.Stat(path)
		if err == nil && statErr == nil && os.SameFile(mine, named) {
			return f, nil
		}
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, err
		}
		if statErr != nil && !errors.Is(statErr, fs.ErrNotExist) {
			return nil, statErr
		}
	}
}

func flock(f *os.File, how int) error {
	for {
		if err := syscall.Flock(int(f.Fd()), how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// fold replaces the lines of a file by one that is their sum, unless somebody writes or folds just now.
func fold(d *durable.Disk, path string) error {
	f, err := openLocked(path, syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		return err
	}
	defer f.Close()
	data, err := io.ReadAll(f)
	if err != nil || len(data) <= foldAt {
		return err
	}
	all := sum(data)
	all.Folded += int64(len(data))
	line, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding what was used today: %w", err)
	}
	return d.WriteFile(path, append(line, '\n'), 0o600)
}
