package runner_test

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Work that is lost with its worktree is done again after a person's retry.
func TestWorktreeTakenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.Depends("02-01-x")
	if killed, _ := w.Child(dir, 60); !killed {
		t.Fatal("the run came to its end")
	}
	w.Git("worktree", "remove", "--force", w.Task(dir).WorktreePath)
	if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.WorktreeFailed) {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review || w.Calls()["02-01-x"] != 2 {
		t.Errorf("again: %s, %v, calls %v", res.Status, res.Failure, w.Calls())
	}
}

// If a process gets the lock after another one ran the task to its end, it does not run the task again.
func TestRunAfterItEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Counted())
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	res, err := w.Site.TaskRunner().Run(t.Context(), dir, runner.RunOptions{}, nil)
	if err != nil || res.Status != trellis.Review || res.Outcome != trellis.Delivered {
		t.Errorf("the late one: %+v, %v", res, err)
	}
	if h, err := journal.Read(filepath.Join(dir, taskdir.Run)); err != nil || h.Number != 1 {
		t.Errorf("it ran again: run %d, %v", h.Number, err)
	}
}
