package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/flow/flowtest"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

// Each engine of the suite opens the folder again for every Run, as separate processes would.
func TestContract(t *testing.T) {
	flowtest.Run(t, func(t *testing.T) flowtest.Engine { return newEngine(t) })
}

// engine is a run for the contract suite.
type engine struct {
	t    *testing.T
	dir  string
	box  *mailbox
	mu   sync.Mutex
	run  *journal.Run
	stop context.CancelFunc
}

func newEngine(t *testing.T) *engine {
	e := &engine{t: t, dir: t.TempDir(), box: newMailbox()}
	begin(t, journal.Options{Dir: e.dir}, flowtest.Input)
	return e
}

func (e *engine) Run(fn flowtest.Func, acts ...flow.Activity) (string, error) {
	for {
		out, err := e.once(fn, acts)
		var parked *journal.Parked
		if !errors.As(err, &parked) {
			return out, err
		}
		e.box.wait()
	}
}

func (e *engine) once(fn flowtest.Func, acts []flow.Activity) (string, error) {
	ctx, stop := context.WithCancel(e.t.Context())
	defer stop()
	r := open(e.t, journal.Options{Dir: e.dir, Activities: acts, Mailbox: e.box.messages})
	defer r.Close()
	e.mu.Lock()
	e.run, e.stop = r, stop
	e.mu.Unlock()
	return journal.Execute(ctx, r, fn)
}

func (e *engine) Signal(id, name string, data any) { e.send(signal(e.t, id, name, data)) }
func (e *engine) Cancel()                          { e.send(journal.Message{ID: "cancel", Cancel: true}) }

func (e *engine) send(m journal.Message) {
	e.box.put(m)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.run != nil {
		e.run.Poke()
	}
}

func (e *engine) Suspend() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stop()
}

// mailbox holds messages, and returns all of them each time it is read.
type mailbox struct {
	mu      sync.Mutex
	list    []journal.Message
	changed chan struct{}
	looks   int
}

func newMailbox() *mailbox { return &mailbox{changed: make(chan struct{}, 1)} }

func (b *mailbox) put(m journal.Message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, m)
	select {
	case b.changed <- struct{}{}:
	default:
	}
}

func (b *mailbox) wait() { <-b.changed }

func (b *mailbox) messages() []journal.Message {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looks++
	return slices.Clone(b.list)
}

func signal(t *testing.T, id, name string, data any) journal.Message {
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	return journal.Message{ID: id, Signal: name, Data: raw}
}

// begin begins run task/1 with the input in.
func begin(t testing.TB, o journal.Options, in any) {
	t.Helper()
	raw, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := journal.Begin(o, journal.Spec{Run: "task/1", Flow: "test", Code: 1, Input: raw}); err != nil {
		t.Fatal(err)
	}
}

func open(t testing.TB, o journal.Options) *journal.Run {
	t.Helper()
	r, err := journal.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// execute opens the folder, executes fn once and closes it.
func execute[I, O any](t testing.TB, ctx context.Context, o journal.Options, fn func(flow.Flow, I) (O, error)) (O, error) {
	t.Helper()
	r := open(t, o)
	defer r.Close()
	return journal.Execute(ctx, r, fn)
}
