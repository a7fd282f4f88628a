package durable

import "time"

// Patience is for how long something is looked for again and again that has no event. Time in which nobody looked counts for little: where
// a machine stalls, so does whoever is waited for.
type Patience struct {
	left, most time.Duration
	last       time.Time
}

// NewPatience begins to wait.
func NewPatience(wait time.Duration) *Patience {
	return &Patience{left: wait, most: wait / 8, last: time.Now()}
}

// Over reports whether it was waited for long enough. It is asked after each look.
func (p *Patience) Over() bool {
	now := time.Now()
	p.left -= min(now.Sub(p.last), p.most)
	p.last = now
	return p.left < 0
}
