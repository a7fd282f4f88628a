package runner_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// team is a Sharing in which one machine has all tasks. It records what is published.
type team struct {
	by *runner.OtherMachineError // the machine that has them, nil for this one

	mu     sync.Mutex
	whys   []string
	undone []string         // activities that the journal already had as done when they were published
	fail   map[string]error // errors of Save, by why
	dir    string
	ended  []runner.Result
}

func (s *team) Elsewhere(string) *runner.OtherMachineError { return s.by }
func (s *team) Last(string) bool                           { return s.by == nil }
func (s *team) SpentElsewhere() trellis.Usage              { return trellis.Usage{} }
func (s *team) Take(_ context.Context, dir string, fit runner.FitCheck) (runner.Lease, error) {
	if s.by != nil {
		return nil, s.by
	}
	s.dir = dir
	_, err := fit(nil)
	return s, err
}
func (s *team) Brought() bool  { return false }
func (s *team) MarkFit() error { return nil }
func (s *team) Hold(ctx context.Context) (context.Context, func(runner.Result) error) {
	return ctx, func(r runner.Result) error { s.ended = append(s.ended, r); return nil }
}
func (s *team) Save(_ context.Context, why string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.whys = append(s.whys, why)
	h, err := journal.Read(filepath.Join(s.dir, taskdir.Run))
	if err != nil {
		return err
	}
	for _, e := range h.Calls {
		if e.Done && strings.HasSuffix(why, " "+e.ID) {
			s.undone = append(s.undone, why)
		}
	}
	err = s.fail[why]
	delete(s.fail, why)
	return err
}

// What a run does is published before the journal has it as done. If publishing fails, the run is suspended, and resumes without a second
// call of an agent.
func TestRunGivesWhatItDoesToOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Counted())
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	gone := fmt.Errorf("%w: the remote does not answer", flow.ErrSuspended)
	s := &team{fail: map[string]error{"after implement#1": gone, "after round-2/commit#1": gone}}
	w.Site.Sharing = s
	for range 2 {
		if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); !errors.Is(err, flow.ErrSuspended) || !strings.Contains(err.Error(), "does not answer") {
			t.Fatalf("got %v, after %q, %v", err, s.whys, w.Task(dir).Status)
		}
		if got := w.Task(dir); got.Status != trellis.InProgress {
			t.Errorf("it is %s", got.Status)
		}
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if len(s.undone) > 0 {
		t.Errorf("given after they were done: %q", s.undone)
	}
	for role, n := range w.Calls() {
		if n != 1 {
			t.Errorf("%s was asked %d times", role, n)
		}
	}
	if got := w.Git("rev-list", "--count", "main..feature/bye"); got != "1" {
		t.Errorf("%s commits", got)
	}
	given := map[string]bool{}
	for _, why := range s.whys {
		given[why] = true
	}
	for _, why := range []string{"after claim#1", "after prepare#1", "after implement#1", "after round-1/check#1", "after round-2/debug#1", "after round-2/commit#1"} {
		if !given[why] {
			t.Errorf("not given: %s, of %q", why, s.whys)
		}
	}
	if len(s.ended) != 3 || s.ended[2].Status != trellis.Review {
		t.Errorf("ended with %+v", s.ended)
	}
}

// A task that another machine has is neither run nor changed.
func TestTaskOfAnotherMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Counted())
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	before := texts(t, dir)
	w.Site.Sharing = &team{by: &runner.OtherMachineError{Task: "02-01-bye", Host: "anna-laptop", Since: time.Date(2026, 2, 1, 9, 0, 0, 0, time.UTC)}}
	_, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
	if !errors.Is(err, durable.ErrHeld) || !strings.Contains(err.Error(), "anna-laptop is at work on 02-01-bye, since ") {
		t.Errorf("start: %v", err)
	}
	if _, err := w.Site.TaskRunner().Run(context.Background(), dir, runner.RunOptions{}, nil); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("run: %v", err)
	}
	l, err := w.Site.Assessor().AssessAndUpdate(context.Background(), dir)
	if err != nil || l.Run || l.Elsewhere == nil {
		t.Errorf("assessed as %+v, %v", l, err)
	}
	if after := texts(t, dir); !maps.Equal(after, before) {
		t.Errorf("the directory was %v and is %v", before, after)
	}
}

// texts returns the contents of the files directly in a directory.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		data, _ := os.ReadFile(filepath.Join(dir, e.Name())) // a folder has none
		all[e.Name()] = string(data)
	}
	return all
}
