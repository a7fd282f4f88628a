package scheduler_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A provider's limit pauses the task until the time that the provider names, and uses up no attempt. A start waits for a near time; watch
// --once does not wait for a far one.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	script := func(at time.Time) string {
		return strings.Replace(runnertest.Quickly, "implement: [{run:", fmt.Sprintf("implement: [{fail: {code: rate_limited, detail: slow down, resume_at: %s}}, {run:", at.UTC().Format(time.RFC3339)), 1)
	}
	t.Run("near", func(t *testing.T) {
		w := newWorld(t, script(time.Now().Add(5*time.Second))) // later than the run needs to reach it
		dir := filepath.Join(w.Site.Store.Tasks(), "02-01-limited")
		if err := runnertest.Lay(dir, "ready"); err != nil {
			t.Fatal(err)
		}
		if res := w.Start(dir); res.Status != trellis.Review {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
		if got := w.Task(dir).Pipeline.Attempt; got != 1 {
			t.Errorf("it took attempt %d", got)
		}
	})
	t.Run("far", func(t *testing.T) {
		at := time.Now().Add(time.Hour).Truncate(time.Second)
		w := newWorld(t, script(at))
		dir := filepath.Join(w.Site.Store.Tasks(), "02-01-limited")
		if err := runnertest.Lay(dir, "ready"); err != nil {
			t.Fatal(err)
		}
		all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour})
		if err != nil || len(all) != 1 || all[0].Status != trellis.Paused {
			t.Fatalf("got %+v, %v", all, err)
		}
		task := w.Task(dir)
		if p := task.Pipeline; p.Failure.Code != trellis.RateLimited || !p.ResumeAt.Equal(at) {
			t.Errorf("task.json says %+v", p)
		}
		w.Site.Now = func() time.Time { return at.Add(time.Second) }
		all, err = scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour})
		if err != nil || len(all) != 1 || all[0].Status != trellis.Review {
			t.Errorf("later: %+v, %v", all, err)
		}
	})
}

// An outage of a provider pauses the task, uses up no attempt, and the task resumes by itself when the outage ends (edge A6).
func TestOutage(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	down := fmt.Sprintf("{fail: {code: provider_unavailable, detail: the provider answered 529, resume_at: %s}}", at.UTC().Format(time.RFC3339))
	w := newWorld(t, strings.Replace(runnertest.Quickly, "implement: [{run:", "implement: ["+down+", {run:", 1))
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-outage")
	if err := runnertest.Lay(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Paused || res.Until.Sub(at).Abs() > time.Minute || res.Failure == nil {
		t.Fatalf("got %+v", res)
	}
	if p := w.Task(dir).Pipeline; p.Failure.Code != trellis.ProviderDown || !p.ResumeAt.Equal(at) || p.Attempt != 1 {
		t.Errorf("task.json says %+v", p)
	}
	w.Site.Now = func() time.Time { return at.Add(time.Second) }
	all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour})
	if err != nil || len(all) != 1 || all[0].Status != trellis.Review || w.Task(dir).Pipeline.Attempt != 1 {
		t.Errorf("later: %+v, %v", all, err)
	}
}

// A task that is paused by a provider's limit stays paused until the time comes, also if a person starts it earlier or a watcher finds it
// in_progress. The watcher does not write task.json again and again.
func TestStartBeforeTheTime(t *testing.T) {
	t.Parallel()
	at := time.Now().Add(time.Hour).Truncate(time.Second)
	w := newWorld(t, strings.Replace(runnertest.Quickly, "implement: [{run:", fmt.Sprintf("implement: [{fail: {code: rate_limited, detail: slow down, resume_at: %s}}, {run:", at.UTC().Format(time.RFC3339)), 1))
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-limited")
	if err := runnertest.Lay(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	paused := func(who string) {
		t.Helper()
		if p := w.Task(dir); p.Status != trellis.Paused || p.Pipeline.Failure.Code != trellis.RateLimited || !p.Pipeline.ResumeAt.Equal(at) {
			t.Errorf("after %s: %s, %+v", who, p.Status, p.Pipeline)
		}
	}
	w.Start(dir)
	paused("the run")
	if res := w.Start(dir); res.Status != trellis.Paused || res.Until.IsZero() {
		t.Errorf("started again: %+v", res)
	}
	paused("start")
	if err := w.Site.Orders().Stop(dir); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Paused || res.Until.IsZero() || res.Failure == nil {
		t.Errorf("stopped and started: %+v", res)
	}
	paused("stop and start")
	w.Edit(dir, `"paused"`, `"in_progress"`)
	w.Edit(dir, at.UTC().Format(time.RFC3339), at.UTC().Add(-2*time.Hour).Format(time.RFC3339))
	before := w.Task(dir).Pipeline.Revision
	all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour})
	if err != nil || len(all) != 1 || all[0].Status != trellis.Paused {
		t.Errorf("watched: %+v, %v", all, err)
	}
	paused("a watcher")
	if n := w.Task(dir).Pipeline.Revision - before; n > 3 {
		t.Errorf("the watcher wrote task.json %d times", n)
	}
}
