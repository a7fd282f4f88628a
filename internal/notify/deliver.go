package notify

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

const (
	// Tries is how often a hook is tried for one piece of news.
	Tries = 6
	// pause is between the first try and the second; each pause after it is four times as long.
	pause = 5 * time.Second
	// rest is how long a hook that could not be reached is left alone with other news.
	rest = 30 * time.Second
	// again is between two looks while another process tells, or a hook takes its time.
	again = time.Second
)

// Poke has what is not told yet told, in the background, until Close.
func (n *Teller) Poke() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.owed = true; n.Late || len(n.hooks) == 0 {
		return
	}
	if n.poke == nil {
		var ctx context.Context
		ctx, n.stop = context.WithCancel(context.Background())
		n.poke, n.done = make(chan struct{}, 1), make(chan struct{})
		go n.work(ctx, n.poke, n.done)
	}
	select {
	case n.poke <- struct{}{}:
	default:
	}
}

// Close ends the telling. What is due is told before, as far as it takes no longer than patience; the rest is for a
// later process. Nothing may be called after it.
func (n *Teller) Close(patience time.Duration) {
	n.mu.Lock()
	stop, done, owed := n.stop, n.done, n.owed
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	switch {
	case stop != nil:
		n.settle(ctx)
		stop()
		<-done
	case owed && ctx.Err() == nil:
		n.deliver(ctx, nil)
	}
}

// settle waits until nothing is due.
func (n *Teller) settle(ctx context.Context) {
	for ctx.Err() == nil {
		if next, left := n.next(); !left || next.After(n.Now()) {
			return
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (n *Teller) work(ctx context.Context, poke <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	for ctx.Err() == nil {
		wait := time.Hour
		if !n.deliver(ctx, poke) {
			wait = again
		} else if next, left := n.next(); left {
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

// next is when the first of what is pending is to be tried.
func (n *Teller) next() (at time.Time, left bool) {
	for _, p := range n.pending() {
		if due := p.due(); !left || due.Before(at) {
			at, left = due, true
		}
	}
	return at, left
}

// pending is what is not told yet.
func (n *Teller) pending() []pending {
	list := n.read().pending
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.DeleteFunc(list, func(p pending) bool { return n.told[p.news.ID+" "+p.hook] })
}

// due is when it is to be tried.
func (p pending) due() time.Time {
	if p.tries == 0 {
		return p.hold
	}
	if own := p.at.Add(pause << (2 * (p.tries - 1))); own.After(p.hold) {
		return own
	}
	return p.hold
}

// deliver tries what is due, and what gets due or is poked for meanwhile. Each hook hears one thing at a time and waits
// for no other one. One process does at a time: false means that it is another one now.
func (n *Teller) deliver(ctx context.Context, poke <-chan struct{}) bool {
	lock, err := durable.TryLock(filepath.Join(filepath.Dir(n.path()), "notify-send.lock"), durable.Holder{Since: n.Now()})
	if err != nil {
		return !errors.Is(err, durable.ErrHeld)
	}
	defer lock.Unlock()
	busy, free := map[string]bool{}, make(chan string)
	for {
		for _, p := range n.pending() {
			if ctx.Err() == nil && !busy[p.hook] && !p.due().After(n.Now()) {
				busy[p.hook] = true
				go func() {
					n.try(ctx, p)
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
		case <-time.After(again):
		}
	}
}

// try tells one hook one piece of news and writes down what came of it.
func (n *Teller) try(ctx context.Context, p pending) {
	r := record{Kind: kindDropped, ID: p.news.ID, Hook: p.hook, Error: "it is not configured any more"}
	for _, h := range n.configured() {
		if h.key != p.hook {
			continue
		}
		r.Kind, r.Name, r.Error = kindSent, h.name, ""
		if err := h.tell(ctx, n, p.news); err != nil {
			var none away
			r.Kind, r.Error, r.Away = kindFailed, n.Redact(err.Error()), errors.As(err, &none)
			if p.tries+1 >= Tries {
				r.Kind = kindDropped
			}
		}
	}
	if r.Kind == kindDropped && r.Name != "" {
		n.say("%s does not hear that %s is %s: %s", r.Name, p.news.Task, p.news.Status, r.Error)
	}
	if _, err := n.locked(func(*book) []record { return []record{r} }); err != nil {
		n.say("news may be told again by a later process: %v", err)
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.told == nil {
			n.told = map[string]bool{}
		}
		n.told[p.news.ID+" "+p.hook] = true
	}
}
