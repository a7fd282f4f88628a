package durable_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Who looks all the time waits for as long as was said; a minute in which nobody could look is not all that there is.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited := func(stall time.Duration) time.Duration {
			p, began := durable.NewPatience(10*time.Second), time.Now()
			time.Sleep(stall)
			for !p.Over() {
				time.Sleep(10 * time.Millisecond)
			}
			return time.Since(began).Round(time.Second)
		}
		if got, want := waited(0), 10*time.Second; got != want {
			t.Errorf("waited for %v, want %v", got, want)
		}
		if got, want := waited(time.Minute), 69*time.Second; got != want {
			t.Errorf("where the machine stalls for a minute, waited for %v, want %v", got, want)
		}
	})
}
