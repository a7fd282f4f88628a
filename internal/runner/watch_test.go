package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Stop and cancel, also by an edit of task.json, end the agents of a running task.
func TestStopAndCancel(t *testing.T) {
	t.Parallel()
	sleepy := strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"echo begun >> $TRELLIS_REPO/../calls.log; sleep 3000\", \"", 1)
	for name, c := range map[string]struct {
		order func(w *world, dir string) error
		want  trellis.Status
	}{
		"stop":           {func(w *world, dir string) error { return w.Site.Orders().Stop(dir) }, trellis.Paused},
		"cancel":         {func(w *world, dir string) error { return w.Site.Orders().Cancel(dir) }, trellis.Cancelled},
		"cancel by hand": {func(w *world, dir string) error { w.Edit(dir, `"in_progress"`, `"cancelled"`); return nil }, trellis.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, sleepy)
			dir := filepath.Join(w.Site.Store.Tasks(), "02-01-sleepy")
			if err := runnertest.Lay(dir, "ready"); err != nil {
				t.Fatal(err)
			}
			ended := make(chan runner.Result)
			go func() {
				res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
				if err != nil {
					t.Error(err)
				}
				ended <- res
			}()
			w.Until("the agent at work", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "..", "calls.log")); return err == nil })
			if err := c.order(w, dir); err != nil {
				t.Fatal(err)
			}
			select {
			case res := <-ended:
				if res.Status != c.want {
					t.Errorf("got %s (%v), want %s", res.Status, res.Failure, c.want)
				}
			case <-time.After(runnertest.Hang):
				t.Fatal("the run did not end")
			}
			if _, held := runner.Held(dir); held {
				t.Error("the task is still held")
			}
		})
	}
}

// After a planning, people have to decide again, even if its plan is the same as before: earlier rejections and approvals don't count.
func TestApprovalOfTheSamePlanAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	w.Site.Config.Planning.Approval = "plan"
	res, err := w.Plan("bye", "say bye")
	if err != nil || res.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", res, err)
	}
	dir, page := res.Dir, w.File(res.Dir, "prd.md")
	approvals := w.Site.Approvals()
	again := func() {
		t.Helper()
		res, err := w.Site.PlanRunner().Replan(context.Background(), dir, runner.PlanOptions{})
		if err != nil || res.Status != trellis.Waiting || w.File(dir, "prd.md") != page {
			t.Fatalf("got %+v, %v", res, err)
		}
		if g, err := approvals.Agreement(dir); err != nil || g.State != proof.Pending {
			t.Fatalf("people agreed or did not before they were asked: %+v, %v", g, err)
		}
	}
	if err := approvals.Reject(dir, "bob", "not now", ""); err != nil {
		t.Fatal(err)
	}
	again()
	if v, err := approvals.Approve(dir, "ann", ""); err != nil || v.State != proof.Approved || w.Task(dir).Status != trellis.Ready {
		t.Fatalf("ann's yes: %+v, %v, status %s", v, err, w.Task(dir).Status)
	}
	again()
	if err := approvals.Reject(dir, "bob", "still not", ""); err != nil || w.Task(dir).Status != trellis.Rejected {
		t.Fatalf("bob's second no: %v, status %s", err, w.Task(dir).Status)
	}
	again()
	if _, err := approvals.Approve(dir, "ann", ""); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("approved: %s, %v, waits for %q", res.Status, res.Failure, res.Waits)
	}
}

// A plan that needs approval waits. An edit voids the approval, and a rejection sets the task to rejected.
func TestApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	w.Site.Config.Planning.Approval = "plan"
	plan := func(name string) string {
		res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: name, DevType: "backend"}, Requirement: "bye"})
		if err != nil || res.Status != trellis.Waiting {
			t.Fatalf("got %+v, %v", res, err)
		}
		return res.Dir
	}
	dir := plan("yes")
	if res := w.Start(dir); res.Status != trellis.Waiting || len(res.Waits) != 1 {
		t.Fatalf("without an approval: %+v", res)
	}
	if _, err := w.Site.Approvals().Approve(dir, "ann", ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "info.md"), []byte("another way\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("after an edit: %+v", res)
	}
	if _, err := w.Site.Approvals().Approve(dir, "ann", ""); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("approved: %s, %v", res.Status, res.Failure)
	}
	dir = plan("no")
	if err := w.Site.Approvals().Reject(dir, "bob", "not now", ""); err != nil {
		t.Fatal(err)
	}
	if page := w.Read(".trellis/tasks/" + filepath.Base(dir) + "/REJECTED.md"); w.Task(dir).Status != trellis.Rejected || !strings.Contains(page, "Rejected by bob") || !strings.Contains(page, "not now") {
		t.Errorf("status %s, %s", w.Task(dir).Status, page)
	}
}
