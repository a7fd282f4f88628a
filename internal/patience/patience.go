// Package patience waits for conditions that can only be polled.
package patience

import (
	"context"
	"time"
)

// Sleep waits for d, or until ctx ends; in that case it returns the cause.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// Patience is a timeout for polling. Between two calls of Over at most an eighth of it is used up, because when a machine
// stalls, so does what is being waited for.
type Patience struct {
	left, most time.Duration
	last       time.Time
}

// New returns a Patience that starts now.
func New(wait time.Duration) *Patience {
	return &Patience{left: wait, most: max(wait/8, 1), last: time.Now()}
}

// Over reports whether the timeout has expired. It is to be called after each poll.
func (p *Patience) Over() bool {
	now := time.Now()
	p.left -= min(now.Sub(p.last), p.most)
	p.last = now
	return p.left <= 0
}

// Context returns a context for a single operation that may take as long as the timeout. When that expires, the context ends
// with the cause context.DeadlineExceeded. cancel must be called.
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
