package tui

import (
	"testing"
	"testing/synctest"
	"time"
)

// What is read beside gives way for as long as keys are pressed, and costs nothing when none is.
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
