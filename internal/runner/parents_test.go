package runner_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A task with subtasks is completed with the last of them, also if that one needs no change.
func TestParentIsCompleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {implement: [{answer: done}], check: [{answer: fine}]}\n")
	parent := w.Hand("02-01-whole", "# The whole\n")
	w.Write(".trellis/tasks/02-01-whole/task.json", `{"status": "planning"}`)
	part := w.Hand("02-02-part", "# A part\n\n## Acceptance Criteria\n\n- [ ] it greets\n  verify: `sh greet.sh | grep -q Hello`\n")
	if err := w.Site.Store.AddSubtask(parent, part); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(part); res.Status != trellis.Completed {
		t.Fatalf("the part is %s, %v", res.Status, res.Failure)
	}
	if got := w.Task(parent).Status; got != trellis.Completed {
		t.Errorf("the whole is %s", got)
	}
}
