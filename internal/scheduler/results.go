package scheduler

import (
	"maps"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// results are how the runs ended and where else things stand, by directory or step of an objective.
type results struct {
	last map[string]runner.Result
	idle map[string]bool // whose result is only why nothing runs
}

// put keeps how a run ended.
func (r *results) put(key string, res runner.Result) { r.last[key] = res }

// note keeps why something does not run, until more is known.
func (r *results) note(key string, res runner.Result) {
	r.last[key] = res
	r.idle[key] = true
}

// begin lets go of why something did not run.
func (r *results) begin(key string) {
	if r.idle[key] {
		delete(r.idle, key)
		delete(r.last, key)
	}
}

// drop lets go of what is known of something.
func (r *results) drop(key string) { delete(r.last, key) }

// unable reports whether a task was not started when it was tried last, as an agent could not work, or as it is left to others: that is said
// once, and not at every try.
func (r *results) unable(l runner.Assessment) bool {
	last := r.last[l.Dir]
	if last.Status == trellis.Ready && len(last.Waits) > 0 {
		return true
	}
	if last.Failure == nil || last.Status != l.Task.Status {
		return false
	}
	code := trellis.Code(last.Failure.Code)
	return code == trellis.AgentMissing || code == trellis.AgentAuth
}

// all are the results in the order of their directories.
func (r *results) all() []runner.Result {
	return slices.SortedFunc(maps.Values(r.last), func(a, b runner.Result) int { return strings.Compare(a.Dir, b.Dir) })
}
