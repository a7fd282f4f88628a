package runner_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// A person's constraints are always in the TaskSpec, however many the agent returns.
func TestTaskSpecHasRoomForConstraints(t *testing.T) {
	full := runnertest.Spec()
	full["constraints"] = strings.Fields("a b c d e f g h i j k l")
	for name, c := range map[string]struct{ given, want string }{
		"one":      {"mine", "mine a b c d e f g h i j k"},
		"said too": {"l", "l a b c d e f g h i j k"},
		"all":      {"1 2 3 4 5 6 7 8 9 10 11 12", "1 2 3 4 5 6 7 8 9 10 11 12"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Careful("small").With("taskspec", runnertest.Answer(full)).String())
			res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye", Constraints: strings.Fields(c.given)})
			if err != nil || res.Status != trellis.Ready {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			var kept struct{ Constraints []string }
			if err := json.Unmarshal([]byte(w.File(res.Dir, taskdir.TaskSpec)), &kept); err != nil || strings.Join(kept.Constraints, " ") != c.want {
				t.Errorf("taskspec.json has %q, %v, want %s", kept.Constraints, err, c.want)
			}
			if told := strings.Contains(strings.Join(res.Report.Warnings, "\n"), "has no room for"); told != (name != "said too") {
				t.Errorf("it warns of %q", res.Report.Warnings)
			}
		})
	}
}
