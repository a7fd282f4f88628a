// Package traces sends the work of runs as spans to an OpenTelemetry collector, by OTLP over HTTP: runs, their phases, and in
// these the calls of agents, commands, waits and deliveries. Spans are made from the journal of a run once something has ended,
// so no queue of unsent spans is needed. Their ids are derived from the run, so an interrupted run that is resumed duplicates
// none. Nothing here slows or fails a run.
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

// Tracer sends spans of runs, one request at a time, from a goroutine that is started when the first journal is written to. A
// nil Tracer does nothing. It is safe for concurrent use.
type Tracer struct {
	sender    sender
	redact    func(string) string
	startOnce sync.Once
	wake      chan struct{}
	closing   chan struct{} // closed by Close: the remaining spans are tried once
	stopped   chan struct{} // closed when nothing more is sent
	ctx       context.Context
	stop      context.CancelFunc

	mu           sync.Mutex
	dirty        map[string]bool // task directories whose journals were written to
	tell         func(string)    // of the latest Follow
	lossReported bool            // the loss of spans was reported

	sent map[string]*acceptedSpans // by run directory; used only by the sending goroutine
}

// New returns a Tracer that sends spans as s says. redact masks known secrets; nil masks nothing.
func New(s Settings, version string, redact func(string) string) *Tracer {
	if redact == nil {
		redact = func(s string) string { return s }
	}
	t := &Tracer{sender: sender{Settings: s, version: version}, redact: redact, wake: make(chan struct{}, 1), closing: make(chan struct{}), stopped: make(chan struct{}), dirty: map[string]bool{}, sent: map[string]*acceptedSpans{}}
	t.ctx, t.stop = context.WithCancel(context.Background())
	return t
}

// Follow returns a function to be called after each write to the journal of the task in dir; the function doesn't block. tell
// is called once if spans can't be sent. On a nil Tracer Follow returns nil.
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
		default: // a wakeup is pending already
		}
		t.startOnce.Do(func() { go t.sendLoop() })
	}
}

// Close makes one attempt to send the remaining spans, for at most wait, and stops the Tracer. It calls tell, since that of
// Follow may be unusable by now, if that fails and no failure was reported before. Close may be called once.
func (t *Tracer) Close(wait time.Duration, tell func(string)) {
	if t == nil {
		return
	}
	t.mu.Lock()
	t.tell = tell
	t.mu.Unlock()
	t.startOnce.Do(func() { close(t.stopped) })
	close(t.closing)
	enough, done := patience.New(wait).Context(context.Background())
	defer done()
	defer context.AfterFunc(enough, t.stop)()
	<-t.stopped
	t.stop()
	t.sender.close()
}

// batchInterval is the pause after sending, so that spans close in time share a request; retryInterval is that after a failure.
const (
	batchInterval = time.Second
	retryInterval = time.Minute
)

// sendLoop sends spans until Close. What could not be sent is tried again later, together with newer spans.
func (t *Tracer) sendLoop() {
	defer close(t.stopped)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-t.closing:
			t.sendAll()
			return
		case <-t.wake:
		}
		select {
		case <-t.closing:
			t.sendAll()
			return
		case <-timer.C:
		}
		pause := batchInterval
		if !t.sendAll() {
			pause = retryInterval
			select {
			case t.wake <- struct{}{}:
			default:
			}
		}
		timer.Reset(pause)
	}
}

// sendAll sends the new spans of all runs whose journals were written to, and returns false if that failed.
func (t *Tracer) sendAll() bool {
	t.mu.Lock()
	dirs := slices.Sorted(maps.Keys(t.dirty))
	clear(t.dirty)
	t.mu.Unlock()
	for i, dir := range dirs {
		if err := t.sendRun(dir); err != nil {
			t.reportLoss(err)
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

// reportLoss reports once that spans can't be sent.
func (t *Tracer) reportLoss(err error) {
	t.mu.Lock()
	tell, told := t.tell, t.lossReported
	t.lossReported = true
	t.mu.Unlock()
	if !told && tell != nil {
		tell(fmt.Sprintf("spans can't be sent, which does not affect the run: %v", err))
	}
}

// maxSpans is the maximum number of spans in a request.
const maxSpans = 512

// sendRun sends the spans of a run that were not sent yet.
func (t *Tracer) sendRun(dir string) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if errors.Is(err, journal.ErrNone) { // a planning has got its final name meanwhile, or the task is gone
		dir = filepath.Join(filepath.Dir(dir), strings.TrimPrefix(filepath.Base(dir), taskdir.DraftPrefix))
		h, err = journal.Read(filepath.Join(dir, taskdir.Run))
	}
	if h == nil || err != nil && !errors.Is(err, journal.ErrDamaged) {
		return nil // retrying doesn't help with an unreadable journal
	}
	sent := t.readAccepted(filepath.Join(dir, taskdir.Run), TraceOf(h))
	left := slices.DeleteFunc(spansOf(h, t.redact), func(s span) bool { return sent.has(s.ID) })
	for batch := range slices.Chunk(left, maxSpans) {
		err := t.sender.send(t.ctx, t.closing, batch)
		if err != nil && !errors.As(err, new(*refusedError)) {
			return err
		}
		for _, s := range batch {
			sent.add(s.ID)
		}
		if err != nil { // the collector won't accept them in another attempt either
			t.reportLoss(err)
			continue
		}
		sent.save()
	}
	if h.Ended { // no more spans will follow
		delete(t.sent, sent.dir)
	}
	return nil
}

// sentFile is the file in a run's directory that lists the accepted spans. Without it they are sent again, with the same ids.
const sentFile = "traces.json"

// acceptedSpans lists the accepted spans of a run.
type acceptedSpans struct {
	dir   string
	Trace string   `json:"trace"`
	Sent  []string `json:"sent"`
	known map[string]bool
}

// readAccepted returns the list of accepted spans for the trace of a run.
func (t *Tracer) readAccepted(dir string, trace Trace) *acceptedSpans {
	if m := t.sent[dir]; m != nil && m.Trace == trace.id {
		return m
	}
	m := &acceptedSpans{known: map[string]bool{}}
	if data, err := durable.ReadBelow(dir, sentFile, durable.MaxJournal); err != nil || json.Unmarshal(data, m) != nil || m.Trace != trace.id {
		m.Sent = nil // of another run, or unreadable
	}
	m.dir, m.Trace = dir, trace.id
	for _, id := range m.Sent {
		m.known[id] = true
	}
	t.sent[dir] = m
	return m
}

func (m *acceptedSpans) has(id string) bool { return m.known[id] }

func (m *acceptedSpans) add(id string) {
	m.known[id] = true
	m.Sent = append(m.Sent, id)
}

// save saves the list. If that fails, the next process sends the spans again, which does no harm.
func (m *acceptedSpans) save() {
	if data, err := json.Marshal(m); err == nil {
		_ = agentcall.WriteUnsynced(m.dir, sentFile, data)
	}
}
