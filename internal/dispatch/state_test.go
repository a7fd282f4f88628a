package dispatch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/evidence"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// editedWhile is a task whose plan people agreed to, and whose prd.md changed during implement, so that its run waits.
// base is the base branch in its task.json, "" for none.
func editedWhile(t *testing.T, base string) (w *world, dir string) {
	t.Helper()
	w = newWorld(t, byPlan("cp $TRELLIS_TASK_DIR/prd.md $TRELLIS_REPO/../prd.md; echo '- it is short' >> $TRELLIS_TASK_DIR/prd.md"))
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

// What a run waits for is answered by what is on disk, whoever put it there and however often it was so before.
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
	w := newWorld(t, byPlan("sed -i 's/.required.: *true/\\\"required\\\": false/' $TRELLIS_TASK_DIR/task.json; echo '- it is short' >> $TRELLIS_TASK_DIR/prd.md"))
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

// A decision counts wherever it stands in approvals.jsonl: one that took the line of another is not passed over.
func TestDecisionTakesTheLineOfAnother(t *testing.T) {
	t.Parallel()
	ask := func(id string) obj { return obj{"id": id, "type": "approval", "title": "Shall it " + id + "?"} }
	w := newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}}).String())
	dir := w.stepped("02-01-bye", ask("begin"), ask("end"), addFlag)
	say := func(step string) {
		t.Helper()
		if _, _, err := w.Site.DecideStep(dir, evidence.Approval{Step: step, Decision: evidence.Approve, By: "ann"}); err != nil {
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
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if all, err := w.Site.Watch(ctx, dispatch.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour}); err != nil || ctx.Err() != nil || len(all) != 1 || all[0].Status != trellis.Review {
		t.Errorf("got %+v, %v, %v", all, err, ctx.Err())
	}
}
