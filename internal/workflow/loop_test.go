package workflow_test

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/workflow"
)

// Edge C11: a loop without items is reported, wherever its list of items comes from.
func TestLoopWithoutItems(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{"id": "a", "command": "exit 1", "for_each": "true"}, {"id": "o", "repeat": 2, "as": "n", "steps": [{"id": "i", "command": "exit 1", "for_each": "test {{n}} = 2 && echo x || true", "continue_on_error": true}]}`)
	heard := b.hears()
	rep := b.do(workflow.Options{})
	if want := []string{"a", "o.1.i"}; !slices.Equal(rep.Empty, want) || rep.Failure() != nil {
		t.Errorf("the report names %v, want %v: %+v", rep.Empty, want, rep)
	}
	var told []string
	for _, e := range heard() {
		if e.Type == workflow.StepOutput && e.Stream == "log" && e.Text == "its loop has no items: nothing was done" {
			told = append(told, e.Step)
		}
	}
	if !slices.Equal(told, rep.Empty) {
		t.Errorf("told of %v, want %v", told, rep.Empty)
	}
}
