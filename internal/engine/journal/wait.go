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
	call    *call
	limit   time.Duration // flow.Forever: no limit
	listens bool          // true for an Await
	signal  string        // name of the awaited signal
	deaf    bool          // ignores a cancel
	last    int           // number of the mailbox check after which it gives up; 0: the limit has not passed
	got     *signal
}

// await waits for the outcome of a Sleep or an Await and records it.
func (e *engine) await(w *waiter) error {
	w.ready = func() bool { return e.over(w) }
	e.tellWait(w)
	if w.limit != flow.Forever {
		defer time.AfterFunc(e.left(w), e.check).Stop()
	}
	e.wait(w)
	switch {
	case e.stop != nil:
		return flow.ErrSuspended
	case w.got != nil:
		return e.finish(w.call, &record{Signal: w.got.N})
	case e.book.cancelled && !w.deaf:
		return e.finish(w.call, cancelledRecord())
	}
	return e.finish(w.call, &record{})
}

// tellWait calls Options.Waits, unless the wait is over already or has limit 0.
func (e *engine) tellWait(w *waiter) {
	if e.o.Waits != nil && e.stop == nil && w.limit != 0 && !w.ready() {
		entry := w.call.entry()
		e.unlocked(func() { e.o.Waits(entry) })
	}
}

// check is settle for timers. If the wall clock is slower than the timers, the next mailbox check wakes the rest.
func (e *engine) check() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settle()
}

// over reports whether a Sleep or Await has its outcome. An Await gives up only after a mailbox check that began after its limit
// had passed.
func (e *engine) over(w *waiter) bool {
	if w.listens && w.got == nil {
		w.got = e.take(w.signal)
	}
	switch {
	case w.got != nil, e.book.cancelled && !w.deaf:
		return true
	case !e.passed(w):
		return false
	case !w.listens:
		return true
	case w.last == 0:
		w.last = e.begun + 1
		e.Poke()
	}
	return e.looked >= w.last
}

func (e *engine) passed(w *waiter) bool {
	return w.limit != flow.Forever && e.left(w) <= 0
}

// left returns how much of the limit of w is left.
func (e *engine) left(w *waiter) time.Duration { return w.limit - e.elapsed(w.call) }

// take claims and returns the oldest signal of that name, or nil.
func (e *engine) take(name string) *signal {
	for _, s := range e.book.signals {
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
	e.rest()
	e.unlocked(func() { <-w.wake })
}

// rest records that a goroutine of the flow waits or has ended. If none is running any more, the run may be able to park, which a
// mailbox check decides.
func (e *engine) rest() {
	if e.running--; e.running == 0 {
		e.still = e.begun
		e.Poke()
	}
}

// settle wakes the waiters that are ready. It is called after every change that a waiter may wait for.
func (e *engine) settle() {
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
