package status

import (
	"encoding/json"
	"path/filepath"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
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
	checks := out.Told()
	for i := range checks {
		checks[i].Forgiven = forgiven(c, checks[i])
	}
	return checks
}

// forgiven reports whether a command that failed does not speak against the work: before the work nothing does.
func forgiven(c journal.Entry, check events.Check) bool {
	return check.Code != 0 && (check.Forgiven || c.Activity == "baseline")
}

// ended are the project's commands of an activity that goes on which have ended since the last look, and what they wait for now.
func (r *runLog) ended(seen *callLog, c journal.Entry) (list []events.Check, waits *events.Wait) {
	if entry := max(c.Entries, 1); entry != seen.entry {
		seen.entry, seen.offset, seen.checks = entry, 0, 0
	}
	base := filepath.Join(r.dir, agentcall.Folder(flow.Call{Run: r.name, ID: c.ID}), strconv.Itoa(seen.entry))
	for _, text := range newLines(filepath.Join(base, pipeline.ToldChecks), &seen.offset, 0, false) {
		var told pipeline.Told
		if json.Unmarshal([]byte(text), &told) != nil {
			continue // the journal has it when the activity ends
		}
		if waits = told.Wait; waits != nil {
			continue
		}
		check := told.Check
		check.Forgiven = forgiven(c, check)
		seen.checks = max(seen.checks, check.N)
		list = append(list, check)
	}
	return list, waits
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
