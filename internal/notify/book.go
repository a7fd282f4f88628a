package notify

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const (
	// compactSize is the size from which a book is compacted if most of it is obsolete.
	compactSize = 256 << 10
	// lockTimeout bounds how long a change of the book waits for the lock, which others hold for milliseconds.
	lockTimeout = 2 * time.Second
)

// kind is the type of a record in the book.
type kind string

const (
	kindBegin   kind = "begin"   // the book was begun
	kindStatus  kind = "status"  // a task got a status
	kindEvent   kind = "event"   // something happened that is not a status
	kindSent    kind = "sent"    // a hook got it
	kindFailed  kind = "failed"  // a hook could not be reached or failed; it is tried again
	kindTrying  kind = "trying"  // a message to people is being sent; after a crash nobody knows whether it arrived
	kindDropped kind = "dropped" // a hook will not get it any more
)

// record is a line of notify.jsonl.
type record struct {
	At     time.Time `json:"at"`
	Kind   kind      `json:"kind"`
	ID     string    `json:"id,omitempty"` // of the event
	Task   string    `json:"task,omitempty"`
	Status string    `json:"status,omitempty"`
	To     []string  `json:"to,omitempty"` // keys of hooks
	Event  *Event    `json:"news,omitempty"`
	Hook   string    `json:"hook,omitempty"` // key
	Name   string    `json:"name,omitempty"` // of the hook, to show to people
	Error  string    `json:"error,omitempty"`
	Away   bool      `json:"away,omitempty"` // the hook could not be reached
	Tries  int       `json:"tries,omitempty"`
	IDs    []string  `json:"ids,omitempty"`   // of the events in one message
	Until  time.Time `json:"until,omitzero"`  // when the hook may be tried again
	State  string    `json:"state,omitempty"` // identifies the run and the plan in which a task has its status
	Run    int       `json:"run,omitempty"`   // number of the task's run
	Told   []string  `json:"told,omitempty"`  // key, state, key, state, ...: what people were told of a task
}

type book struct {
	begun        time.Time
	lastStatus   map[string]string    // status by task
	statusIDs    map[string]string    // id of the event for that status, by task
	mergeableIDs map[string]string    // id of the last mergeable event, by task
	statusTimes  map[string]time.Time // time of the last status, by task
	heldUntil    map[string]time.Time // until when a hook gets nothing, by hook
	runs         map[string]int       // how often a task was started again, by task
	toldStates   map[string]string    // state about which people were told last, by key (see toldKey)
	sentAt       map[string]time.Time // when people got the last message, by hook
	failing      map[string]Failing   // why people can't be told, by hook
	pending      []pending            // oldest first
	lines        int
	size         int
}

// pending is an event that a hook has not got yet.
type pending struct {
	event     *Event
	hook      string // key
	tries     int
	trying    bool      // a message with it was begun, and no result is recorded
	at        time.Time // of the last try
	heldUntil time.Time // until when the hook gets nothing
}

func (b *book) apply(r record) {
	b.lines++
	switch r.Kind {
	case kindBegin:
		b.begun = r.At
	case kindStatus:
		b.runs[r.Task] = max(r.Run, b.runNumber(r.Task, trellis.Status(r.Status)))
		b.lastStatus[r.Task], b.statusIDs[r.Task], b.statusTimes[r.Task] = r.Status, r.ID, r.At
		b.addPending(r)
	case kindEvent:
		if r.State == "" && len(r.Told) == 0 {
			b.mergeableIDs[r.Task] = r.ID
		}
		b.addPending(r)
	default:
		if len(r.IDs) > 0 {
			b.applyMessage(r)
			return
		}
		b.updateHold(r)
		for i, p := range b.pending {
			if p.event.ID == r.ID && p.hook == r.Hook {
				b.pending[i].tries, b.pending[i].at = p.tries+1, r.At
				if r.Kind != kindFailed {
					b.pending = append(b.pending[:i:i], b.pending[i+1:]...)
				}
				return
			}
		}
	}
}

// addPending queues the event for the hooks named in r that have not got it yet.
func (b *book) addPending(r record) {
	for i := 0; i+1 < len(r.Told); i += 2 {
		b.toldStates[r.Told[i]] = r.Told[i+1]
	}
	for _, key := range r.To {
		if r.Event != nil && r.State != "" {
			b.toldStates[toldKey(key, r.Event)] = r.State
		}
		waits := func(p pending) bool { return p.event.ID == r.ID && p.hook == key }
		if r.Event != nil && !slices.ContainsFunc(b.pending, waits) {
			b.pending = append(b.pending, pending{event: r.Event, hook: key, tries: r.Tries, heldUntil: b.heldUntil[key]})
		}
	}
}

// hasChange reports whether the book has the change that task.json holds; another process may have recorded it first.
func (b *book) hasChange(t *taskdir.Task) bool {
	id := changeIDPrefix(t)
	return (b.statusIDs[t.ID] == id || strings.HasPrefix(b.statusIDs[t.ID], id+":")) && !modTime(filepath.Join(t.Dir, taskdir.TaskJSON)).After(b.statusTimes[t.ID])
}

// updateHold makes all other events wait if the hook could not be reached, else none. The event that was tried has its own delay.
func (b *book) updateHold(r record) {
	until := time.Time{}
	if r.Away {
		until = r.At.Add(holdTime)
	}
	b.heldUntil[r.Hook] = until
	for i, p := range b.pending {
		if p.hook == r.Hook {
			b.pending[i].heldUntil = until
			if p.event.ID == r.ID {
				b.pending[i].heldUntil = time.Time{}
			}
		}
	}
}

func (n *Notifier) bookPath() string {
	return filepath.Join(n.Root, ".trellis", ".runtime", "notify.jsonl")
}

// readBook returns the current content of the book. It skips a line that can't be parsed.
func (n *Notifier) readBook() *book {
	b := &book{runs: map[string]int{}, toldStates: map[string]string{}, sentAt: map[string]time.Time{}, failing: map[string]Failing{}, lastStatus: map[string]string{}, statusIDs: map[string]string{}, mergeableIDs: map[string]string{}, statusTimes: map[string]time.Time{}, heldUntil: map[string]time.Time{}}
	data, _ := durable.Read(n.bookPath(), durable.MaxJournal) // no file means an empty book
	b.size = len(data)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			b.apply(r)
		}
	}
	return b
}

// write adds records to the book and starts sending their events. An error is only passed to Say.
func (n *Notifier) write(records func(*book) []record) {
	if len(n.configuredHooks()) == 0 {
		return
	}
	changed, err := n.addRecords(records)
	if err != nil {
		n.say("news of a task may get lost: %v", n.Redact(err.Error()))
	}
	if changed {
		n.StartSending()
	}
}

func (n *Notifier) addRecords(records func(*book) []record) (changed bool, err error) {
	if err := os.MkdirAll(filepath.Dir(n.bookPath()), 0o755); err != nil {
		return false, fmt.Errorf("making .trellis/.runtime: %w", err)
	}
	lock, err := durable.WaitLockFor(filepath.Join(filepath.Dir(n.bookPath()), "notify.lock"), durable.Holder{PID: os.Getpid(), Since: n.Now()}, lockTimeout)
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	b := n.readBook()
	if b.begun.IsZero() {
		if err := n.appendRecord(b, record{Kind: kindBegin}); err != nil {
			return false, err
		}
	}
	for _, r := range records(b) {
		if err := n.appendRecord(b, r); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, n.compact(b)
}

func (n *Notifier) appendRecord(b *book, r record) error {
	r.At = n.Now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding news: %w", err)
	}
	if err := n.Disk.Append(n.bookPath(), line, 0o600); err != nil {
		return err
	}
	b.size += len(line)
	b.apply(r)
	return nil
}

// compact rewrites a book that is mostly obsolete, without the events that were sent and without tasks that are gone. The
// previous book is kept as notify.1.jsonl.
func (n *Notifier) compact(b *book) error {
	if b.size < compactSize || b.lines < 2*(len(b.lastStatus)+len(b.pending)+1) {
		return nil
	}
	old, err := durable.Read(n.bookPath(), durable.MaxJournal)
	if err != nil {
		return fmt.Errorf("reading notify.jsonl: %w", err)
	}
	out := bytes.Buffer{}
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	lines := []record{{At: b.begun, Kind: kindBegin}}
	for _, p := range b.pending {
		kind := kindStatus
		if p.event.Event != "" {
			kind = kindEvent
		}
		lines = append(lines, record{At: p.event.At, Kind: kind, ID: p.event.ID, Task: p.event.Task, Status: string(p.event.Status), To: []string{p.hook}, Event: p.event, Tries: p.tries})
		if p.trying {
			lines = append(lines, record{At: p.at, Kind: kindTrying, IDs: []string{p.event.ID}, Hook: p.hook})
		}
	}
	for task, status := range b.lastStatus {
		if _, err := os.Stat(filepath.Join(n.Root, ".trellis", "tasks", task)); !errors.Is(err, fs.ErrNotExist) {
			lines = append(lines, record{At: n.Now().UTC(), Kind: kindStatus, ID: b.statusIDs[task], Task: task, Status: status, Run: b.runs[task], Told: b.toldStatesOf(task)})
			if id := b.mergeableIDs[task]; id != "" {
				lines = append(lines, record{At: n.Now().UTC(), Kind: kindEvent, ID: id, Task: task})
			}
		}
	}
	if told := b.toldStatesOf(""); len(told) > 0 { // about budgets of a day, and about watchers
		lines = append(lines, record{At: n.Now().UTC(), Kind: kindEvent, Told: told})
	}
	for hook, f := range b.failing {
		lines = append(lines, record{At: f.Since, Kind: kindFailed, IDs: []string{""}, Hook: hook, Name: f.Name, Error: f.Error, Until: b.heldUntil[hook]})
	}
	for _, r := range lines {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("encoding news: %w", err)
		}
	}
	if err := n.Disk.WriteFile(filepath.Join(filepath.Dir(n.bookPath()), "notify.1.jsonl"), old, 0o600); err != nil {
		return err
	}
	return n.Disk.WriteFile(n.bookPath(), out.Bytes(), 0o600)
}

// version identifies one content of a file.
type version struct {
	size    int64
	modTime time.Time
}

func versionOf(path string) version {
	st, err := os.Stat(path)
	if err != nil {
		return version{}
	}
	return version{st.Size(), st.ModTime()}
}

func modTime(path string) time.Time { return versionOf(path).modTime }
