package journal_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
)

func sleepAnHour(f flow.Flow, _ string) (string, error) { return "awake", f.Sleep(time.Hour) }

// A sleep counts from its first call, across processes and the time between them.
func TestSleepWithoutProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := journal.Options{Dir: t.TempDir()}
		begin(t, o, "")
		start := time.Now()
		for _, at := range []time.Duration{0, 20 * time.Minute, 58 * time.Minute} {
			time.Sleep(time.Until(start.Add(at)))
			_, err := execute(t, t.Context(), o, sleepAnHour)
			var parked *journal.Parked
			if !errors.As(err, &parked) || !parked.Until.Equal(start.Add(time.Hour)) {
				t.Errorf("after %v: %v, want until %v", at, err, start.Add(time.Hour))
			}
		}
		time.Sleep(time.Until(start.Add(59*time.Minute + 30*time.Second)))
		if got, err := execute(t, t.Context(), o, sleepAnHour); err != nil || got != "awake" || time.Since(start) != time.Hour {
			t.Errorf("got %q, %v after %v", got, err, time.Since(start))
		}
	})
}

// The wall clock jumps while a process waits. Set back, it does not make the wait longer; set forward, as after the
// computer slept, it ends the wait at the next check.
func TestClockJumps(t *testing.T) {
	for name, test := range map[string]struct {
		jump     time.Duration
		min, max time.Duration
	}{
		"back a day":    {-24 * time.Hour, time.Hour, time.Hour},
		"forward a day": {24 * time.Hour, 10 * time.Minute, 10*time.Minute + 5*time.Second},
		"forward a bit": {20 * time.Minute, 40 * time.Minute, 40*time.Minute + 5*time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now()
			o := journal.Options{Dir: t.TempDir(), ParkAfter: 24 * time.Hour, Now: func() time.Time {
				if time.Since(start) >= 10*time.Minute {
					return time.Now().Add(test.jump)
				}
				return time.Now()
			}}
			begin(t, o, "")
			_, err := execute(t, t.Context(), o, sleepAnHour)
			if took := time.Since(start); err != nil || took < test.min || took > test.max {
				t.Errorf("%s: slept %v, %v, want %v to %v", name, took, err, test.min, test.max)
			}
		})
	}
}

// The wall clock is set back between two processes: the second waits no longer than the whole time.
func TestClockBackBetweenProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := journal.Options{Dir: t.TempDir()}
		begin(t, o, "")
		if _, err := execute(t, t.Context(), o, sleepAnHour); err == nil {
			t.Fatal("it should park")
		}
		o.ParkAfter = 24 * time.Hour
		o.Now = func() time.Time { return time.Now().AddDate(-1, 0, 0) }
		start := time.Now()
		if _, err := execute(t, t.Context(), o, sleepAnHour); err != nil || time.Since(start) != time.Hour {
			t.Errorf("slept %v, %v", time.Since(start), err)
		}
		h, err := journal.Read(o.Dir)
		if err != nil || !h.Ended || !h.EndedAt.Before(h.Began) {
			t.Errorf("records tell the time of the clock: began %v, ended %v, %v", h.Began, h.EndedAt, err)
		}
	})
}
