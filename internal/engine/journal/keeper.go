package journal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// checkInterval is the interval at which ownership and mailbox are checked without a Poke.
const checkInterval = 5 * time.Second

// startKeeper starts the goroutine that handles events from outside: messages, the end of ctx, the loss of the lock. Only that goroutine
// records messages and parks the run. It has made its first check when startKeeper returns. stop ends it and may be called twice.
func (e *engine) startKeeper(ctx context.Context) (stop func()) {
	first, quit, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		e.readMailbox()
		close(first)
		timer := time.NewTimer(checkInterval)
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
			e.readMailbox()
			timer.Reset(checkInterval)
		}
	}()
	<-first
	return sync.OnceFunc(func() { close(quit); <-gone })
}

func (e *engine) interrupt(cause error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.halt(asSuspended(cause))
}

// readMailbox reads the mailbox, and checks whether the run is still ours and still has something to do.
func (e *engine) readMailbox() {
	if !e.beginCheck() {
		return
	}
	var messages []Message
	if e.o.Mailbox != nil {
		messages = e.o.Mailbox()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	err := e.file.checkOwnership()
	if err == nil {
		err = e.file.syncPending()
	}
	if err != nil && e.stop == nil {
		e.halt(err)
	}
	for _, m := range messages {
		if e.stop == nil {
			e.receive(m)
		}
	}
	e.lastCheckDone = e.checksBegun
	e.wakeWaiters()
	e.park()
}

func (e *engine) beginCheck() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.checksBegun++
	return e.stop == nil
}

// receive suspends or cancels the run, or records a signal. A cancel and each signal are recorded once.
func (e *engine) receive(m Message) {
	switch {
	case m.Suspend != nil:
		e.halt(asSuspended(m.Suspend))
	case m.Cancel:
		if !e.ledger.cancelled && e.append(&record{Kind: kindCancel, ID: m.ID}) == nil {
			e.cancelActivities(flow.ErrCancelled)
		}
	case e.ledger.byMessage[m.ID]:
	default:
		if err := checkPayload(m.Data); err != nil {
			e.halt(asSuspended(fmt.Errorf("taking in message %q: %w", m.ID, err)))
			return
		}
		_ = e.append(&record{Kind: kindSignal, ID: m.ID, Name: m.Signal, In: slices.Clone(m.Data)})
	}
}

// park stops the engine if every goroutine of the flow waits, each for longer than ParkAfter, and has done so since before the
// mailbox check that just ended.
func (e *engine) park() {
	if e.stop != nil || e.running > 0 || e.lastCheckDone <= e.idleSinceCheck {
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
		left := e.remaining(w)
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
