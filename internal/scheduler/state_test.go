package scheduler_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// A watcher resumes a run that waits for approval as soon as the documents are again as approved, and does not write task.json again and
// again.
func TestWatcherSeesWhatIsPutBack(t *testing.T) {
	t.Parallel()
	w, dir := editedWhile(t, "main")
	w.watching(scheduler.WatchOptions{})
	before := w.Task(dir).Pipeline.Revision
	w.PutBack(dir)
	w.Until("a review", func() bool { return w.Task(dir).Status == trellis.Review })
	if n := w.Task(dir).Pipeline.Revision - before; n > 15 {
		t.Errorf("task.json was written %d times", n)
	}
}

// Edge F1: a decision counts at any line of approvals.jsonl, also at the line where the run has already read another one.
func TestDecisionTakesTheLineOfAnother(t *testing.T) {
	t.Parallel()
	ask := func(id string) runnertest.Obj {
		return runnertest.Obj{"id": id, "type": "approval", "title": "Shall it " + id + "?"}
	}
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	dir := w.Stepped("02-01-bye", ask("begin"), ask("end"), runnertest.AddFlag)
	say := func(step string) {
		t.Helper()
		if _, _, err := w.Site.Approvals().DecideStep(dir, proof.Approval{Step: step, Decision: proof.Approve, By: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	w.Start(dir)
	say("begin")
	if res := w.Start(dir); res.Status != trellis.Waiting || !strings.Contains(res.Waits.String(), "step end") {
		t.Fatalf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
	if err := os.Remove(filepath.Join(dir, "approvals.jsonl")); err != nil {
		t.Fatal(err)
	}
	say("end")
	ctx, cancel := context.WithTimeout(t.Context(), runnertest.Hang)
	defer cancel()
	if all, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour}); err != nil || ctx.Err() != nil || len(all) != 1 || all[0].Status != trellis.Review {
		t.Errorf("got %+v, %v, %v", all, err, ctx.Err())
	}
}

// comesToNothing returns a task whose runs each find no approval: it is moved away when a run begins, and back when the run waits.
func comesToNothing(t *testing.T) (w *world, dir string, begun *atomic.Int32) {
	t.Helper()
	w, dir = editedWhile(t, "main")
	w.PutBack(dir)
	begun = new(atomic.Int32)
	yes, away := filepath.Join(dir, "approvals.jsonl"), filepath.Join(w.Dir, "..", "yes")
	w.Site.Store.Changed = func(_, now *taskdir.Task) {
		var err error
		switch now.Status {
		case trellis.InProgress:
			begun.Add(1)
			err = os.Rename(yes, away)
		case trellis.Waiting:
			err = os.Rename(away, yes)
		}
		if err != nil {
			t.Error(err)
		}
	}
	return w, dir, begun
}

// Edge F1: a run that comes to nothing is begun again only after a pause, and four times at most. Then it is reported with a hint, and a
// start tries again.
func TestRunThatComesToNothing(t *testing.T) {
	t.Parallel()
	w, dir, begun := comesToNothing(t)
	before, revision := time.Now(), w.Task(dir).Pipeline.Revision
	w.watching(scheduler.WatchOptions{Rescan: 200 * time.Millisecond})
	w.Until("a word", func() bool { return w.Heard("its run was begun 4 times and came to nothing") == 1 })
	if took := time.Since(before); took < 7*time.Second {
		t.Errorf("4 runs in %v", took)
	}
	w.Until("word of it in watch.json", func() bool {
		list := w.beat().Waiting
		return len(list) == 1 && strings.Contains(list[0].For, "somebody")
	})
	if n, more := begun.Load(), w.Task(dir).Pipeline.Revision-revision; n != 4 || more > 5*4 || w.Heard("trellis start 02-01-bye") != 1 {
		t.Errorf("%d runs, %d revisions, said %q", n, more, w.Said)
	}
	if _, err := w.Site.Starter().Start(t.Context(), dir, runner.RunOptions{}); err != nil && !errors.As(err, new(*runner.NotReadyError)) {
		t.Error(err)
	}
	w.Until("another try", func() bool { return begun.Load() > 4 })
}

// An agent that fills the disk is not called while there is no space, and otherwise as often as any run that comes to nothing is begun.
func TestAgentThatFillsTheDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := w.Hand("02-01-bye", "# Bye\n")
	var looks atomic.Int32
	w.Site.Disk = &durable.Disk{Fault: func(_, path string) error {
		if name := filepath.Base(path); name == "result.json" || name == durable.TempPrefix+"room" && filepath.Dir(path) == dir && looks.Add(1) == 1 {
			return syscall.ENOSPC
		}
		return nil
	}}
	if _, err := w.Site.Starter().Start(t.Context(), dir, runner.RunOptions{}); !errors.Is(err, syscall.ENOSPC) { // this run reached the agent, so it counts as more than nothing
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Parallel: 2, Rescan: time.Hour})
		done <- err
	}()
	w.Until("a word", func() bool { return w.Heard("its run was begun 4 times and came to nothing: ") == 1 })
	cancel()
	if err := <-done; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it ended with %v", err)
	}
	calls, err := os.ReadFile(filepath.Join(w.Dir, "..", "calls.log"))
	if n := strings.Count(string(calls), "\n"); err != nil || n != 5 || looks.Load() != 4 || w.Heard("no space left on device; it is begun again when") != 1 {
		t.Errorf("asked %d times, %v, after %d looks, said %q", n, err, looks.Load(), w.Said)
	}
}

// With such a task, watch --once ends too.
func TestOnceWithARunThatComesToNothing(t *testing.T) {
	t.Parallel()
	w, _, begun := comesToNothing(t)
	ctx, cancel := context.WithTimeout(t.Context(), runnertest.Hang)
	defer cancel()
	all, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour})
	if err != nil || ctx.Err() != nil || len(all) != 1 || all[0].Status != trellis.Ready || begun.Load() != 4 {
		t.Errorf("got %+v, %v, %v after %d runs", all, err, ctx.Err(), begun.Load())
	}
}
