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
	// maxCalls is the number of activities and waits that a run may have. The next one fails, and its failure is recorded like
	// any other; endCalls more are allowed, so that the flow can record why it ends.
	maxCalls = 5000
	endCalls = 100
)

// engine is the state of one Execute. It uses the mutex of its Run.
type engine struct {
	*Run
	ledger           *ledger
	strict           bool                    // the same build began the run
	shieldedContext  context.Context         // context of shielded activities, ends when the engine stops
	activityContext  context.Context         // context of other activities, ends on cancel too
	cancelShielded   context.CancelCauseFunc // cancels shieldedContext
	cancelActivities context.CancelCauseFunc // cancels activityContext

	scopes   map[string]*scope
	unasked  int   // number of calls in the journal that the flow has not asked for yet
	stop     error // reason why nothing more is started; nil: running
	branches sync.WaitGroup

	// See wait.go and keeper.go.
	running        int // number of goroutines of the flow that are not waiting
	waiters        []*waiter
	claimed        map[*signal]bool // taken by an Await that has not recorded it yet
	checksBegun    int              // number of mailbox checks that have begun
	lastCheckDone  int              // number of the last mailbox check that has ended
	idleSinceCheck int              // value of checksBegun when the last goroutine began to wait
}

// scope counts the calls below one path. The flows of that path share it; they belong to one goroutine at a time.
type scope struct {
	path  string // "" or a path that ends in a slash
	asked map[string]int
	order []*call // calls in the scope, ordered by their first start
	next  int     // index in order of the call that has to be asked for next
}

func newEngine(ctx context.Context, r *Run) *engine {
	e := &engine{Run: r, ledger: r.file.ledger, scopes: map[string]*scope{}, claimed: map[*signal]bool{}, running: 1}
	e.strict = e.ledger.spec.Build == r.o.Build
	e.shieldedContext, e.cancelShielded = context.WithCancelCause(context.WithoutCancel(ctx))
	e.activityContext, e.cancelActivities = context.WithCancelCause(e.shieldedContext)
	for _, c := range e.ledger.calls {
		c.entered, c.asked = false, false
		s := e.scope(c.scope)
		s.order = append(s.order, c)
	}
	e.unasked = len(e.ledger.calls)
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

// append adds a record with the current time. If the record can't be written, the engine stops.
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

// halt stops the engine: nothing more is started, waits end, and the contexts of activities end. Only activities that still
// succeed are recorded. The first reason is kept.
func (e *engine) halt(err error) {
	if e.stop != nil {
		return
	}
	e.stop = err
	e.cancelShielded(asSuspended(err))
	e.wakeWaiters()
}

// nextCall returns the next call of name in h's scope. If the journal does not have the call, nextCall records its start. In both cases the
// flow code has to do what it did before. ErrCancelled means that the call must not start any more.
func (h *handle) nextCall(name string, in json.RawMessage) (*call, error) {
	e, s := h.engine, h.scope
	s.asked[name]++
	id := fmt.Sprintf("%s%s#%d", s.path, name, s.asked[name])
	c, err := h.replayCall(id, in)
	if c == nil && err == nil {
		c, err = h.beginCall(id, name, in)
	}
	if err == nil && c.done == nil && c.index == maxCalls {
		err = e.finish(c, &record{Fail: tooManyCalls(id)})
	}
	return c, err
}

// replayCall is nextCall for a call that is in the journal; it returns nil for one that is not.
func (h *handle) replayCall(id string, in json.RawMessage) (*call, error) {
	e, s := h.engine, h.scope
	c := e.ledger.byID[id]
	if c == nil {
		return nil, nil
	}
	if due := s.nextRecorded(); due != c {
		return nil, h.haltDiverged("asked for %s, the journal has %s", id, due)
	}
	if e.strict && !bytes.Equal(c.in, in) {
		return nil, h.haltDiverged("%s: input is %s, was %s", id, excerpt(in, 500), excerpt(c.in, 500))
	}
	s.next++
	c.asked = true
	e.unasked--
	return c, nil
}

// beginCall is nextCall for a call that is not in the journal.
func (h *handle) beginCall(id, name string, in json.RawMessage) (*call, error) {
	e, s := h.engine, h.scope
	if e.ledger.cancelled && !h.shielded {
		return nil, flow.ErrCancelled
	}
	if due := cmp.Or(s.nextRecorded(), e.unaskedIn(h.thread.path)); due != nil {
		return nil, h.haltDiverged("asked for %s, the journal has %s", id, due)
	}
	if len(e.ledger.calls) > maxCalls+endCalls {
		return nil, tooManyCalls(id)
	}
	c := &call{id: id, name: name, in: in}
	if err := e.start(c); err != nil {
		return nil, flow.ErrSuspended
	}
	c = e.ledger.byID[id]
	c.entered, c.asked = true, true
	s.order = append(s.order, c)
	s.next++
	return c, nil
}

func tooManyCalls(id string) *flow.Failure {
	return internalFailure("%s: the run has used up its %d activities", id, maxCalls)
}

// nextRecorded returns the next call in the scope according to the journal, or nil.
func (s *scope) nextRecorded() *call {
	if s.next == len(s.order) {
		return nil
	}
	return s.order[s.next]
}

// unaskedIn returns a call below path that is in the journal but that the flow has not asked for. A goroutine of the flow asks
// for all calls below its path before it begins a new one.
func (e *engine) unaskedIn(path string) *call {
	if e.unasked == 0 {
		return nil
	}
	for _, c := range e.ledger.calls {
		if !c.asked && strings.HasPrefix(c.scope, path) {
			return c
		}
	}
	return nil
}

// start records an entry into c, the first or a repeated one.
func (e *engine) start(c *call) error {
	c.entered = true
	return e.append(&record{Kind: kindStart, ID: c.id, Name: c.name, In: c.in, Try: c.tries + 1})
}

// finish records the outcome of c.
func (e *engine) finish(c *call, r *record) error {
	r.Kind, r.ID, r.lazy = kindDone, c.id, e.acts[c.name].Lazy
	if err := e.append(r); err != nil || e.stop != nil {
		return flow.ErrSuspended
	}
	return nil
}

// elapsed returns the time since c was first started. The wall clock includes time without a process and time in which the
// computer slept; the monotonic clock is used where the wall clock was set back.
func (e *engine) elapsed(c *call) time.Duration {
	return max(e.now().Sub(c.started), time.Since(c.monotonicStart))
}

// now returns the time for records: wall clock only, as it is after a record has been read back.
func (r *Run) now() time.Time { return r.o.Now().Round(0).UTC() }

// cancelledRecord returns the outcome of a call that a cancel cut off.
func cancelledRecord() *record { return &record{Fail: &flow.Failure{Code: cancelledCode}} }

// perform enters an activity that has no outcome yet, and records its outcome.
func (h *handle) perform(a flow.Activity, c *call) error {
	e := h.engine
	switch {
	case e.ledger.cancelled && !h.shielded: // the call was cut off by a crash, and the run has been cancelled since
		return e.finish(c, cancelledRecord())
	case !c.entered:
		if err := e.start(c); err != nil {
			return flow.ErrSuspended
		}
	}
	ctx := e.activityContext
	if h.shielded {
		ctx = e.shieldedContext
	}
	call := flow.Call{Run: e.ledger.spec.Run, ID: c.id, Attempt: c.tries}
	var out json.RawMessage
	var fail error
	e.unlocked(func() {
		if out, fail = run(ctx, a, call, c.in); fail != nil {
			fail = e.classifyError(fail)
		}
	})
	return h.conclude(c, out, fail)
}

// conclude records the outcome of an activity. If the engine has stopped in the meantime, a failure is not recorded, and the
// activity is entered again later.
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
	case e.ledger.cancelled && !h.shielded:
		return e.finish(c, cancelledRecord())
	}
	return e.finish(c, &record{Fail: toFailure(err)})
}

// classifyError returns the error of a failed activity in the form to be recorded. If the disk is at fault, or a lock or file that the
// activity needs is held, it returns an error that suspends the run instead; the activity is entered again later. If the disk is
// full, the activity's own error is included as text only, so that it is not taken for a failure of the run.
func (e *engine) classifyError(err error) error {
	if durable.IsDiskError(err) || errors.Is(err, durable.ErrHeld) {
		return asSuspended(err)
	}
	if full := e.o.Disk.CheckSpace(e.o.Dir); durable.IsDiskError(full) {
		return asSuspended(fmt.Errorf("%v (writing to %s: %w)", err, e.o.Dir, full))
	}
	return err
}

// unlocked calls f with the mutex released.
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
