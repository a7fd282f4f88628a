package tui

import (
	"sync/atomic"
	"time"
)

const (
	// typingWindow is how long after a key other keys are expected.
	typingWindow = 100 * time.Millisecond
	// typingPause is how long work that can wait pauses for keys.
	typingPause = 10 * time.Millisecond
)

// keyActivity holds when a key was last pressed. Reading in the background pauses for keys.
type keyActivity struct{ last atomic.Int64 }

func (h *keyActivity) press() { h.last.Store(time.Now().UnixNano()) }

// yield pauses if a key was pressed lately: work that calls it between its pieces gets slower then, and the screen does not.
func (h *keyActivity) yield() {
	if time.Since(time.Unix(0, h.last.Load())) < typingWindow {
		time.Sleep(typingPause)
	}
}
