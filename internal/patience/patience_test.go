package patience_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/internal/patience"
)

// Who looks all the time waits for as long as was said; a minute in which nobody could look is not all that there is.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		waited := func(stall time.Duration) time.Duration {
			p, began := patience.New(10*time.Second), time.Now()
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
		if !patience.New(0).Over() {
			t.Error("no patience is not over at once")
		}
	})
}

// A context of somebody's patience ends with it, and at once where there is none.
func TestContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := patience.New(10 * time.Second).Context(t.Context())
		defer cancel()
		if <-ctx.Done(); time.Since(began).Round(time.Second) != 10*time.Second || context.Cause(ctx) != context.DeadlineExceeded {
			t.Errorf("it ended after %v: %v", time.Since(began), context.Cause(ctx))
		}
		none, cancel := patience.New(0).Context(t.Context())
		defer cancel()
		if none.Err() == nil {
			t.Error("without patience it did not end at once")
		}
	})
}

// A sleep ends when its time is over, or with the context, whose cause it tells.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if err := patience.Sleep(t.Context(), time.Minute); err != nil || time.Since(began) != time.Minute {
			t.Errorf("it ended after %v: %v", time.Since(began), err)
		}
		why := errors.New("somebody came")
		ctx, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { end(why) })
		began = time.Now()
		if err := patience.Sleep(ctx, time.Minute); err != why || time.Since(began) != time.Second {
			t.Errorf("with a context that ended it took %v: %v", time.Since(began), err)
		}
	})
}
