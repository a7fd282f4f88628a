package journal

import (
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// waiter is a goroutine of the flow that waits: for a time or a signal, or for branches.
type waiter struct {
	ready func() bool   // called with the mutex
	wake  chan struct{} // closed when it may go on

	// Of a Sleep or an Await.
	call    *call
	limit   time.Duration // flow.Forever: none
	listens bool          // an Await
	signal  string        // that it listens for
	deaf    bool          // to cancel
	last    int           // the look at the mailbox after which it gives up
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

// tellWait tells that a wait begins, unless it is over, or only a look.
func (e *engine) tellWait(w *waiter) {
	if e.o.Waits != nil && e.stop == nil && w.limit != 0 && !w.ready() {
		entry := w.call.entry()
		e.unlocked(func() { e.o.Waits(entry) })
	}
}

// check is settle for timers. Where the wall clock is slower than they are, the next look does the rest.
func (e *engine) check() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settle()
}

// over reports whether a Sleep or Await has its outcome. An Await gives up only after a look at the
// mailbox that began when its limit had passed.
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

// left is how much of its limit is left.
func (e *engine) left(w *waiter) time.Duration { return w.limit - e.elapsed(w.call) }

// take is the oldest signal of that name, taken from now on.
func (e *engine) take(name string) *signal {
	for _, s := range e.book.signals {
		if s.Name == name && !s.taken && !e.claimed[s] {
			e.claimed[s] = true
			return s
		}
	}
	return nil
}

// wait blocks the goroutine until w is ready; for a time or a signal it waits no longer than the engine runs.
func (e *engine) wait(w *waiter) {
	if w.call != nil && e.stop != nil || w.ready() {
		return
	}
	w.wake = make(chan struct{})
	e.waiters = append(e.waiters, w)
	e.rest()
	e.unlocked(func() { <-w.wake })
}

// rest says that a goroutine of the flow waits or has ended. When none is left that works, the run
// may be able to park, which a look at the mailbox decides.
func (e *engine) rest() {
	if e.running--; e.running == 0 {
		e.still = e.begun
		e.Poke()
	}
}

// settle wakes who is ready. It is called after every change that somebody may wait for.
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
