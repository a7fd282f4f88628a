package tui

import (
	"sync/atomic"
	"time"
)

const (
	// busyFor is how long after a key other keys are expected.
	busyFor = 100 * time.Millisecond
	// stepAside is how long work that can wait pauses for keys.
	stepAside = 10 * time.Millisecond
)

// hand is the person at the keys. Reading in the background gives way to it.
type hand struct{ last atomic.Int64 }

func (h *hand) press() { h.last.Store(time.Now().UnixNano()) }

// yield pauses if a key was pressed lately: work that calls it between its pieces gets slower then, and the screen does not.
func (h *hand) yield() {
	if time.Since(time.Unix(0, h.last.Load())) < busyFor {
		time.Sleep(stepAside)
	}
}
