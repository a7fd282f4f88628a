package flowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// stepBranch returns a branch that enters activity a once.
func stepBranch(name string, after ...string) flow.Branch {
	return flow.Branch{Name: name, After: after, Run: func(f flow.Flow) error { _, err := a.Do(f, name); return err }}
}

// A branch begins once those in its After have ended, regardless of the order of the list.
func (s *suite) branchOrder() {
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		if err := f.All(0); err != nil {
			return "", err
		}
		return "all", f.All(0, stepBranch("e", "c", "d"), stepBranch("d", "b"), stepBranch("c", "a"), stepBranch("b", "a"), stepBranch("a"))
	}, "all", nil)
	got := s.entered()
	at := func(name string) int { return slices.Index(got, name+"/a#1") }
	if len(got) != 5 || at("a") != 0 || at("e") != 4 || at("b") > at("d") {
		s.Errorf("entered %q", got)
	}
}

// At most n branches run at a time, and n do if there are enough.
func (s *suite) branchPool() {
	const pool = 3
	var mu sync.Mutex
	working, most := 0, 0
	full := make(chan struct{})
	s.activities["a"] = func(_ context.Context, _ flow.Call, in string) (any, error) {
		mu.Lock()
		working++
		if most = max(most, working); most == pool {
			select {
			case <-full:
			default:
				close(full)
			}
		}
		mu.Unlock()
		<-full
		time.Sleep(5 * time.Millisecond) // time for a further branch to start
		mu.Lock()
		defer mu.Unlock()
		working--
		return in, nil
	}
	var branches []flow.Branch
	for i := range 10 {
		branches = append(branches, stepBranch(fmt.Sprint("b", i)))
	}
	s.wantRun(func(f flow.Flow, _ string) (string, error) { return "all", f.All(pool, branches...) }, "all", nil)
	if got := len(s.entered()); got != 10 || most != pool {
		s.Errorf("%d entered, %d at a time, want 10, %d", got, most, pool)
	}
}

// All waits for every branch and joins their errors in the order of the list. A branch that fails does not prevent others from
// starting.
func (s *suite) branchErrors() {
	s.activities["a"] = func(_ context.Context, _ flow.Call, in string) (any, error) {
		if strings.HasPrefix(in, "bad") {
			return nil, flow.Fail(in, "because")
		}
		return in, nil
	}
	fn := func(f flow.Flow, _ string) (string, error) {
		err := f.All(1, stepBranch("bad2", "good"), stepBranch("good"), stepBranch("bad1"), stepBranch("last", "bad1", "bad2"))
		return err.Error(), nil
	}
	for range 2 {
		s.wantRun(fn, "bad2: because\nbad1: because", nil)
	}
	if got := len(s.entered()); got != 4 {
		s.Errorf("%d entered, want 4", got)
	}
}

// Branches that were cut off continue each where it was, with separate counters.
func (s *suite) branchesResume() {
	s.activities["b"] = s.suspendOnce
	fn := func(f flow.Flow, _ string) (string, error) {
		results := make([]string, 2)
		branch := func(i int, last flow.Act[string, string]) flow.Branch {
			return flow.Branch{Name: fmt.Sprint("x", i), Run: func(f flow.Flow) error {
				for range 2 {
					if _, err := a.Do(f, ""); err != nil {
						return err
					}
				}
				var err error
				results[i], err = last.Do(f.In("end"), fmt.Sprint("result", i))
				return err
			}}
		}
		if err := f.All(0, branch(0, c), branch(1, b)); err != nil {
			return "", err
		}
		if _, err := a.Do(f, ""); err != nil {
			return "", err
		}
		return strings.Join(results, " "), f.All(0, stepBranch("x0"))
	}
	s.wantRun(fn, "", flow.ErrSuspended)
	s.wantRun(fn, "result0 result1", nil)
	got := s.entered()
	slices.Sort(got)
	want := []string{"a#1", "x0/a#1", "x0/a#2", "x0/a#3", "x0/end/c#1", "x1/a#1", "x1/a#2", "x1/end/b#1", "x1/end/b#1"}
	if !slices.Equal(got, want) {
		s.Errorf("entered %q, want %q", got, want)
	}
}

func (s *suite) nestedBranches() {
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		inner := func(f flow.Flow) error {
			if _, err := a.Do(f, ""); err != nil {
				return err
			}
			return f.In("deep").All(0, stepBranch("p"), stepBranch("q", "p"))
		}
		return "all", f.All(0, flow.Branch{Name: "x", Run: inner}, flow.Branch{Name: "y", Run: inner, After: []string{"x"}})
	}, "all", nil)
	s.wantEntered("x/a#1", "x/deep/p/a#1", "x/deep/q/a#1", "y/a#1", "y/deep/p/a#1", "y/deep/q/a#1")
}

// Each branch decides what a cancel means. A branch that had not begun gets the cancel too.
func (s *suite) cancelBranches() {
	s.activities["a"] = func(ctx context.Context, _ flow.Call, _ string) (any, error) {
		s.engine.Cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	s.wantRun(func(f flow.Flow, _ string) (string, error) {
		err := f.All(0, stepBranch("first"), flow.Branch{Name: "second", After: []string{"first"}, Run: func(f flow.Flow) error {
			if _, err := b.Do(f, ""); !errors.Is(err, flow.ErrCancelled) {
				s.Errorf("got %v", err)
			}
			_, err := c.Do(f.Shield(), "saved")
			return err
		}})
		return "", err
	}, "", flow.ErrCancelled)
	s.wantEntered("first/a#1", "second/c#1")
}
