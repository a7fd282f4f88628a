package status

import (
	"encoding/json"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
)

// roundIn is the round that an activity belongs to, 0 when its input does not say.
func roundIn(c journal.Entry) int {
	var in struct{ Round int }
	_ = json.Unmarshal(c.In, &in) // what is not there is not said
	return in.Round
}

// checksOf are the project's commands that an activity ran.
func checksOf(c journal.Entry) []events.Check {
	var out pipeline.Checks
	if isRole(c.Activity) || json.Unmarshal(c.Out, &out) != nil {
		return nil
	}
	return out.Told()
}

// stateOf is what an activity wrote into task.json, nil when it did not.
func stateOf(c journal.Entry) *pipeline.TaskState {
	if c.Fail != nil {
		return nil
	}
	s, ok := pipeline.StateWritten(c.Activity, c.In)
	if !ok {
		return nil
	}
	return &s
}
