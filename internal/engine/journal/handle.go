package journal

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

const (
	sleepName   = "sleep"  // name of a Sleep in ids
	awaitPrefix = "await:" // name of an Await in ids, followed by the signal's name
)

// handle implements flow.Flow.
type handle struct {
	engine   *engine
	scope    *scope
	thread   *thread
	shielded bool
}

// thread is one goroutine of flow code: the function of Execute, or a branch.
type thread struct {
	path        string // scope below which the goroutine works
	currentCall string // current call; using a Flow of the thread during it is an error
	returned    bool   // the branch has returned
}

var _ flow.Flow = (*handle)(nil)

func (h *handle) In(name string) flow.Flow {
	e := h.engine
	e.mu.Lock()
	defer e.mu.Unlock()
	if !isLegalName(name) {
		_ = h.haltDiverged("%q is not a name for a scope", name)
	}
	c := *h
	c.scope = e.scope(h.scope.path + name + "/")
	return &c
}

func (h *handle) Shield() flow.Flow {
	c := *h
	c.shielded = true
	return &c
}

// enter begins a call of flow code. It locks the mutex, and leave unlocks it. The error is returned to the flow.
func (h *handle) enter(what string) error {
	h.engine.mu.Lock()
	switch t := h.thread; {
	case h.engine.stop != nil:
		return flow.ErrSuspended
	case t.returned:
		return h.haltDiverged("%s%s was asked for by the flow of branch %s, which is over", h.scope.path, what, t.path)
	case t.currentCall != "":
		return h.haltDiverged("%s%s was asked for during %s: a branch uses the flow it is given, and a flow has one goroutine",
			h.scope.path, what, t.currentCall)
	}
	h.thread.currentCall = what
	return nil
}

func (h *handle) leave(err error) {
	if err == nil {
		h.thread.currentCall = ""
	}
	h.engine.mu.Unlock()
}

// haltDiverged stops the engine because the flow code broke a rule. The error is returned to the flow.
func (h *handle) haltDiverged(format string, args ...any) error {
	h.engine.halt(fmt.Errorf("%w: %s", ErrNondeterministic, fmt.Sprintf(format, args...)))
	return flow.ErrSuspended
}

func (h *handle) Do(name string, in, out any) error {
	raw, err := json.Marshal(in)
	if err == nil {
		err = checkPayload(raw)
	}
	if err != nil {
		return internalFailure("input of %s: %v", name, err)
	}
	err = h.enter(name)
	defer h.leave(err)
	if err != nil {
		return err
	}
	a, known := h.engine.acts[name]
	if !known {
		return h.haltDiverged("there is no activity %q", name)
	}
	c, err := h.nextCall(name, raw)
	if err != nil {
		return err
	}
	if c.done == nil {
		if err := h.perform(a, c); err != nil {
			return err
		}
	}
	return c.result(out)
}

func (h *handle) Sleep(d time.Duration) error {
	_, err := h.wait(sleepName, d, &waiter{limit: max(d, 0)}, nil)
	return err
}

func (h *handle) Await(name string, limit time.Duration, out any) (bool, error) {
	if limit < 0 {
		limit = flow.Forever
	}
	return h.wait(awaitPrefix+name, limit, &waiter{limit: limit, signal: name, isAwait: true}, out)
}

// wait implements Sleep and Await. It reports whether a signal was taken.
func (h *handle) wait(name string, limit time.Duration, w *waiter, out any) (bool, error) {
	raw, err := json.Marshal(limit)
	if err != nil {
		return false, internalFailure("limit of %s: %v", name, err)
	}
	err = h.enter(name)
	defer h.leave(err)
	if err != nil {
		return false, err
	}
	c, err := h.nextCall(name, raw)
	if err != nil {
		return false, err
	}
	if c.done == nil {
		w.call, w.ignoresCancel = c, h.shielded
		if err := h.engine.await(w); err != nil {
			return false, err
		}
	}
	return c.takenSignal != nil, c.result(out)
}
