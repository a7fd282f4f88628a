package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// lookEvery is the interval at which ownership and mailbox are checked without a Poke.
const lookEvery = 5 * time.Second

// keep starts the goroutine that handles events from outside: messages, the end of ctx, the loss of the lock. Only that goroutine
// records messages and parks the run. It has made its first check when keep returns. stop ends it and may be called twice.
func (e *engine) keep(ctx context.Context) (stop func()) {
	first, quit, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		e.look()
		close(first)
		timer := time.NewTimer(lookEvery)
		defer timer.Stop()
		for {
			select {
			case <-quit:
				return
			case <-ctx.Done():
				e.interrupt(context.Cause(ctx))
				return
			case <-e.poke:
			case <-timer.C:
			}
			e.look()
			timer.Reset(lookEvery)
		}
	}()
	<-first
	return sync.OnceFunc(func() { close(quit); <-gone })
}

func (e *engine) interrupt(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.halt(suspended(cause))
}

// look reads the mailbox, and checks whether the run is still ours and still has something to do.
func (e *engine) look() {
	if !e.beginLook() {
		return
	}
	var messages []Message
	if e.o.Mailbox != nil {
		messages = e.o.Mailbox()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.file.fenced()
	if err == nil {
		err = e.file.settle()
	}
	if err != nil && e.stop == nil {
		e.halt(err)
	}
	for _, m := range messages {
		if e.stop == nil {
			e.receive(m)
		}
	}
	e.looked = e.begun
	e.settle()
	e.park()
}

func (e *engine) beginLook() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.begun++
	return e.stop == nil
}

// receive suspends or cancels the run, or records a signal. A cancel and each signal are recorded once.
func (e *engine) receive(m Message) {
	switch {
	case m.Suspend != nil:
		e.halt(suspended(m.Suspend))
	case m.Cancel:
		if !e.book.cancelled && e.append(&record{Kind: kindCancel, ID: m.ID}) == nil {
			e.killed(flow.ErrCancelled)
		}
	case e.book.byMessage[m.ID]:
	default:
		if err := checkPayload(m.Data); err != nil {
			e.halt(suspended(fmt.Errorf("taking in message %q: %w", m.ID, err)))
			return
		}
		_ = e.append(&record{Kind: kindSignal, ID: m.ID, Name: m.Signal, In: slices.Clone(m.Data)})
	}
}

// park stops the engine if every goroutine of the flow waits, each for longer than ParkAfter, and has done so since before the
// mailbox check that just ended.
func (e *engine) park() {
	if e.stop != nil || e.running > 0 || e.looked <= e.still {
		return
	}
	p := &Parked{}
	for _, w := range e.waiters {
		if w.call == nil {
			continue // waits for branches, whose own waiters are in the list
		}
		p.For = append(p.For, w.call.id)
		if w.limit == flow.Forever {
			continue
		}
		left := e.left(w)
		if left <= e.o.ParkAfter {
			return
		}
		if until := e.now().Add(left); p.Until.IsZero() || until.Before(p.Until) {
			p.Until = until
		}
	}
	slices.Sort(p.For)
	e.halt(p)
}
