package tui

import (
	"sync/atomic"
	"time"
)

const (
	// busyFor is for how long after a key others are expected.
	busyFor = 100 * time.Millisecond
	// stepAside is how long what can wait lets keys go first.
	stepAside = 10 * time.Millisecond
)

// hand is the person at the keys. What is read beside gives way to it.
type hand struct{ last atomic.Int64 }

func (h *hand) press() { h.last.Store(time.Now().UnixNano()) }

// yield takes a moment when a key was pressed lately: whoever calls it between two pieces of work is slower then, and the screen is not.
func (h *hand) yield() {
	if time.Since(time.Unix(0, h.last.Load())) < busyFor {
		time.Sleep(stepAside)
	}
}
