package tui

import (
	"testing"
	"testing/synctest"
	"time"
)

// Reading in the background pauses shortly after a key was pressed, and does not pause otherwise.
func TestHandGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h keyActivity
		took := func() time.Duration {
			began := time.Now()
			h.yield()
			return time.Since(began)
		}
		if got := took(); got != 0 {
			t.Errorf("before any key it waits for %v", got)
		}
		h.press()
		if got := took(); got != typingPause {
			t.Errorf("behind a key it waits for %v", got)
		}
		<-time.After(typingWindow)
		if got := took(); got != 0 {
			t.Errorf("long after a key it waits for %v", got)
		}
	})
}
