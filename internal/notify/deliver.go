package notify

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/patience"
)

const (
	// Tries is how often sending an event to a hook is attempted.
	Tries = 6
	// firstRetryDelay is the pause between the first and the second attempt; each later pause is four times as long.
	firstRetryDelay = 5 * time.Second
	// holdTime is how long a hook that could not be reached gets no other events.
	holdTime = 30 * time.Second
	// recheckTime is how often the book is read while another process sends, or a hook is running.
	recheckTime = time.Second
)

// StartSending starts sending pending events in the background; that goes on until Close.
func (n *Notifier) StartSending() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.due = true; n.Late || len(n.hooks) == 0 {
		return
	}
	if n.wake == nil {
		var ctx context.Context
		ctx, n.stop = context.WithCancel(context.Background())
		n.wake, n.done = make(chan struct{}, 1), make(chan struct{})
		go n.sendLoop(ctx, n.wake, n.done)
	}
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Close sends what is due, for at most wait, and stops sending; a later process sends the rest. No method may be called after it.
func (n *Notifier) Close(wait time.Duration) {
	n.mu.Lock()
	n.closing = true
	stop, done, owed := n.stop, n.done, n.due
	n.mu.Unlock()
	ctx, cancel := patience.New(wait).Context(context.Background())
	defer cancel()
	switch {
	case stop != nil:
		n.StartSending()
		n.drain(ctx)
		stop()
		<-done
	case owed && ctx.Err() == nil:
		n.deliver(ctx, nil)
	}
}

// drain blocks until nothing is due.
func (n *Notifier) drain(ctx context.Context) {
	for ctx.Err() == nil {
		if next, left := n.nextDue(); !left || next.After(n.Now()) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *Notifier) sendLoop(ctx context.Context, poke <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	for ctx.Err() == nil {
		wait := time.Hour
		if !n.deliver(ctx, poke) {
			wait = recheckTime
		} else if next, left := n.nextDue(); left {
			wait = max(0, next.Sub(n.Now()))
		}
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-poke:
		case <-timer.C:
		}
		timer.Stop()
	}
}

func (n *Notifier) nextDue() (at time.Time, left bool) {
	for _, p := range n.pending() {
		if due := p.due(); !left || due.Before(at) {
			at, left = due, true
		}
	}
	return at, left
}

func (n *Notifier) pending() []pending {
	b := n.readBook()
	list := n.delayMessages(b)
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(list, func(p pending) bool { return n.unrecorded[p.event.ID+" "+p.hook] })
}

func (p pending) due() time.Time {
	if p.trying { // due, so that drain waits for the result
		return p.at
	}
	if p.tries == 0 {
		return p.heldUntil
	}
	if own := p.at.Add(firstRetryDelay << (2 * (p.tries - 1))); own.After(p.heldUntil) {
		return own
	}
	return p.heldUntil
}

// deliver sends what is due, and what becomes due meanwhile. Each hook gets one event at a time, but all hooks work
// concurrently. Only one process sends at a time: deliver returns false if another one is sending.
func (n *Notifier) deliver(ctx context.Context, poke <-chan struct{}) bool {
	lock, err := durable.TryLock(filepath.Join(filepath.Dir(n.bookPath()), "notify-send.lock"), durable.Holder{Since: n.Now()})
	if err != nil {
		return !errors.Is(err, durable.ErrHeld)
	}
	defer lock.Unlock()
	n.dropInterrupted()
	busy, free := map[string]bool{}, make(chan string)
	for {
		list := n.pending()
		for _, p := range list {
			if ctx.Err() == nil && !busy[p.hook] && !p.due().After(n.Now()) {
				busy[p.hook] = true
				go func() {
					if h, ok := n.peopleHook(p.hook); ok {
						n.sendMessage(ctx, h, pendingFor(list, p.hook))
					} else {
						n.sendEvent(ctx, p)
					}
					free <- p.hook
				}()
			}
		}
		if len(busy) == 0 {
			return true
		}
		select {
		case hook := <-free:
			delete(busy, hook)
		case <-poke:
		case <-time.After(recheckTime):
		}
	}
}

// sendEvent sends one event to one hook and records the result.
func (n *Notifier) sendEvent(ctx context.Context, p pending) {
	r := record{Kind: kindDropped, ID: p.event.ID, Hook: p.hook, Error: "it is not configured any more"}
	for _, h := range n.configuredHooks() {
		if h.key != p.hook {
			continue
		}
		r.Kind, r.Name, r.Error = kindSent, h.name, ""
		if err := h.send(ctx, n, p.event); err != nil {
			r.Kind, r.Error, r.Away = kindFailed, n.Redact(err.Error()), errors.As(err, new(unreachableError))
			if p.tries+1 >= Tries {
				r.Kind = kindDropped
			}
		}
	}
	if r.Kind == kindDropped && r.Name != "" {
		n.say("%s could not be notified that %s is %s: %s", r.Name, p.event.Task, p.event.Status, r.Error)
	}
	if _, err := n.addRecords(func(*book) []record { return []record{r} }); err != nil {
		n.say("a later process may send notifications again: %v", err)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.unrecorded == nil {
			n.unrecorded = map[string]bool{}
		}
		n.unrecorded[p.event.ID+" "+p.hook] = true
	}
}
