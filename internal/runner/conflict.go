package runner

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// ConflictError is returned for a task that does not fit beside what runs now. Why says what that is; when it ends there may be room.
type ConflictError struct{ Task, Why string }

func (e *ConflictError) Error() string { return e.Task + " waits for " + e.Why }

// SameFilesText returns the text that says that another task waits for the task in dir, since both change files of glob.
func SameFilesText(dir, glob string) string {
	return fmt.Sprintf("%s, which changes the same files (%s)", filepath.Base(dir), glob)
}

// BusyAgent describes which of the agents in own already works for as many tasks as it may, or "" if all can take another one.
// others are the agents of each task that runs.
func (rs Roles) BusyAgent(own []string, others [][]string) string {
	for _, agent := range own {
		limit, limited := rs.config.Limits.PerAgent[agent]
		works := 0
		for _, theirs := range others {
			if slices.Contains(theirs, agent) {
				works++
			}
		}
		if limited && works >= limit {
			return fmt.Sprintf("%s, which works for as many tasks as it may (%d, limits.per_agent)", agent, limit)
		}
	}
	return ""
}

// AgentsOf returns the agents that play roles for a task that asks for agent ("": none), each once. Starting the task reports errors.
func (rs Roles) AgentsOf(roles []trellis.Role, agent string) []string {
	list := []string{}
	for _, role := range roles {
		if c, err := rs.Choose(role, agent, ""); err == nil && !slices.Contains(list, c.Agent) {
			list = append(list, c.Agent)
		}
	}
	return list
}

// checkConflicts returns a *ConflictError if a task does not fit beside the running tasks in the given directories: they change the
// same files, or take up its agents. competes reports whether the answer depends on what runs at all.
func (s TaskRunner) checkConflicts(t *taskdir.Task, running []string) (competes bool, err error) {
	own, players := s.Assessor().Touches(t), s.Roles().AgentsOf(pipeline.Roles(), t.Pipeline.Agent)
	limited := slices.ContainsFunc(players, func(agent string) bool { _, ok := s.Config.Limits.PerAgent[agent]; return ok })
	if len(own) == 0 && !limited {
		return false, nil
	}
	var agents [][]string
	for _, dir := range running {
		other, err := s.Store.Load(dir)
		if err != nil {
			return true, &ConflictError{t.ID, fmt.Sprintf("%s, which another machine works on and nothing is known of here yet: %v", filepath.Base(dir), err)}
		}
		if glob, both := ready.Overlap(own, s.Assessor().Touches(other)); both {
			return true, &ConflictError{t.ID, SameFilesText(dir, glob)}
		}
		agents = append(agents, s.Roles().AgentsOf(pipeline.Roles(), other.Pipeline.Agent))
	}
	if why := s.Roles().BusyAgent(players, agents); why != "" {
		return true, &ConflictError{t.ID, why}
	}
	return true, nil
}
