package flowtest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

func (s *suite) results() {
	s.activities["b"] = func(context.Context, flow.Call, string) (any, error) { return nil, nil }
	s.wantRun(func(f flow.Flow, in string) (string, error) {
		one, err := a.Do(f, "<ä & \u2028>")
		if err != nil {
			return "", err
		}
		two := "stays" // null does not change it
		if err := f.Do("b", nil, &two); err != nil {
			return "", err
		}
		if err := f.Do("c", in, nil); err != nil {
			return "", err
		}
		return in + one + two, nil
	}, Input+"<ä & \u2028>stays", nil)
	if want := []string{"<ä & \u2028>", "", Input}; !slices.Equal(s.inputs, want) {
		s.Errorf("inputs %q, want %q", s.inputs, want)
	}
}

// A failure is data: complete, the same when read from the record, and not retried by the engine. Other errors become failures.
func (s *suite) failures() {
	want := &flow.Failure{Code: "rate_limited", Detail: "wait", Retryable: true,
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), ResumeAt: time.Date(2026, 1, 2, 4, 0, 0, 0, time.UTC)}
	s.activities["a"] = func(context.Context, flow.Call, string) (any, error) { return "dropped", want }
	s.activities["b"] = func(context.Context, flow.Call, string) (any, error) { return nil, errors.New("no file") }
	s.activities["c"] = s.suspendOnce
	fn := func(f flow.Flow, _ string) (string, error) {
		var out string
		err := f.Do("a", "", &out)
		var got *flow.Failure
		if !errors.As(err, &got) || !reflect.DeepEqual(got, want) || out != "" {
			s.Errorf("got %+v and %q, want %+v", got, out, want)
		}
		if got != nil {
			got.Detail = "changed by the flow"
		}
		if err := f.Do("b", "", nil); !isInternal(err) || !strings.Contains(err.Error(), "no file") {
			s.Errorf("got %v, want code internal", err)
		}
		return c.Do(f, "done")
	}
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, "done", nil)
	s.wantEntered("a#1", "b#1", "c#1", "c#1")
}

// suspendOnce is work that is cut off at the first attempt.
func (s *suite) suspendOnce(ctx context.Context, c flow.Call, in string) (any, error) {
	if c.Attempt > 1 {
		return in, nil
	}
	s.engine.Suspend()
	<-ctx.Done()
	return nil, ctx.Err()
}

func (s *suite) flowFails() {
	want := &flow.Failure{Code: "verify_failed", Detail: "round 3"}
	fn := func(f flow.Flow, _ string) (string, error) { return "so far", want }
	for range 2 {
		_, err := s.run(fn)
		var got *flow.Failure
		if !errors.As(err, &got) || *got != *want {
			s.Errorf("got %v, want %v", err, want)
		}
	}
}

func (s *suite) ids() {
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		round := f.In("round-1")
		for _, each := range []flow.Flow{f, round, f, f.In("round-1"), round.In("step"), f.Shield(), round.Shield()} {
			if _, err := a.Do(each, ""); err != nil {
				return "", err
			}
		}
		_, err := b.Do(f, "")
		return "", err
	}, "", nil)
	s.wantEntered("a#1", "round-1/a#1", "a#2", "round-1/a#2", "round-1/step/a#1", "a#3", "round-1/a#3", "b#1")
	for _, c := range s.calls {
		if c.Run == "" || c.Run != s.calls[0].Run || c.Attempt != 1 || c.Key() != c.Run+"/"+c.ID {
			s.Errorf("call %+v", c)
		}
	}
}

func (s *suite) endedOnlyAnswers() {
	fn := func(f flow.Flow, in string) (string, error) { return a.Do(f, "one") }
	s.wantRun(fn, "one", nil)
	s.engine.Signal("late", "s", 1)
	s.wantRun(fn, "one", nil)
	s.wantEntered("a#1")
}

func (s *suite) payloads() {
	quotes := 2
	largest := strings.Repeat("x", flow.MaxPayload-quotes)
	s.activities["c"] = func(_ context.Context, _ flow.Call, in string) (any, error) { return largest + in, nil }
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		if got, err := a.Do(f, largest); err != nil || got != largest {
			s.Errorf("largest: %d bytes, %v", len(got), err)
		}
		if _, err := b.Do(f, largest+"x"); !isInternal(err) {
			s.Errorf("too large an input: %v", err)
		}
		if err := f.Do("b", func() {}, nil); !isInternal(err) {
			s.Errorf("an input that is not valid JSON: %v", err)
		}
		if _, err := c.Do(f, "x"); !isInternal(err) {
			s.Errorf("too large a result: %v", err)
		}
		return "", nil
	}, "", nil)
	s.wantEntered("a#1", "c#1")
}

// A finished activity is not entered again. One that was cut off is, and its attempt says so.
func (s *suite) suspend() {
	s.activities["b"] = s.suspendOnce
	fn := func(f flow.Flow, _ string) (string, error) {
		one, err := a.Do(f, "<one & \u2028>") // has more than one encoding in JSON
		if err != nil {
			return "", err
		}
		two, err := b.Do(f, "two")
		if err != nil {
			if _, err := c.Do(f, ""); !errors.Is(err, flow.ErrSuspended) {
				s.Errorf("after a suspend: %v", err)
			}
			return "", err
		}
		return one + two, nil
	}
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, "<one & \u2028>two", nil)
	s.wantEntered("a#1", "b#1", "b#1")
	if got := s.calls[2].Attempt; got != 2 {
		s.Errorf("attempt %d, want 2", got)
	}
}

func (s *suite) successWhileStopping() {
	s.activities["a"] = func(ctx context.Context, c flow.Call, in string) (any, error) {
		s.engine.Suspend()
		<-ctx.Done()
		return in, nil
	}
	fn := func(f flow.Flow, _ string) (string, error) { return a.Do(f, "made it") }
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, "made it", nil)
	s.wantEntered("a#1")
}

// A failure while the run is stopping may be caused by that, so it is not recorded as an outcome.
func (s *suite) failureWhileStopping() {
	s.activities["a"] = func(ctx context.Context, c flow.Call, in string) (any, error) {
		if c.Attempt > 1 {
			return in, nil
		}
		s.engine.Suspend()
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), flow.ErrSuspended) {
			s.Errorf("cause %v, want %v", context.Cause(ctx), flow.ErrSuspended)
		}
		return nil, flow.Fail("agent_signal", "killed")
	}
	fn := func(f flow.Flow, _ string) (string, error) { return a.Do(f, "again") }
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, "again", nil)
}

// Rules that flow code must not break. If it does, the run stops, and what it asked for is not done.
func (s *suite) misuse() {
	nothing := func(flow.Flow) error { return nil }
	for name, fn := range map[string]func(f flow.Flow) error{
		"outer flow in a branch": func(f flow.Flow) error {
			return f.All(0, flow.Branch{Name: "x", Run: func(flow.Flow) error { _, err := a.Do(f, ""); return err }})
		},
		"scope of the outer flow in a branch": func(f flow.Flow) error {
			in := f.In("before")
			return f.All(0, flow.Branch{Name: "x", Run: func(flow.Flow) error { _, err := a.Do(in, ""); return err }})
		},
		"flow of a branch that is over": func(f flow.Flow) error {
			var kept flow.Flow
			err := f.All(0, flow.Branch{Name: "x", Run: func(f flow.Flow) error { kept = f; return nil }})
			return errors.Join(err, kept.Do("a", "", nil))
		},
		"two branches of one name": func(f flow.Flow) error {
			return f.All(0, flow.Branch{Name: "x", Run: nothing}, flow.Branch{Name: "x", Run: nothing})
		},
		"branch without a name": func(f flow.Flow) error { return f.All(0, flow.Branch{Run: nothing}) },
		"after one that is not there": func(f flow.Flow) error {
			return f.All(0, flow.Branch{Name: "x", After: []string{"y"}, Run: nothing})
		},
		"in a circle": func(f flow.Flow) error {
			return f.All(0, flow.Branch{Name: "x", After: []string{"y"}, Run: nothing}, flow.Branch{Name: "y", After: []string{"x"}, Run: nothing})
		},
		"a scope that climbs":    func(f flow.Flow) error { return f.In("..").Do("a", "", nil) },
		"a scope of two":         func(f flow.Flow) error { return f.In("x/y").Do("a", "", nil) },
		"an activity nobody has": func(f flow.Flow) error { return f.Do("z", "", nil) },
	} {
		s.Run(name, func(t *testing.T) {
			s := newSuite(t, s.newEngine)
			if _, err := s.run(func(f flow.Flow, _ string) (string, error) { return "", fn(f) }); err == nil {
				s.Error("no error")
			}
			s.wantEntered()
		})
	}
}
