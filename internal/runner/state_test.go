package runner_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Edge F1: a waiting run resumes if the files on the disk no longer need an approval, or have it, however that happened.
func TestWaitIsAnsweredByState(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		base string
		do   func(w *world, dir string)
	}{
		"put back":              {"main", (*world).PutBack},
		"put back without base": {"", (*world).PutBack},
		"no longer required":    {"main", func(w *world, dir string) { w.Edit(dir, `"required": true`, `"required": false`) }},
		"agreed, by hand": {"main", func(w *world, dir string) {
			w.append(dir, `{"decision": "approve", "by": "bob"}`)
		}},
	}, "agreed, by hand", "put back without base") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := editedWhile(t, c.base)
			c.do(w, dir)
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Errorf("start: %s, %v, %q", res.Status, res.Failure, res.Waits)
			}
		})
	}
}

// A rejection of the plan of a waiting run ends the run.
func TestRejectedWhileItWaits(t *testing.T) {
	t.Parallel()
	w, dir := editedWhile(t, "main")
	if err := w.Site.Approvals().Reject(dir, "ann", "too loud", ""); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Failed || res.Failure == nil || res.Failure.Code != string(trellis.ApprovalRejected) {
		t.Errorf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

// If an agent removes the requirement of an approval, the run still waits. If a person removes it, the run resumes.
func TestAgentTakesTheDemandAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.ByPlan("sed -i 's/.required.: *true/\\\"required\\\": false/' $TRELLIS_TASK_DIR/task.json; echo >> $TRELLIS_TASK_DIR/prd.md; echo '## Notes' >> $TRELLIS_TASK_DIR/prd.md"))
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "base_branch": "main", "pipeline": {"approval": {"required": true}}}`)
	w.Approve(dir, "ann")
	if res := w.Start(dir); res.Status != trellis.Waiting || !w.Task(dir).Pipeline.Approval.Required {
		t.Fatalf("got %s, %v, required %v", res.Status, res.Failure, w.Task(dir).Pipeline.Approval.Required)
	}
	w.Edit(dir, `"required": true`, `"required": false`)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("a person did: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}
