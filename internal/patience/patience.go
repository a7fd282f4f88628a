// Package patience waits where there is nothing but to look again.
package patience

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends, whose cause it then returns.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Patience is for how long something is looked for again and again that has no event. Time in which nobody looked counts for little: where
// a machine stalls, so does whoever is waited for.
type Patience struct {
	left, most time.Duration
	last       time.Time
}

// New begins to wait.
func New(wait time.Duration) *Patience {
	return &Patience{left: wait, most: max(wait/8, 1), last: time.Now()}
}

// Over reports whether it was waited for long enough. It is asked after each look.
func (p *Patience) Over() bool {
	now := time.Now()
	p.left -= min(now.Sub(p.last), p.most)
	p.last = now
	return p.left <= 0
}

// Context ends when it was waited for long enough, for what is done once and may take that long; its cause is context.DeadlineExceeded
// then. cancel must be called.
func (p *Patience) Context(parent context.Context) (ctx context.Context, cancel context.CancelFunc) {
	ctx, end := context.WithCancelCause(parent)
	cancel = func() { end(context.Canceled) }
	if p.Over() {
		end(context.DeadlineExceeded)
		return ctx, cancel
	}
	go func() {
		tick := time.NewTicker(max(p.most/4, time.Millisecond))
		defer tick.Stop()
		for !p.Over() {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		end(context.DeadlineExceeded)
	}()
	return ctx, cancel
}
