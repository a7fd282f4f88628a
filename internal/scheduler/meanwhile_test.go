package scheduler_test

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// meanwhile runs watch --once and carries out order after the watcher has checked the task and asks whether the agent is available.
func meanwhile(t *testing.T, w *world, dir string, order func(s *runner.Site) error) *taskdir.Task {
	t.Helper()
	other, err := runnertest.NewSite(w.Dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1"))
	if err != nil {
		t.Fatal(err)
	}
	ordered := false
	w.Site.Available = func(context.Context, string) error {
		if !ordered {
			ordered = true
			if err := order(other); err != nil {
				t.Error(err)
			}
		}
		return nil
	}
	if _, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour}); err != nil || !ordered {
		t.Errorf("ordered %v, %v", ordered, err)
	}
	return w.Task(dir)
}

// A task that a person stops before the watcher resumes it stays paused.
func TestStopBeforeItGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.Depends("02-01-x")
	if killed, _ := w.Child(dir, 40); !killed {
		t.Fatal("the run came to its end")
	}
	if now := meanwhile(t, w, dir, func(s *runner.Site) error { return s.Orders().Stop(dir) }); now.Status != trellis.Paused {
		t.Errorf("stopped, it is %s", now.Status)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("asked for, it is %s, %v", res.Status, res.Failure)
	}
}

// A ready task that a person sets to planning or cancelled before the watcher begins it does not begin.
func TestTakenBackBeforeItBegins(t *testing.T) {
	t.Parallel()
	for _, to := range []trellis.Status{trellis.Planning, trellis.Cancelled} {
		w := newWorld(t, runnertest.Quickly)
		dir := w.Ready("02-01-a")[0]
		now := meanwhile(t, w, dir, func(s *runner.Site) error {
			_, err := s.Store.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error {
				e.Set("status", to)
				return nil
			})
			return err
		})
		if _, err := os.Stat(w.Dir + "/../calls.log"); now.Status == trellis.Review || err == nil {
			t.Errorf("set to %s, it is %s", to, now.Status)
		}
	}
}

// A task that was paused by a limit and has no journal runs from the beginning when the time has come.
func TestPausedWithoutJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.Ready("02-01-a")[0]
	w.Edit(dir, `"status": "ready"`, `"status": "paused"`)
	if _, err := w.Site.Store.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.Set("pipeline.failure", taskdir.Failure{Code: trellis.RateLimited, Retryable: true})
		e.Set("pipeline.resume_at", time.Now().Add(-time.Minute))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithTimeout(context.Background(), runnertest.Hang)
	defer end()
	if _, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour}); err != nil || w.Task(dir).Status != trellis.Review {
		t.Errorf("it is %s, %v", w.Task(dir).Status, err)
	}
}
