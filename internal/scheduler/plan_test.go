package scheduler_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A planning of an existing task that was interrupted leaves the task as it is: the task can't be started, approved or rejected, and a
// watcher reports that once. Planning again finishes it.
func TestReplanCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	w.Site.Config.Planning.Approval = "plan"
	res, err := w.Plan("bye", "say bye")
	if err != nil || res.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", res, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	said := w.Site.Event
	w.Site.Event = func(e runner.Event) {
		if e.Role == trellis.Research {
			cancel()
		}
	}
	cut, err := w.Site.PlanRunner().Replan(ctx, res.Dir, runner.PlanOptions{Feedback: "shorter"})
	if err != nil || !cut.Interrupted {
		t.Fatalf("got %+v, %v", cut, err)
	}
	w.Site.Event = said
	for _, status := range []trellis.Status{trellis.Planning, trellis.Waiting, trellis.Ready} {
		if got := w.Task(res.Dir).Status; got != status {
			w.Edit(res.Dir, `"`+string(got)+`"`, `"`+string(status)+`"`)
		}
		if _, err := w.Site.Starter().Start(context.Background(), res.Dir, runner.RunOptions{}); !errors.Is(err, runner.ErrPlanning) {
			t.Errorf("started when %s: %v", status, err)
		}
		if _, err := w.Site.Approvals().Approve(res.Dir, "ann", ""); !errors.Is(err, runner.ErrPlanning) {
			t.Errorf("approved when %s: %v", status, err)
		}
		if err := w.Site.Approvals().Reject(res.Dir, "ann", "no", ""); !errors.Is(err, runner.ErrPlanning) {
			t.Errorf("rejected when %s: %v", status, err)
		}
		if got := w.Task(res.Dir).Status; got != status {
			t.Errorf("from %s it became %s", status, got)
		}
	}
	all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour})
	if err != nil || len(all) != 1 || all[0].Status != trellis.Ready || w.Heard("trellis plan --retry .trellis/tasks/"+filepath.Base(res.Dir)) != 1 {
		t.Errorf("watched: %+v, %v, %q", all, err, w.Said)
	}
	w.Edit(res.Dir, `"ready"`, `"planning"`)
	if again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{}); err != nil || again.Status != trellis.Waiting {
		t.Errorf("gone on with: %+v, %v", again, err)
	}
}
