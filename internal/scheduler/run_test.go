package scheduler_test

import (
	"context"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestPlanThenWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "greet.sh --bye says bye"})
	if err != nil || res.Status != trellis.Ready || res.Failure != nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: 1e10})
	if err != nil || len(all) != 1 || all[0].Status != trellis.Review {
		t.Fatalf("got %+v, %v, %q", all, err, w.Said)
	}
	if got := w.Git("log", "--format=%s", "main..feature/bye"); got != "feat(greet): Say bye" {
		t.Errorf("got commits %q", got)
	}
}
