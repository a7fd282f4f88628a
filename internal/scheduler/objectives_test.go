package scheduler

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// If the planning of a step ends while the objectives are read, that reading does not start another planning of the step.
func TestStepIsNotPlannedByAnOldReading(t *testing.T) {
	t.Parallel()
	w := newWatch(&runner.Site{Config: &config.Config{}}, WatchOptions{Objectives: true}, nil)
	o, at := &w.objectives, step{"farewells", "3"}
	o.surveying, o.admission.steps[at] = true, true // the reading begins during the planning
	o.end(planningOutcome{step: at, res: runner.StepResult{Task: "02-01-beside"}})
	read := objectivesSurvey{list: []runner.Advance{{Name: "farewells", Road: &roadmap.Roadmap{Auto: true}, Ready: []roadmap.Step{{ID: "3"}, {ID: "4"}}}}}
	o.take(read)
	if len(o.ready) != 1 || o.ready[0].id != "4" {
		t.Errorf("an old reading has %v planned", o.ready)
	}
	if o.at.IsZero() {
		t.Error("the objectives are not read again")
	}
	clear(o.planned) // the next reading begins with this
	if o.take(read); len(o.ready) != 2 {
		t.Errorf("a new reading has %v planned", o.ready)
	}
}
