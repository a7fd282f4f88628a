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
	// fullAt is the size of a book that is written anew when most of it is of no use any more.
	fullAt = 256 << 10
	// lockWait bounds how long a change of the book waits for others, which need milliseconds.
	lockWait = 2 * time.Second
)

// kind is what a line of the book is about.
type kind string

const (
	kindBegin   kind = "begin"   // the book was begun
	kindStatus  kind = "status"  // a task got a status
	kindEvent   kind = "event"   // something happened to a task that is no status
	kindSent    kind = "sent"    // a hook was told
	kindFailed  kind = "failed"  // a hook could not be told, and will be tried again
	kindTrying  kind = "trying"  // a person is being told; after a crash nobody knows whether it arrived
	kindDropped kind = "dropped" // a hook is not told any more
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
	Name   string    `json:"name,omitempty"` // of the hook, for people
	Error  string    `json:"error,omitempty"`
	Away   bool      `json:"away,omitempty"` // the hook could not be reached
	Tries  int       `json:"tries,omitempty"`
	IDs    []string  `json:"ids,omitempty"`   // of the events of one message
	Until  time.Time `json:"until,omitzero"`  // when the hook may be told again
	State  string    `json:"state,omitempty"` // in which run, and with which plan, a task has its status
	Run    int       `json:"run,omitempty"`   // which of a task's runs it is
	Told   []string  `json:"told,omitempty"`  // keys of what people were told of a task, and its state, in turn
}

type book struct {
	begin   time.Time
	last    map[string]string    // status by task
	ids     map[string]string    // of the event that was sent of it
	events  map[string]string    // the last event by task
	at      map[string]time.Time // of that
	away    map[string]time.Time // until when a hook is left alone
	runs    map[string]int       // by task: how often it began again
	told    map[string]string    // by hook, task and status: its state
	sent    map[string]time.Time // by hook: when people were told last
	failing map[string]Failing   // by hook: why people can't be told
	pending []pending            // oldest first
	lines   int
	size    int
}

// pending is an event that a hook has not got.
type pending struct {
	event  *Event
	hook   string // key
	tries  int
	trying bool      // and nobody said what came of it
	at     time.Time // of the last try
	hold   time.Time // until when the hook is left alone
}

func (b *book) take(r record) {
	b.lines++
	switch r.Kind {
	case kindBegin:
		b.begin = r.At
	case kindStatus:
		b.runs[r.Task] = max(r.Run, b.run(r.Task, trellis.Status(r.Status)))
		b.last[r.Task], b.ids[r.Task], b.at[r.Task] = r.Status, r.ID, r.At
		b.addPending(r)
	case kindEvent:
		if r.State == "" && len(r.Told) == 0 {
			b.events[r.Task] = r.ID
		}
		b.addPending(r)
	default:
		if len(r.IDs) > 0 {
			b.takeMessage(r)
			return
		}
		b.holdBack(r)
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

// addPending adds what the hooks that a line names have not got yet.
func (b *book) addPending(r record) {
	for i := 0; i+1 < len(r.Told); i += 2 {
		b.told[r.Told[i]] = r.Told[i+1]
	}
	for _, key := range r.To {
		if r.Event != nil && r.State != "" {
			b.told[told(key, r.Event)] = r.State
		}
		waits := func(p pending) bool { return p.event.ID == r.ID && p.hook == key }
		if r.Event != nil && !slices.ContainsFunc(b.pending, waits) {
			b.pending = append(b.pending, pending{event: r.Event, hook: key, tries: r.Tries, hold: b.away[key]})
		}
	}
}

// has reports whether the book has the change that task.json holds: another process may have been first to write it.
func (b *book) has(t *taskdir.Task) bool {
	id := change(t)
	return (b.ids[t.ID] == id || strings.HasPrefix(b.ids[t.ID], id+":")) && !written(filepath.Join(t.Dir, taskdir.TaskJSON)).After(b.at[t.ID])
}

// holdBack has all other events wait for a hook that could not be reached. The one that was tried has a time of its own.
func (b *book) holdBack(r record) {
	until := time.Time{}
	if r.Away {
		until = r.At.Add(holdTime)
	}
	b.away[r.Hook] = until
	for i, p := range b.pending {
		if p.hook == r.Hook {
			b.pending[i].hold = until
			if p.event.ID == r.ID {
				b.pending[i].hold = time.Time{}
			}
		}
	}
}

func (n *Notifier) path() string {
	return filepath.Join(n.Root, ".trellis", ".runtime", "notify.jsonl")
}

// read is the book as it is. A line that can't be read is passed over.
func (n *Notifier) read() *book {
	b := &book{runs: map[string]int{}, told: map[string]string{}, sent: map[string]time.Time{}, failing: map[string]Failing{}, last: map[string]string{}, ids: map[string]string{}, events: map[string]string{}, at: map[string]time.Time{}, away: map[string]time.Time{}}
	data, _ := durable.Read(n.path(), durable.MaxJournal) // none: an empty one
	b.size = len(data)
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, len(data)+1)
	for lines.Scan() {
		var r record
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			b.take(r)
		}
	}
	return b
}

// write adds records to the book and has their events sent. An error is only said.
func (n *Notifier) write(records func(*book) []record) {
	if len(n.configured()) == 0 {
		return
	}
	changed, err := n.locked(records)
	if err != nil {
		n.say("news of a task may get lost: %v", n.Redact(err.Error()))
	}
	if changed {
		n.Poke()
	}
}

func (n *Notifier) locked(records func(*book) []record) (changed bool, err error) {
	if err := os.MkdirAll(filepath.Dir(n.path()), 0o755); err != nil {
		return false, fmt.Errorf("making .trellis/.runtime: %w", err)
	}
	lock, err := durable.WaitLockFor(filepath.Join(filepath.Dir(n.path()), "notify.lock"), durable.Holder{PID: os.Getpid(), Since: n.Now()}, lockWait)
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	b := n.read()
	if b.begin.IsZero() {
		if err := n.add(b, record{Kind: kindBegin}); err != nil {
			return false, err
		}
	}
	for _, r := range records(b) {
		if err := n.add(b, r); err != nil {
			return changed, err
		}
		changed = true
	}
	return changed, n.compact(b)
}

func (n *Notifier) add(b *book, r record) error {
	r.At = n.Now().UTC()
	line, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding news: %w", err)
	}
	if err := n.Disk.Append(n.path(), line, 0o600); err != nil {
		return err
	}
	b.size += len(line)
	b.take(r)
	return nil
}

// compact writes a book anew that is mostly of no use: without what was sent, and without tasks that are gone. The
// one before is kept as notify.1.jsonl.
func (n *Notifier) compact(b *book) error {
	if b.size < fullAt || b.lines < 2*(len(b.last)+len(b.pending)+1) {
		return nil
	}
	old, err := durable.Read(n.path(), durable.MaxJournal)
	if err != nil {
		return fmt.Errorf("reading notify.jsonl: %w", err)
	}
	out := bytes.Buffer{}
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	lines := []record{{At: b.begin, Kind: kindBegin}}
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
	for task, status := range b.last {
		if _, err := os.Stat(filepath.Join(n.Root, ".trellis", "tasks", task)); !errors.Is(err, fs.ErrNotExist) {
			lines = append(lines, record{At: n.Now().UTC(), Kind: kindStatus, ID: b.ids[task], Task: task, Status: status, Run: b.runs[task], Told: b.toldOf(task)})
			if id := b.events[task]; id != "" {
				lines = append(lines, record{At: n.Now().UTC(), Kind: kindEvent, ID: id, Task: task})
			}
		}
	}
	if told := b.toldOf(""); len(told) > 0 { // of the day, and of watchers
		lines = append(lines, record{At: n.Now().UTC(), Kind: kindEvent, Told: told})
	}
	for hook, f := range b.failing {
		lines = append(lines, record{At: f.Since, Kind: kindFailed, IDs: []string{""}, Hook: hook, Name: f.Name, Error: f.Error, Until: b.away[hook]})
	}
	for _, r := range lines {
		if err := enc.Encode(r); err != nil {
			return fmt.Errorf("encoding news: %w", err)
		}
	}
	if err := n.Disk.WriteFile(filepath.Join(filepath.Dir(n.path()), "notify.1.jsonl"), old, 0o600); err != nil {
		return err
	}
	return n.Disk.WriteFile(n.path(), out.Bytes(), 0o600)
}

// version tells one content of a file from another.
type version struct {
	size int64
	at   time.Time
}

func versionOf(path string) version {
	st, err := os.Stat(path)
	if err != nil {
		return version{}
	}
	return version{st.Size(), st.ModTime()}
}

func written(path string) time.Time { return versionOf(path).at }
