// Package traces sends what runs did as spans to a collector of OpenTelemetry, by OTLP over HTTP: a run, its phases, and in them
// calls of agents, commands, waits and deliveries. Spans are made from the journal of a run once something is over, so what is to
// be sent waits in no queue; their ids follow from the run, so that a run which is cut off and goes on makes no span twice. Nothing here
// slows or fails a run.
package traces

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Tracer sends spans of runs, one request at a time, from a goroutine that begins with the first of them. A nil Tracer does
// nothing. Several goroutines may use it.
type Tracer struct {
	to      sender
	redact  func(string) string
	begin   sync.Once
	wake    chan struct{}
	over    chan struct{} // closed by Close: what is left is tried once
	stopped chan struct{} // closed when nothing is sent any more
	ctx     context.Context
	stop    context.CancelFunc

	mu    sync.Mutex
	dirty map[string]bool // folders of runs to which something was written
	tell  func(string)    // of who followed a run last
	told  bool            // that spans were lost

	sent map[string]*memory // by folder; for the one goroutine
}

// New sends spans to where the settings say. redact masks known secrets; nil: nothing is masked.
func New(s Settings, version string, redact func(string) string) *Tracer {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	t := &Tracer{to: sender{Settings: s, version: version}, redact: redact, wake: make(chan struct{}, 1), over: make(chan struct{}), stopped: make(chan struct{}), dirty: map[string]bool{}, sent: map[string]*memory{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// Follow has the run in a task's directory followed: what it returns is called when something was written to the journal, and
// never waits. tell is told once when spans can't be sent. Nil: nobody wants spans.
func (t *Tracer) Follow(dir string, tell func(string)) (written func()) {
	if t == nil {
		return nil
	}
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.dirty[dir], t.tell = true, tell
		select {
		case t.wake <- struct{}{}:
		default: // it wakes anyway
		}
		t.begin.Do(func() { go t.work() })
	}
}

// Close tries once to send what was not sent yet, for as long as wait, and ends. Who followed a run may be gone by now, so
// tell is told when that can't be done, unless they were. It may be called once.
func (t *Tracer) Close(wait time.Duration, tell func(string)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.tell = tell
	t.mu.Unlock()
	t.begin.Do(func() { close(t.stopped) })
	close(t.over)
	enough, done := patience.New(wait).Context(context.Background())
	defer done()
	defer context.AfterFunc(enough, t.stop)()
	<-t.stopped
	t.stop()
	t.to.close()
}

// How long nothing is sent after something was, so that what comes close together goes together, and after that could not be done.
const (
	apart = time.Second
	rest  = time.Minute
)

// work sends until the end. What could not be sent is tried again with what comes next, but not at once.
func (t *Tracer) work() {
	defer close(t.stopped)
	resting := time.NewTimer(0)
	defer resting.Stop()
	for {
		select {
		case <-t.over:
			t.round()
			return
		case <-t.wake:
		}
		select {
		case <-t.over:
			t.round()
			return
		case <-resting.C:
		}
		pause := apart
		if !t.round() {
			pause = rest
			select {
			case t.wake <- struct{}{}:
			default:
			}
		}
		resting.Reset(pause)
	}
}

// round sends what runs did that something was written of, false when that could not be done.
func (t *Tracer) round() bool {
	t.mu.Lock()
	dirs := slices.Sorted(maps.Keys(t.dirty))
	clear(t.dirty)
	t.mu.Unlock()
	for i, dir := range dirs {
		if err := t.send(dir); err != nil {
			t.failed(err)
			t.mu.Lock()
			for _, left := range dirs[i:] {
				t.dirty[left] = true
			}
			t.mu.Unlock()
			return false
		}
	}
	return true
}

// failed says once that spans can't be sent.
func (t *Tracer) failed(err error) {
	t.mu.Lock()
	tell, told := t.tell, t.told
	t.told = true
	t.mu.Unlock()
	if !told && tell != nil {
		tell(fmt.Sprintf("spans can't be sent, which changes nothing of the run: %v", err))
	}
}

// maxSpans is how many spans a request has.
const maxSpans = 512

// send sends the spans of a run that were not sent yet.
func (t *Tracer) send(dir string) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if errors.Is(err, journal.ErrNone) { // a planning got its name meanwhile, or the task is gone
		dir = filepath.Join(filepath.Dir(dir), strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix))
		h, err = journal.Read(filepath.Join(dir, taskdir.Run))
	}
	if h == nil || err != nil && !errors.Is(err, journal.ErrDamaged) {
		return nil // what can't be read is no reason to try again
	}
	sent := t.remember(filepath.Join(dir, taskdir.Run), Of(h))
	left := slices.DeleteFunc(spansOf(h, t.redact), func(s span) bool { return sent.has(s.ID) })
	for batch := range slices.Chunk(left, maxSpans) {
		err := t.to.send(t.ctx, t.over, batch)
		if err != nil && !errors.As(err, new(*refusedError)) {
			return err
		}
		for _, s := range batch {
			sent.add(s.ID)
		}
		if err != nil { // it is not asked again about these
			t.failed(err)
			continue
		}
		sent.keep()
	}
	if h.Ended { // nothing is to come of it
		delete(t.sent, sent.dir)
	}
	return nil
}

// sentFile is where a run's folder remembers which spans were taken. Without it they are sent again, with the same ids.
const sentFile = "traces.json"

// memory are the spans of a run that were taken.
type memory struct {
	dir   string
	Trace string   `json:"trace"`
	Sent  []string `json:"sent"`
	known map[string]bool
}

// remember is what was sent of the trace of a run's folder.
func (t *Tracer) remember(dir string, trace Trace) *memory {
	if m := t.sent[dir]; m != nil && m.Trace == trace.id {
		return m
	}
	m := &memory{known: map[string]bool{}}
	if data, err := durable.ReadBelow(dir, sentFile, durable.MaxJournal); err != nil || json.Unmarshal(data, m) != nil || m.Trace != trace.id {
		m.Sent = nil // of another run, or of nobody
	}
	m.dir, m.Trace = dir, trace.id
	for _, id := range m.Sent {
		m.known[id] = true
	}
	t.sent[dir] = m
	return m
}

func (m *memory) has(id string) bool { return m.known[id] }

func (m *memory) add(id string) {
	m.known[id] = true
	m.Sent = append(m.Sent, id)
}

// keep writes down what was taken. Where that can't be done it is sent again by the next process, which harms nobody.
func (m *memory) keep() {
	if data, err := json.Marshal(m); err == nil {
		_ = agentcall.WriteUnsynced(m.dir, sentFile, data)
	}
}
