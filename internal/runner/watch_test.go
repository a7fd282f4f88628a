package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Orders to a task that runs: stop and cancel end its agents, and it goes on when told to.
func TestStopAndCancel(t *testing.T) {
	t.Parallel()
	sleepy := strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"echo begun >> $TRELLIS_REPO/../calls.log; sleep 300\", \"", 1)
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

// A plan that people have to agree to waits, an edit voids their yes, and a no rejects it.
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
