package scheduler

import (
	"maps"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// results are how runs ended and where other tasks stand, by directory or step of an objective.
type results struct {
	last       map[string]runner.Result
	onlyReason map[string]bool // those whose result only says why nothing runs
}

// put records how a run ended.
func (r *results) put(key string, res runner.Result) { r.last[key] = res }

// putReason records why something does not run, until more is known.
func (r *results) putReason(key string, res runner.Result) {
	r.last[key] = res
	r.onlyReason[key] = true
}

// clearReason drops the reason why something did not run.
func (r *results) clearReason(key string) {
	if r.onlyReason[key] {
		delete(r.onlyReason, key)
		delete(r.last, key)
	}
}

// drop drops what is known about something.
func (r *results) drop(key string) { delete(r.last, key) }

// unable reports whether a task was not started at the last try, since an agent could not work or since it is left to others:
// that is reported once, and not at every try.
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

// all returns the results in the order of their directories.
func (r *results) all() []runner.Result {
	return slices.SortedFunc(maps.Values(r.last), func(a, b runner.Result) int { return strings.Compare(a.Dir, b.Dir) })
}
