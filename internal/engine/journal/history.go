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

// History is what a journal says at one moment. It stays as it is while the run goes on, and is not to be changed.
type History struct {
	Run    string // <task>/<n>, as its Spec says
	Flow   string
	Code   int
	Build  string // that began it
	Clone  string // in which it began, "" where nobody noted that
	Input  json.RawMessage
	Began  time.Time
	Number int // of the run in its folder: 1 plus those put aside before it; without a run, those put aside

	Calls     []Entry // in the order in which they first started
	Signals   []Signal
	Cancelled bool // somebody called the run off, which it may have been too late for

	Ended   bool
	EndedAt time.Time
	End     *flow.Failure   // nil if it ended well; code "cancelled" if it was called off
	Out     json.RawMessage // result of the flow, also next to a Failure
}

// Started is when the first activity started: a run may be asked for long before somebody starts it. Without one it is Began.
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
	Entries  int // times it was started; above Done it was cut off
	Started  time.Time
	Finished time.Time
	Done     bool
	In       json.RawMessage // of a wait: its limit in nanoseconds
	Out      json.RawMessage // of an Await: the signal's data
	Fail     *flow.Failure
}

// Signal is a message that came in.
type Signal struct {
	ID    string // of the message
	Name  string
	Data  json.RawMessage
	At    time.Time
	Taken bool // by an Await
}

// Empty reports whether there is no run.
func (h *History) Empty() bool { return h.Run == "" }

// Read reads the journal of the run's folder, for those who only look. It takes no lock and disturbs nobody:
// what a process is just writing is not there yet. Without a journal the error matches ErrNone. With
// ErrDamaged it returns what stands before the damage too.
func Read(dir string) (*History, error) {
	h, err := ReadFile(filepath.Join(dir, journalName))
	if h == nil {
		return nil, err
	}
	earlier, listErr := archived(dir)
	if listErr != nil {
		return nil, listErr
	}
	h.Number = earlier.last() + 1
	return h, err
}

// ReadFile is Read for one file, such as those that Archived lists. Number is the one in its name.
func ReadFile(path string) (*History, error) {
	got, err := readStable(path)
	if got.book == nil {
		return nil, err
	}
	h := got.book.history()
	h.Number = number(filepath.Base(path))
	return h, err
}

// readStable believes in damage only if it finds the same bytes twice: a torn end that is cut and
// written anew while it reads looks like damage.
func readStable(path string) (reading, error) {
	var last []byte
	for {
		data, err := durable.ReadOwn(path, durable.MaxJournal)
		if errors.Is(err, fs.ErrNotExist) {
			return reading{}, fmt.Errorf("%s: %w", path, ErrNone)
		}
		if err != nil {
			return reading{}, fmt.Errorf("reading journal: %w", err)
		}
		got, err := scan(path, data)
		if err == nil || last != nil && bytes.Equal(data, last) {
			return got, err
		}
		last = append([]byte{}, data...)
	}
}

// Archived are the journals of earlier runs in the folder, oldest first.
func Archived(dir string) ([]string, error) {
	numbers, err := archived(dir)
	if err != nil {
		return nil, err
	}
	var files []string
	for _, n := range numbers {
		files = append(files, filepath.Join(dir, ArchiveName(n)))
	}
	return files, nil
}

// archive holds the numbers of the journals put aside.
type archive []int

func (a archive) last() int {
	if len(a) == 0 {
		return 0
	}
	return a[len(a)-1]
}

// ArchiveName is the name of the file in which the journal of a run is kept when another one follows it.
func ArchiveName(n int) string { return fmt.Sprintf("journal.%d.jsonl", n) }

// number is n for journal.n.jsonl, 0 for other names.
func number(name string) int {
	middle := strings.TrimSuffix(strings.TrimPrefix(name, "journal."), ".jsonl")
	n, err := strconv.Atoi(middle)
	if err != nil || n < 1 || name != ArchiveName(n) {
		return 0
	}
	return n
}

// archived lists the journals put aside in dir. One that is still the current one too, because a crash
// came between its two names, does not count.
func archived(dir string) (archive, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing journals: %w", err)
	}
	current, _ := os.Lstat(filepath.Join(dir, journalName))
	var found archive
	for _, e := range entries {
		n := number(e.Name())
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

// history is the ledger for others to keep.
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
		h.End = copied(l.end.Fail)
	}
	return h
}

func (c *call) entry() Entry {
	e := Entry{ID: c.id, Activity: c.name, Entries: c.tries, Started: c.started, In: c.in}
	if c.done == nil {
		return e
	}
	e.Done, e.Finished, e.Out, e.Fail = true, c.done.At, c.done.Out, copied(c.done.Fail)
	if c.took != nil {
		e.Out = c.took.In
	}
	return e
}

func copied(f *flow.Failure) *flow.Failure {
	if f == nil {
		return nil
	}
	c := *f
	return &c
}
