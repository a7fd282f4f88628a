package flowtest

import (
	"context"
	"fmt"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// Signals are kept for their Await in the order of arrival, separately by name.
func (s *suite) signals() {
	s.engine.Signal("1", "s", "one")
	s.engine.Signal("2", "other", "x")
	s.engine.Signal("3", "s", "three")
	s.engine.Signal("1", "s", "the same message again")
	s.activities["a"] = func(_ context.Context, _ flow.Call, in string) (any, error) {
		s.engine.Signal("4", "s", "four")
		return in, nil
	}
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		all := ""
		for i := range 3 {
			if i == 2 {
				if _, err := a.Do(f, ""); err != nil {
					return "", err
				}
			}
			got := ""
			if ok, err := f.Await("s", flow.Forever, &got); err != nil || !ok {
				return "", fmt.Errorf("await: %v, %v", ok, err)
			}
			all += got + " "
		}
		return all, nil
	}, "one three four ", nil)
}

// A signal that an Await took is not taken again, even by an Await after a restart.
func (s *suite) signalsAreTakenOnce() {
	s.engine.Signal("1", "s", 1)
	s.engine.Signal("2", "s", nil)
	s.activities["a"] = s.suspendOnce
	fn := func(f flow.Flow, _ string) (string, error) {
		var one int
		first, err := f.Await("s", flow.Forever, &one)
		if err != nil {
			return "", err
		}
		if _, err := a.Do(f, ""); err != nil {
			return "", err
		}
		two := 2
		second, err := f.In("x").Await("s", flow.Forever, &two)
		if err != nil {
			return "", err
		}
		third, err := f.Await("s", 0, nil)
		return fmt.Sprint(first, one, second, two, third), err
	}
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, fmt.Sprint(true, 1, true, 2, false), nil)
}

func (s *suite) awaitLimits() {
	s.activities["a"] = func(_ context.Context, _ flow.Call, in string) (any, error) {
		s.engine.Signal("1", "s", "late")
		return in, nil
	}
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		got := "untouched"
		before, err := f.Await("s", 10*time.Millisecond, &got)
		if err != nil {
			return "", err
		}
		if _, err := a.Do(f, ""); err != nil {
			return "", err
		}
		after, err := f.Await("s", time.Hour, nil)
		return fmt.Sprint(before, got, after), err
	}, fmt.Sprint(false, "untouched", true), nil)
}

// An Await with limit 0 takes a signal that was sent before, and its answer is recorded.
func (s *suite) awaitWithoutWaiting() {
	s.activities["a"] = func(_ context.Context, _ flow.Call, in string) (any, error) {
		s.engine.Signal("1", "s", 1)
		return in, nil
	}
	s.activities["b"] = s.suspendOnce
	fn := func(f flow.Flow, _ string) (string, error) {
		before, err := f.Await("s", 0, nil)
		if err != nil {
			return "", err
		}
		if _, err := a.Do(f, ""); err != nil {
			return "", err
		}
		after, err := f.Await("s", 0, nil)
		if err != nil {
			return "", err
		}
		_, err = b.Do(f, "")
		return fmt.Sprint(before, after), err
	}
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, fmt.Sprint(false, true), nil)
}

func (s *suite) sleep() {
	s.activities["a"] = s.suspendOnce
	fn := func(f flow.Flow, _ string) (string, error) {
		for _, d := range []time.Duration{0, -1, 5 * time.Millisecond} {
			if err := f.Sleep(d); err != nil {
				return "", err
			}
		}
		return a.Do(f, "awake")
	}
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, "awake", nil)
	s.wantEntered("a#1", "a#1")
}

// A cancel ends the context of the running activity, nothing new starts, and Shield saves the work.
func (s *suite) cancelActivity() {
	s.activities["a"] = func(ctx context.Context, _ flow.Call, _ string) (any, error) {
		s.engine.Cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.activities["c"] = func(ctx context.Context, _ flow.Call, in string) (any, error) { return in, ctx.Err() }
	fn := func(f flow.Flow, _ string) (string, error) {
		for _, act := range []flow.Act[string, string]{a, b} {
			if _, err := act.Do(f, ""); err != flow.ErrCancelled {
				s.Errorf("%s: %v, want %v", act, err, flow.ErrCancelled)
			}
		}
		if err := f.Sleep(time.Hour); err != flow.ErrCancelled {
			s.Errorf("sleep: %v, want %v", err, flow.ErrCancelled)
		}
		if err := f.Shield().Sleep(time.Millisecond); err != nil {
			s.Errorf("shielded sleep: %v", err)
		}
		if got, err := c.Do(f.Shield().In("cancel"), "saved"); err != nil || got != "saved" {
			s.Errorf("saving: %q, %v", got, err)
		}
		if _, err := f.Await("s", 0, nil); err != flow.ErrCancelled {
			s.Errorf("await: %v, want %v", err, flow.ErrCancelled)
		}
		return "", flow.ErrCancelled
	}
	for range 2 {
		s.wantRun(fn, "", flow.ErrCancelled)
		s.wantEntered("a#1", "cancel/c#1")
	}
}

func (s *suite) cancelWait() {
	s.activities["a"] = func(_ context.Context, _ flow.Call, in string) (any, error) {
		s.engine.Cancel()
		return in, nil
	}
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		return "", f.All(0,
			flow.Branch{Name: "await", Run: func(f flow.Flow) error { _, err := f.Await("never", flow.Forever, nil); return err }},
			flow.Branch{Name: "sleep", Run: func(f flow.Flow) error { return f.Sleep(24 * time.Hour) }},
			flow.Branch{Name: "cancel", Run: func(f flow.Flow) error { _, err := a.Do(f, ""); return err }},
		)
	}, "", flow.ErrCancelled)
}

func (s *suite) cancelBeforeRun() {
	s.engine.Cancel()
	s.engine.Cancel()
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		if _, err := a.Do(f, ""); err != flow.ErrCancelled {
			s.Errorf("got %v", err)
		}
		return b.Do(f.Shield(), "not called off after all")
	}, "not called off after all", nil)
	s.wantEntered("b#1")
}

// An activity that was cut off and then cancelled is not entered again.
func (s *suite) cancelCutOff() {
	s.activities["a"] = s.suspendOnce
	fn := func(f flow.Flow, _ string) (string, error) { return a.Do(f, "") }
	s.wantRun(fn, "", flow.ErrSuspended)
	s.engine.Cancel()
	s.wantRun(fn, "", flow.ErrCancelled)
	s.wantEntered("a#1")
}

// An activity that succeeds despite a cancel counts as succeeded.
func (s *suite) cancelledButDone() {
	s.activities["a"] = func(ctx context.Context, _ flow.Call, in string) (any, error) {
		s.engine.Cancel()
		<-ctx.Done()
		return in, nil
	}
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		got, err := a.Do(f, "done")
		if err != nil {
			return "", err
		}
		if _, err := b.Do(f, ""); err != flow.ErrCancelled {
			s.Errorf("got %v", err)
		}
		return got, nil
	}, "done", nil)
	s.wantEntered("a#1")
}

// A cancel is recorded. Calls that it kept from starting leave no gap in the numbers, and a call that it cut off stays cut off.
func (s *suite) cancelResumes() {
	s.activities["a"] = func(ctx context.Context, _ flow.Call, in string) (any, error) {
		s.engine.Cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.activities["b"] = s.suspendOnce
	fn := func(f flow.Flow, _ string) (string, error) {
		_, first := a.Do(f, "")
		if first == flow.ErrSuspended {
			return "", first
		}
		_, second := a.Do(f, "")
		if _, err := c.Do(f.Shield(), "save"); err != nil {
			return "", err
		}
		if _, err := b.Do(f.Shield(), ""); err != nil {
			return "", err
		}
		_, third := a.Do(f, "")
		return fmt.Sprint(first, second, third), nil
	}
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, "cancelled cancelled cancelled", nil)
	s.wantEntered("a#1", "c#1", "b#1", "b#1")
}
