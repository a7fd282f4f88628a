package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// editedWhile is a task whose plan people agreed to, and whose prd.md changed during implement, so that its run waits.
// base is the base branch in its task.json, "" for none.
func editedWhile(t *testing.T, base string) (w *world, dir string) {
	t.Helper()
	w = newWorld(t, byPlan("cp $TRELLIS_TASK_DIR/prd.md $TRELLIS_REPO/../prd.md; echo >> $TRELLIS_TASK_DIR/prd.md; echo '## Notes' >> $TRELLIS_TASK_DIR/prd.md"))
	dir = w.hand("02-01-bye", provenPRD)
	w.write(".trellis/tasks/02-01-bye/task.json", fmt.Sprintf(`{"status": "ready", "base_branch": %q, "pipeline": {"approval": {"required": true}}}`, base))
	w.approve(dir, "ann")
	if res := w.start(dir); res.Status != trellis.Waiting || len(res.Waits) != 1 || !strings.Contains(res.Waits[0], "trellis approve") {
		t.Fatalf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
	return w, dir
}

func (w *world) putBack(dir string) {
	w.Helper()
	if err := os.Rename(filepath.Join(w.Dir, "..", "prd.md"), filepath.Join(dir, "prd.md")); err != nil {
		w.Fatal(err)
	}
}

// Edge F1. What a run waits for is answered by what is on disk, whoever put it there and however often it was so before.
func TestWaitIsAnsweredByState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		base string
		do   func(w *world, dir string)
	}{
		"put back":              {"main", (*world).putBack},
		"put back without base": {"", (*world).putBack},
		"no longer required":    {"main", func(w *world, dir string) { w.edit(dir, `"required": true`, `"required": false`) }},
		"agreed, by hand": {"main", func(w *world, dir string) {
			w.append(dir, `{"decision": "approve", "by": "bob"}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := editedWhile(t, c.base)
			c.do(w, dir)
			if res := w.start(dir); res.Status != trellis.Review {
				t.Errorf("start: %s, %v, %q", res.Status, res.Failure, res.Waits)
			}
		})
	}
}

// A watcher goes on with a run that waited as soon as the documents are again what people agreed to, and writes
// task.json no oftener than something happens.
func TestWatcherSeesWhatIsPutBack(t *testing.T) {
	t.Parallel()
	w, dir := editedWhile(t, "main")
	w.watching(dispatch.WatchOptions{})
	before := w.task(dir).Pipeline.Revision
	w.putBack(dir)
	w.until("a review", func() bool { return w.task(dir).Status == trellis.Review })
	if n := w.task(dir).Pipeline.Revision - before; n > 15 {
		t.Errorf("task.json was written %d times", n)
	}
}

// A no to the plan of a run that waits ends the run.
func TestRejectedWhileItWaits(t *testing.T) {
	t.Parallel()
	w, dir := editedWhile(t, "main")
	if err := w.Site.Reject(dir, "ann", "too loud"); err != nil {
		t.Fatal(err)
	}
	if res := w.start(dir); res.Status != trellis.Failed || res.Failure == nil || res.Failure.Code != string(trellis.ApprovalRejected) {
		t.Errorf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

// An agent does not spare its task the yes of people by taking away that it is required.
func TestAgentTakesTheDemandAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, byPlan("sed -i 's/.required.: *true/\\\"required\\\": false/' $TRELLIS_TASK_DIR/task.json; echo >> $TRELLIS_TASK_DIR/prd.md; echo '## Notes' >> $TRELLIS_TASK_DIR/prd.md"))
	dir := w.hand("02-01-bye", provenPRD)
	w.write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "base_branch": "main", "pipeline": {"approval": {"required": true}}}`)
	w.approve(dir, "ann")
	if res := w.start(dir); res.Status != trellis.Waiting || !w.task(dir).Pipeline.Approval.Required {
		t.Fatalf("got %s, %v, required %v", res.Status, res.Failure, w.task(dir).Pipeline.Approval.Required)
	}
	w.edit(dir, `"required": true`, `"required": false`)
	if res := w.start(dir); res.Status != trellis.Review {
		t.Errorf("a person did: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

// Edge F1. A decision counts wherever it stands in approvals.jsonl: one that took the line of another is not passed over.
func TestDecisionTakesTheLineOfAnother(t *testing.T) {
	t.Parallel()
	ask := func(id string) obj { return obj{"id": id, "type": "approval", "title": "Shall it " + id + "?"} }
	w := newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}}).String())
	dir := w.stepped("02-01-bye", ask("begin"), ask("end"), addFlag)
	say := func(step string) {
		t.Helper()
		if _, _, err := w.Site.DecideStep(dir, proof.Approval{Step: step, Decision: proof.Approve, By: "ann"}); err != nil {
			t.Fatal(err)
		}
	}
	w.start(dir)
	say("begin")
	if res := w.start(dir); res.Status != trellis.Waiting || !strings.Contains(strings.Join(res.Waits, ""), "step end") {
		t.Fatalf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
	if err := os.Remove(filepath.Join(dir, "approvals.jsonl")); err != nil {
		t.Fatal(err)
	}
	say("end")
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	if all, err := w.Site.Watch(ctx, dispatch.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour}); err != nil || ctx.Err() != nil || len(all) != 1 || all[0].Status != trellis.Review {
		t.Errorf("got %+v, %v, %v", all, err, ctx.Err())
	}
}

// comesToNothing has every run of a task that waits for a yes find none, and everyone else find it again.
func comesToNothing(t *testing.T) (w *world, dir string, begun *atomic.Int32) {
	t.Helper()
	w, dir = editedWhile(t, "main")
	w.putBack(dir)
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

// Edge F1. A run that comes to nothing is not begun again at once, and after some tries no more: whatever the cause is. That is
// told with what to do, and goes on once something in the directory changes.
func TestRunThatComesToNothing(t *testing.T) {
	t.Parallel()
	w, dir, begun := comesToNothing(t)
	before, revision := time.Now(), w.task(dir).Pipeline.Revision
	w.watching(dispatch.WatchOptions{Rescan: 20 * time.Millisecond})
	w.until("a word", func() bool { return w.heard("its run was begun 4 times and came to nothing") == 1 })
	if took := time.Since(before); took < 7*time.Second {
		t.Errorf("4 runs in %v", took)
	}
	w.until("word of it in watch.json", func() bool {
		list := w.beat().Waiting
		return len(list) == 1 && strings.Contains(list[0].For, "somebody")
	})
	if n, more := begun.Load(), w.task(dir).Pipeline.Revision-revision; n != 4 || more > 5*4 || w.heard("trellis start 02-01-bye") != 1 {
		t.Errorf("%d runs, %d revisions, said %q", n, more, w.said)
	}
	if _, err := w.Site.Start(t.Context(), dir, dispatch.RunOptions{}); err != nil && !errors.As(err, new(*dispatch.NotReadyError)) {
		t.Error(err)
	}
	w.until("another try", func() bool { return begun.Load() > 4 })
}

// A watch --once ends all the same, and says that a person has to look at it.
func TestOnceWithARunThatComesToNothing(t *testing.T) {
	t.Parallel()
	w, _, begun := comesToNothing(t)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	all, err := w.Site.Watch(ctx, dispatch.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour})
	if err != nil || ctx.Err() != nil || len(all) != 1 || all[0].Status != trellis.Ready || begun.Load() != 4 {
		t.Errorf("got %+v, %v, %v after %d runs", all, err, ctx.Err(), begun.Load())
	}
}
