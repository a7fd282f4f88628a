package journal

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// waiter is a goroutine of the flow that waits for a time, a signal or branches.
type waiter struct {
	ready func() bool   // called with the mutex held
	wake  chan struct{} // closed when the goroutine may continue

	// For a Sleep or an Await only.
	call          *call
	limit         time.Duration // flow.Forever: no limit
	isAwait       bool          // true for an Await
	signal        string        // name of the awaited signal
	ignoresCancel bool          // ignores a cancel
	lastCheck     int           // number of the mailbox check after which it gives up; 0: the limit has not passed
	taken         *signal
}

// await waits for the outcome of a Sleep or an Await and records it.
func (e *engine) await(w *waiter) error {
	w.ready = func() bool { return e.takeOutcome(w) }
	e.reportWait(w)
	if w.limit != flow.Forever {
		defer time.AfterFunc(e.remaining(w), e.wakeOnTimer).Stop()
	}
	e.wait(w)
	switch {
	case e.stop != nil:
		return flow.ErrSuspended
	case w.taken != nil:
		return e.finish(w.call, &record{Signal: w.taken.N})
	case e.ledger.cancelled && !w.ignoresCancel:
		return e.finish(w.call, cancelledRecord())
	}
	return e.finish(w.call, &record{})
}

// reportWait calls Options.Waits, unless the wait is over already or has limit 0.
func (e *engine) reportWait(w *waiter) {
	if e.o.Waits != nil && e.stop == nil && w.limit != 0 && !w.ready() {
		entry := w.call.entry()
		e.unlocked(func() { e.o.Waits(entry) })
	}
}

// wakeOnTimer is wakeWaiters for timers. If the wall clock is slower than the timers, the next mailbox check wakes the rest.
func (e *engine) wakeOnTimer() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.wakeWaiters()
}

// takeOutcome reports whether a Sleep or Await has its outcome. An Await gives up only after a mailbox check that began after its limit
// had passed.
func (e *engine) takeOutcome(w *waiter) bool {
	if w.isAwait && w.taken == nil {
		w.taken = e.takeSignal(w.signal)
	}
	switch {
	case w.taken != nil, e.ledger.cancelled && !w.ignoresCancel:
		return true
	case !e.limitPassed(w):
		return false
	case !w.isAwait:
		return true
	case w.lastCheck == 0:
		w.lastCheck = e.checksBegun + 1
		e.Poke()
	}
	return e.lastCheckDone >= w.lastCheck
}

func (e *engine) limitPassed(w *waiter) bool {
	return w.limit != flow.Forever && e.remaining(w) <= 0
}

// remaining returns how much of the limit of w is left.
func (e *engine) remaining(w *waiter) time.Duration { return w.limit - e.elapsed(w.call) }

// takeSignal claims and returns the oldest signal of that name, or nil.
func (e *engine) takeSignal(name string) *signal {
	for _, s := range e.ledger.signals {
		if s.Name == name && !s.taken && !e.claimed[s] {
			e.claimed[s] = true
			return s
		}
	}
	return nil
}

// wait blocks the goroutine until w is ready. A wait for a time or a signal also ends when the engine stops.
func (e *engine) wait(w *waiter) {
	if w.call != nil && e.stop != nil || w.ready() {
		return
	}
	w.wake = make(chan struct{})
	e.waiters = append(e.waiters, w)
	e.goroutineIdle()
	e.unlocked(func() { <-w.wake })
}

// goroutineIdle records that a goroutine of the flow waits or has ended. If none is running any more, the run may be able to park, which a
// mailbox check decides.
func (e *engine) goroutineIdle() {
	if e.running--; e.running == 0 {
		e.idleSinceCheck = e.checksBegun
		e.Poke()
	}
}

// wakeWaiters wakes the waiters that are ready. It is called after every change that a waiter may wait for.
func (e *engine) wakeWaiters() {
	waiting := e.waiters
	e.waiters = nil
	for _, w := range waiting {
		if w.call != nil && e.stop != nil || w.ready() {
			e.running++
			close(w.wake)
		} else {
			e.waiters = append(e.waiters, w)
		}
	}
}
