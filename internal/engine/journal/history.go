package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

const journalName = "journal.jsonl"

// History is the content of a journal at one moment. It does not change while the run goes on, and must not be modified.
type History struct {
	Run    string // <task>/<n>, from its Spec
	Flow   string
	Code   int
	Build  string // build that began the run
	Clone  string // clone in which the run began, "" if not recorded
	Input  json.RawMessage
	Began  time.Time
	Number int // number of the run in its folder: one more than the archived runs; without a run, the number of those

	Calls     []Entry // ordered by their first start
	Signals   []Signal
	Cancelled bool // the run was called off, possibly too late

	Ended   bool
	EndedAt time.Time
	End     *flow.Failure   // nil if it succeeded; code "cancelled" if it was called off
	Out     json.RawMessage // result of the flow, may be set with a Failure too
}

// Started returns when the first activity started, which may be long after the run was begun, or Began if none has.
func (h *History) Started() time.Time {
	if len(h.Calls) == 0 {
		return h.Began
	}
	return h.Calls[0].Started
}

// Entry is an activity, or a wait: sleep, or await:<signal>.
type Entry struct {
	ID       string // <scope>/<activity>#<n>
	Activity string
	Entries  int // number of starts; each but the last was cut off
	Started  time.Time
	Finished time.Time
	Done     bool
	In       json.RawMessage // input; for a wait, its limit in nanoseconds
	Out      json.RawMessage // result; for an Await, the signal's data
	Fail     *flow.Failure
}

// Signal is a message that the run received.
type Signal struct {
	ID    string // id of the message
	Name  string
	Data  json.RawMessage
	At    time.Time
	Taken bool // taken by an Await
}

// Empty reports whether the History has no run.
func (h *History) Empty() bool { return h.Run == "" }

// Read reads the journal of the run's folder without taking the lock. A record that a process is writing at the moment may be
// missing. Without a journal the error matches ErrNone. With ErrDamaged it also returns the history before the damage.
func Read(dir string) (*History, error) {
	h, err := ReadFile(filepath.Join(dir, journalName))
	if h == nil {
		return nil, err
	}
	earlier, listErr := archivedNumbers(dir)
	if listErr != nil {
		return nil, listErr
	}
	h.Number = earlier.last() + 1
	return h, err
}

// ReadFile is like Read for a single file, such as those that Archived lists. Number is the number in its name.
func ReadFile(path string) (*History, error) {
	got, err := readStable(path)
	if got.ledger == nil {
		return nil, err
	}
	h := got.ledger.history()
	h.Number = archiveNumber(filepath.Base(path))
	return h, err
}

// readStable reports damage only if it reads the same bytes twice: a torn end that is truncated and rewritten during the read
// looks like damage.
func readStable(path string) (scanResult, error) {
	var last []byte
	for {
		data, err := durable.ReadOwn(path, durable.MaxJournal)
		if errors.Is(err, fs.ErrNotExist) {
			return scanResult{}, fmt.Errorf("%s: %w", path, ErrNone)
		}
		if err != nil {
			return scanResult{}, fmt.Errorf("reading journal: %w", err)
		}
		got, err := scan(path, data)
		if err == nil || last != nil && bytes.Equal(data, last) {
			return got, err
		}
		last = append([]byte{}, data...)
	}
}

// Archived returns the paths of the journals of earlier runs in the folder, oldest first.
func Archived(dir string) ([]string, error) {
	numbers, err := archivedNumbers(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, n := range numbers {
		files = append(files, filepath.Join(dir, ArchiveName(n)))
	}
	return files, nil
}

// archive is the sorted list of the numbers of archived journals.
type archive []int

func (a archive) last() int {
	if len(a) == 0 {
		return 0
	}
	return a[len(a)-1]
}

// ArchiveName returns the file name of the journal of run n once another run follows it.
func ArchiveName(n int) string { return fmt.Sprintf("journal.%d.jsonl", n) }

// archiveNumber returns n for journal.n.jsonl, and 0 for other names.
func archiveNumber(name string) int {
	middle := strings.TrimSuffix(strings.TrimPrefix(name, "journal."), ".jsonl")
	n, err := strconv.Atoi(middle)
	if err != nil || n < 1 || name != ArchiveName(n) {
		return 0
	}
	return n
}

// archivedNumbers returns the numbers of the archived journals in dir. It leaves out one that is still the current journal as well, because of a crash
// between the two steps of putting it aside.
func archivedNumbers(dir string) (archive, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing journals: %w", err)
	}
	current, _ := os.Lstat(filepath.Join(dir, journalName))
	var found archive
	for _, e := range entries {
		n := archiveNumber(e.Name())
		if n == 0 {
			continue
		}
		if st, err := e.Info(); err == nil && !os.SameFile(st, current) {
			found = append(found, n)
		}
	}
	slices.Sort(found)
	return found, nil
}

// history returns a copy of the ledger's content for callers to keep.
func (l *ledger) history() *History {
	h := &History{Cancelled: l.cancelled}
	if l.spec == nil {
		return h
	}
	h.Run, h.Flow, h.Code, h.Build = l.spec.Run, l.spec.Flow, l.spec.Code, l.spec.Build
	h.Clone = l.spec.Clone
	h.Input, h.Began = l.spec.In, l.spec.At
	for _, c := range l.calls {
		h.Calls = append(h.Calls, c.entry())
	}
	for _, s := range l.signals {
		h.Signals = append(h.Signals, Signal{s.ID, s.Name, s.In, s.At, s.taken})
	}
	if l.end != nil {
		h.Ended, h.EndedAt, h.Out = true, l.end.At, l.end.Out
		h.End = copyFailure(l.end.Fail)
	}
	return h
}

func (c *call) entry() Entry {
	e := Entry{ID: c.id, Activity: c.name, Entries: c.tries, Started: c.started, In: c.in}
	if c.done == nil {
		return e
	}
	e.Done, e.Finished, e.Out, e.Fail = true, c.done.At, c.done.Out, copyFailure(c.done.Fail)
	if c.takenSignal != nil {
		e.Out = c.takenSignal.In
	}
	return e
}

func copyFailure(f *flow.Failure) *flow.Failure {
	if f == nil {
		return nil
	}
	c := *f
	return &c
}
