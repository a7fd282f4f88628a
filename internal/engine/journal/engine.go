package journal

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

const (
	// maxCalls is how many activities and waits a run may have. The next one fails, recorded like any
	// other failure; endCalls more are allowed, so that the flow can write down why it ends.
	maxCalls = 5000
	endCalls = 100
)

// engine is one Execute. It has the mutex of its Run.
type engine struct {
	*Run
	book   *ledger
	strict bool                    // the same build began the run
	soft   context.Context         // of shielded activities, ends when the engine stops
	hard   context.Context         // of the others, ends on cancel too
	halted context.CancelCauseFunc // ends soft
	killed context.CancelCauseFunc // ends hard

	scopes   map[string]*scope
	unasked  int   // calls of the journal that the flow has not asked for yet
	stop     error // why nothing more starts
	branches sync.WaitGroup

	// See wait.go and keeper.go.
	running int // goroutines of the flow that don't wait
	waiters []*waiter
	claimed map[*signal]bool // by an Await that has not recorded it yet
	begun   int              // looks at the mailbox
	looked  int              // the last one that is over
	still   int              // looks that had begun when the last goroutine began to wait
}

// scope counts calls. It is shared by the flows of one path, which belong to one goroutine at a time.
type scope struct {
	path  string // "", or ends in a slash
	asked map[string]int
	order []*call // calls in it, as they first started
	next  int     // in order: the one that has to be asked for
}

func newEngine(ctx context.Context, r *Run) *engine {
	e := &engine{Run: r, book: r.file.book, scopes: map[string]*scope{}, claimed: map[*signal]bool{}, running: 1}
	e.strict = e.book.spec.Build == r.o.Build
	e.soft, e.halted = context.WithCancelCause(context.WithoutCancel(ctx))
	e.hard, e.killed = context.WithCancelCause(e.soft)
	for _, c := range e.book.calls {
		c.entered, c.asked = false, false
		s := e.scope(c.scope)
		s.order = append(s.order, c)
	}
	e.unasked = len(e.book.calls)
	return e
}

func (e *engine) root() flow.Flow { return &handle{engine: e, scope: e.scope(""), thread: &thread{}} }

func (e *engine) scope(path string) *scope {
	s := e.scopes[path]
	if s == nil {
		s = &scope{path: path, asked: map[string]int{}}
		e.scopes[path] = s
	}
	return s
}

// append adds a record, at the present time. When it can't be written the engine stops.
func (e *engine) append(r *record) error {
	r.At = e.now()
	if err := e.file.append(r); err != nil {
		e.halt(err)
		return err
	}
	if e.o.Wrote != nil && (r.Kind == kindDone || r.Kind == kindEnd) {
		e.o.Wrote()
	}
	return nil
}

// halt stops the engine: nothing starts any more, waits end, the contexts of activities end. Only what
// succeeds all the same is still recorded. The first reason counts.
func (e *engine) halt(err error) {
	if e.stop != nil {
		return
	}
	e.stop = err
	e.halted(suspended(err))
	e.settle()
}

// ask finds the next call of name in h's scope, or makes it: then its start is recorded. Either
// way the flow code is held to what it did before. ErrCancelled: it may not begin any more.
func (h *handle) ask(name string, in json.RawMessage) (*call, error) {
	e, s := h.engine, h.scope
	s.asked[name]++
	id := fmt.Sprintf("%s%s#%d", s.path, name, s.asked[name])
	c, err := h.again(id, in)
	if c == nil && err == nil {
		c, err = h.first(id, name, in)
	}
	if err == nil && c.done == nil && c.index == maxCalls {
		err = e.finish(c, &record{Fail: tooMany(id)})
	}
	return c, err
}

// again is ask for a call that the journal has.
func (h *handle) again(id string, in json.RawMessage) (*call, error) {
	e, s := h.engine, h.scope
	c := e.book.byID[id]
	if c == nil {
		return nil, nil
	}
	if due := s.due(); due != c {
		return nil, h.diverged("asked for %s, the journal has %s", id, due)
	}
	if e.strict && !bytes.Equal(c.in, in) {
		return nil, h.diverged("%s: input is %s, was %s", id, excerpt(in, 500), excerpt(c.in, 500))
	}
	s.next++
	c.asked = true
	e.unasked--
	return c, nil
}

// first is ask for a call that the journal does not have.
func (h *handle) first(id, name string, in json.RawMessage) (*call, error) {
	e, s := h.engine, h.scope
	if e.book.cancelled && !h.shield {
		return nil, flow.ErrCancelled
	}
	if due := cmp.Or(s.due(), e.unaskedIn(h.thread.path)); due != nil {
		return nil, h.diverged("asked for %s, the journal has %s", id, due)
	}
	if len(e.book.calls) > maxCalls+endCalls {
		return nil, tooMany(id)
	}
	c := &call{id: id, name: name, in: in}
	if err := e.start(c); err != nil {
		return nil, flow.ErrSuspended
	}
	c = e.book.byID[id]
	c.entered, c.asked = true, true
	s.order = append(s.order, c)
	s.next++
	return c, nil
}

func tooMany(id string) *flow.Failure {
	return internal("%s: the run has used up its %d activities", id, maxCalls)
}

// due is the call of the journal that is next in the scope, nil when there is none.
func (s *scope) due() *call {
	if s.next == len(s.order) {
		return nil
	}
	return s.order[s.next]
}

// unaskedIn is a call below path that the journal has and the flow has not asked for. A goroutine of
// the flow has asked for all that lies below its path before it begins something new.
func (e *engine) unaskedIn(path string) *call {
	if e.unasked == 0 {
		return nil
	}
	for _, c := range e.book.calls {
		if !c.asked && strings.HasPrefix(c.scope, path) {
			return c
		}
	}
	return nil
}

// start records that c is entered, for the first time or again.
func (e *engine) start(c *call) error {
	c.entered = true
	return e.append(&record{Kind: kindStart, ID: c.id, Name: c.name, In: c.in, Try: c.tries + 1})
}

// finish records what came of c.
func (e *engine) finish(c *call, r *record) error {
	r.Kind, r.ID, r.lazy = kindDone, c.id, e.acts[c.name].Lazy
	if err := e.append(r); err != nil || e.stop != nil {
		return flow.ErrSuspended
	}
	return nil
}

// elapsed is how long ago c was first started. The wall clock counts the time without a process, and
// the time for which the computer slept; the other goes on when the wall clock is set back.
func (e *engine) elapsed(c *call) time.Duration {
	return max(e.now().Sub(c.started), time.Since(c.since))
}

// now is the time of records: by the wall clock alone, as it is when it has been read again.
func (r *Run) now() time.Time { return r.o.Now().Round(0).UTC() }

// cancelledRecord is the outcome of a call that a cancel cut off.
func cancelledRecord() *record { return &record{Fail: &flow.Failure{Code: cancelledCode}} }

// perform enters an activity that has no outcome yet, and records the one it has.
func (h *handle) perform(a flow.Activity, c *call) error {
	e := h.engine
	switch {
	case e.book.cancelled && !h.shield: // cut off by a crash, and cancelled since
		return e.finish(c, cancelledRecord())
	case !c.entered:
		if err := e.start(c); err != nil {
			return flow.ErrSuspended
		}
	}
	ctx := e.hard
	if h.shield {
		ctx = e.soft
	}
	call := flow.Call{Run: e.book.spec.Run, ID: c.id, Attempt: c.tries}
	var out json.RawMessage
	var fail error
	e.unlocked(func() {
		if out, fail = run(ctx, a, call, c.in); fail != nil {
			fail = e.blame(fail)
		}
	})
	return h.conclude(c, out, fail)
}

// conclude records the outcome of an activity, or leaves it open when the engine stopped meanwhile:
// then it is entered again, unless it succeeded all the same.
func (h *handle) conclude(c *call, out json.RawMessage, err error) error {
	e := h.engine
	switch {
	case err == nil:
		return e.finish(c, &record{Out: out})
	case e.stop != nil:
		return flow.ErrSuspended
	case errors.Is(err, flow.ErrSuspended):
		e.halt(err)
		return flow.ErrSuspended
	case e.book.cancelled && !h.shield:
		return e.finish(c, cancelledRecord())
	}
	return e.finish(c, &record{Fail: toFailure(err)})
}

// blame is why an activity failed. When the disk is at fault, or somebody holds a lock or a file that it needs, that is nothing to
// record: the run goes on when it is right again, and enters the activity once more. So its failure is words then, which is not
// to be taken for that of the run.
func (e *engine) blame(err error) error {
	if durable.Unfit(err) || errors.Is(err, durable.ErrHeld) {
		return suspended(err)
	}
	if full := e.o.Disk.Room(e.o.Dir); durable.Unfit(full) {
		return suspended(fmt.Errorf("%v (writing to %s: %w)", err, e.o.Dir, full))
	}
	return err
}

// unlocked calls f without the mutex.
func (e *engine) unlocked(f func()) {
	e.mu.Unlock()
	defer e.mu.Lock()
	f()
}

func run(ctx context.Context, a flow.Activity, c flow.Call, in json.RawMessage) (json.RawMessage, error) {
	v, err := safely(func() (any, error) { return a.Run(ctx, c, in) })
	if err != nil {
		return nil, err
	}
	out, fail := outcome(v, nil)
	if fail != nil {
		return nil, fail
	}
	return out, nil
}
