package outcome

import (
	"bytes"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// The notes of a run, for example that a submodule has to be pushed first, are printed at its end, whatever its status, and once each.
func TestNotesAreSaid(t *testing.T) {
	t.Parallel()
	for _, status := range []trellis.Status{trellis.Review, trellis.Failed, trellis.Completed} {
		var out bytes.Buffer
		a := &command.Console{Stderr: &out}
		res := runner.Result{Dir: t.TempDir(), Status: status, Outcome: trellis.NoChangeNeeded,
			Report: pipeline.Report{Branch: "feature/two", Notes: []string{"push that first", "pushed late"}, Delivery: pipeline.Delivery{Notes: []string{"pushed late"}}}}
		SayRun(a, &app.Project{Store: taskdir.Store{Root: res.Dir}}, res)
		for _, note := range res.Report.Notes {
			if got := strings.Count(out.String(), "note      "+note+"\n"); got != 1 {
				t.Errorf("%s: %q is said %d times in\n%s", status, note, got, &out)
			}
		}
	}
}

// "Nothing was executed" is said only if the report of the run is known, not if another process ran it.
func TestNothingExecutedIsKnown(t *testing.T) {
	t.Parallel()
	for rounds, want := range []bool{false, true} {
		res := runner.Result{Dir: t.TempDir(), Status: trellis.Review, Report: pipeline.Report{Branch: "feature/two", Rounds: rounds}}
		lines := strings.Join(RunLines(&app.Project{Store: taskdir.Store{Root: res.Dir}}, res), "\n")
		if strings.Contains(lines, "nothing was executed") != want {
			t.Errorf("%d rounds:\n%s", rounds, lines)
		}
	}
}
