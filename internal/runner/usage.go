package runner

import (
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// usedBy returns what agents used for a task so far, its plannings included, by its journal or, without one, by task.json.
// Calls that will not be resumed count too.
func usedBy(t *taskdir.Task, h *journal.History) (trellis.Usage, error) {
	switch {
	case h.Run == "":
		return t.Pipeline.Usage, nil
	case h.Flow == planner.Flow:
		rep, err := soFar(t.Dir, h)
		return rep.Usage, err
	}
	p, err := pipeline.ReadProgress(h)
	return p.Used.Add(lostUsage(t.Dir, h)), err
}

// lostUsage returns what was used by those calls of a run that returned no reply.
func lostUsage(dir string, h *journal.History) (used trellis.Usage) {
	for _, c := range h.Calls {
		if replied := c.Done && c.Fail == nil; !replied && slices.Contains(trellis.Roles, trellis.Role(c.Activity)) {
			used = used.Add(agentcall.LostUsage(filepath.Join(dir, taskdir.Run), flow.Call{Run: h.Run, ID: c.ID, Attempt: c.Entries}))
		}
	}
	return used
}
