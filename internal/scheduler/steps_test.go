package scheduler_test

import (
	"context"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A watcher does not resume a run that waits for the approval of a step, and says how to approve.
func TestWatchLeavesWaitingSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	dir := w.Stepped("02-01-bye", runnertest.Obj{"id": "ask", "type": "approval", "title": "Shall it say bye?"}, runnertest.AddFlag, runnertest.Note)
	watch := func() runner.Result {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), runnertest.Hang)
		defer cancel()
		all, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour})
		if err != nil || ctx.Err() != nil || len(all) != 1 {
			t.Fatalf("got %+v, %v, %v", all, err, ctx.Err())
		}
		return all[0]
	}
	const how = "approval of the step ask; next: trellis approve 02-01-bye --step ask"
	for range 2 {
		if res := watch(); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits.String() != how || w.Task(dir).Pipeline.Revision > 5 {
			t.Fatalf("got %s, %q, revision %d", res.Status, res.Waits, w.Task(dir).Pipeline.Revision)
		}
	}
	if res := w.Start(dir); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits.String() != how {
		t.Errorf("start: %s, %q", res.Status, res.Waits)
	}
	if _, _, err := w.Site.Approvals().DecideStep(dir, proof.Approval{Decision: proof.Approve, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if res := watch(); res.Status != trellis.Review {
		t.Errorf("after the yes: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}
