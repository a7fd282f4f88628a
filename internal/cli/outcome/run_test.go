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

// What a run noted is said at its end, however that came, and once: that a submodule is to be pushed first, or that an agent
// changed something where it has nothing to do, say.
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

// That nothing was executed is said of a run whose report is known, not of one that another process ran.
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
