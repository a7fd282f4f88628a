package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
	"github.com/trellis-tasks/trellis/templates"
)

// Prompt returns the prompt that an agent in a role would get for a task now, who would get it, and what would be left out.
func (s TaskRunner) Prompt(ctx context.Context, dir string, role trellis.Role) (p templates.Prompt, who agentcall.Choice, notes []string, err error) {
	t, err := s.Store.Load(dir)
	if err != nil {
		return p, who, nil, err
	}
	if who, err = s.Roles().Choose(role, t.Pipeline.Agent, ""); err != nil {
		return p, who, nil, err
	}
	switch {
	case slices.Contains(planner.Roles(), role):
		o := PlanOptions{}
		h, err := journal.Read(filepath.Join(dir, taskdir.Run))
		if err == nil {
			err = o.inherit(h)
		}
		if err != nil && !errors.Is(err, journal.ErrNone) { // ErrNone: the task was not planned here
			return p, who, nil, err
		}
		slots, err := s.PlanRunner().plannerDeps(dir, dir).Preview(ctx, role, planner.Input{Task: t.ID, Name: t.Name, DevType: t.DevType, Context: o.Context, Constraints: o.Constraints, Verify: t.Pipeline.Verify})
		if err != nil {
			return p, who, nil, err
		}
		p, err = s.Roles().agents(nonce()).Render(string(role), slots)
		return p, who, nil, err
	case slices.Contains(pipeline.Roles(), role):
		deps := s.pipelineDeps(dir)
		deps.TrustedTexts = nil // the prompt is not sent to an agent
		p, notes, err = pipeline.New(deps).Preview.Preview(ctx, role, pipeline.Input{Task: t.ID})
	default:
		err = fmt.Errorf("nobody asks an agent to be %s yet", role)
	}
	return p, who, notes, err
}
