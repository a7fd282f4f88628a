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

// roundIn returns the round that an activity belongs to, 0 if its input does not say.
func roundIn(c journal.Entry) int {
	var in struct{ Round int }
	_ = json.Unmarshal(c.In, &in) // an input that can't be decoded has no round
	return in.Round
}

// checksOf returns the project's commands that an activity ran.
func checksOf(c journal.Entry) []events.Check {
	var out pipeline.Checks
	if isRole(c.Activity) || json.Unmarshal(c.Out, &out) != nil {
		return nil
	}
	checks := out.Told()
	for i := range checks {
		checks[i].Forgiven = isForgiven(c, checks[i])
	}
	return checks
}

// isForgiven reports whether a command that failed does not count against the work: none does in the baseline, before the work.
func isForgiven(c journal.Entry, check events.Check) bool {
	return check.Code != 0 && (check.Forgiven || c.Activity == "baseline")
}

// newChecks returns the commands of an unfinished activity that ended since the last call, and what the activity waits for now.
func (r *runLog) newChecks(seen *callLog, c journal.Entry) (list []events.Check, waits *events.Wait) {
	if entry := max(c.Entries, 1); entry != seen.entry {
		seen.entry, seen.offset, seen.checks = entry, 0, 0
	}
	base := filepath.Join(r.dir, agentcall.Folder(flow.Call{Run: r.name, ID: c.ID}), strconv.Itoa(seen.entry))
	for _, text := range newLines(filepath.Join(base, pipeline.CheckNewsFile), &seen.offset, 0, false) {
		var told pipeline.CheckNews
		if json.Unmarshal([]byte(text), &told) != nil {
			continue // the journal has the line when the activity ends
		}
		if waits = told.Wait; waits != nil {
			continue
		}
		check := told.Check
		check.Forgiven = isForgiven(c, check)
		seen.checks = max(seen.checks, check.N)
		list = append(list, check)
	}
	return list, waits
}

// stateOf returns the state that an activity wrote into task.json, nil if it wrote none.
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
