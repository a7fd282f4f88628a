package runner_test

import (
	"fmt"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// An approval that was used does not count after a later step was edited, also if it is in a nested list of steps.
func TestEditAfterApproval(t *testing.T) {
	for _, ok := range []string{`{"id": "ok", "type": "approval", "title": "Publish?"}`, `{"id": "g", "steps": [{"id": "ok", "type": "approval", "title": "Publish?"}]}`} {
		w := newWorld(t, "roles: {}\n")
		const rest = `{"id": "a", "command": "echo a >> log", "depends_on": []}, %s, {"id": "p", "command": "echo p >> log; exit %d"}`
		res := w.runFile(w.stepsFile(fmt.Sprintf(rest, ok, 1)))
		if _, _, err := w.Site.Approvals().DecideStep(res.Dir, proof.Approval{Decision: proof.Approve, By: "ann"}); err != nil {
			t.Fatal(err)
		}
		w.resume(res.ID, runner.FileOptions{})
		if res = w.resume(res.ID, runner.FileOptions{}); len(res.Waits) > 0 || w.Read("log") != "a\np\np\n" {
			t.Errorf("as it was: %+v, log %q", res.Waits, w.Read("log"))
		}
		if res = w.resume(res.ID, w.stepsFile(fmt.Sprintf(rest, ok, 0))); len(res.Waits) != 1 || w.Read("log") != "a\np\np\n" {
			t.Errorf("edited: %+v, log %q", res.Waits, w.Read("log"))
		}
	}
}
