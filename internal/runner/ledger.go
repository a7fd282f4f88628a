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
	"sync"
	"syscall"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// foldAt is the size of a day's file beyond which its lines are replaced by their sum.
const foldAt = 1 << 20

// headSize is how many bytes at the beginning of a day's file tell it from a file that replaces it.
const headSize = 64

// spending is one line of the ledger.
type spending struct {
	Folded int64         `json:"folded,omitempty"` // bytes since midnight that the line is the sum of; 0: it is not a sum
	Task   string        `json:"task"`
	Call   string        `json:"call"`
	Used   trellis.Usage `json:"used"`
}

func sum(data []byte) (all spending) {
	for line := range bytes.Lines(data) {
		var s spending
		if json.Unmarshal(line, &s) == nil {
			all.Used, all.Folded = all.Used.Add(s.Used), all.Folded+s.Folded
		}
	}
	return all
}

// appendLine writes a line of its own, even after a torn one, and folds a file that has become large.
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
		_ = fold(d, path) // the next append tries again
	}
	return err
}

// openLocked opens and locks the file that path names now. Who holds a shared lock may append to it, and who holds the
// exclusive one may replace it, so no line goes into a file that was replaced.
func openLocked(path string, how int) (*os.File, error) {
	for {
		f, err := durable.OpenOwn(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		if err := durable.Flock(f, how); err != nil {
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

// fold replaces the lines of a file by one with their sum, unless another process is writing or folding.
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

// dayLedger is what the agents of a repository used on a day: a file per day, with a line for each time that an agent reported
// usage. All processes append to it, each line in one write, and read what the others wrote. Lines are not synced; torn and
// foreign lines are ignored. A large file is folded into one line.
type dayLedger struct {
	mu   sync.Mutex
	day  string
	read int64         // bytes of that day's file that were read
	head []byte        // first bytes of that file
	used trellis.Usage // usage in the lines that were read
	lost trellis.Usage // usage in lines that could not be written
}

// keepDays is how many daily ledgers are kept.
const keepDays = 14

// add appends a line. If the line can't be written, it still counts in this process.
func (l *dayLedger) add(d *durable.Disk, dir string, now time.Time, line []byte, used trellis.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changeDay(dir, now)
	path := filepath.Join(dir, l.day+".jsonl")
	if err := errors.Join(d.Step("note", path), appendLine(d, path, line)); err != nil {
		l.lost = l.lost.Add(used)
	}
}

// changeDay changes to the file of a new day, and removes old files.
func (l *dayLedger) changeDay(dir string, now time.Time) {
	day := now.Format(time.DateOnly)
	if day == l.day {
		return
	}
	l.day, l.lost = day, trellis.Usage{}
	l.reset()
	names, _ := filepath.Glob(filepath.Join(dir, "????-??-??.jsonl")) // sorted; old files that stay are removed on another day
	for _, name := range names[:max(0, len(names)-keepDays)] {        // by number, so that a clock that is briefly ahead makes none of them old
		os.Remove(name)
	}
}

func (l *dayLedger) reset() { l.read, l.head, l.used = 0, nil, trellis.Usage{} }

// total reads what was written since the last read, and returns the usage of the day.
func (l *dayLedger) total(dir string, now time.Time) (trellis.Usage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.changeDay(dir, now)
	f, err := durable.OpenBelow(dir, l.day+".jsonl", durable.AnySize)
	if errors.Is(err, fs.ErrNotExist) {
		l.reset()
		return l.lost, nil
	}
	if err != nil {
		return l.lost, err
	}
	defer f.Close()
	head := make([]byte, headSize)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return l.lost, err
	}
	if st, err := f.Stat(); err == nil && st.Size() < l.read || !bytes.HasPrefix(head[:n], l.head) { // folded or replaced
		l.reset()
	}
	l.head = head[:n]
	data, err := io.ReadAll(io.NewSectionReader(f, l.read, durable.MaxJournal))
	if err != nil {
		return l.lost, err
	}
	data = data[:bytes.LastIndexByte(data, '\n')+1]
	l.read += int64(len(data))
	l.used = l.used.Add(sum(data).Used)
	return l.used.Add(l.lost), nil
}
