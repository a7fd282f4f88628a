package runner_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

// The next command for a directory whose name begins with a dash names its path: the name alone would be taken for a flag.
func TestNextOfANameWithADash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	dir := w.Hand("-x", runnertest.ProvenPRD)
	if next, err := w.Site.Assessor().Next(t.Context(), dir); next != "trellis validate .trellis/tasks/-x" || err != nil {
		t.Errorf("got %q, %v", next, err)
	}
}
