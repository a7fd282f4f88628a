package cli

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// phases are what a log may have of a task or a run: the roles of agents, and what Trellis does itself.
func phases() (names []string) {
	for _, role := range trellis.Roles {
		names = append(names, string(role))
	}
	for _, list := range [][]flow.Activity{planner.Deps{}.Activities(), pipeline.New(pipeline.Deps{Config: new(config.Config)}).Activities(), (&workflow.FileActs{}).Activities(), (&workflow.Acts{}).Activities()} {
		for _, activity := range list {
			if !slices.Contains(names, activity.Name) {
				names = append(names, activity.Name)
			}
		}
	}
	return names
}

// checkPhase refuses a phase that no log has.
func checkPhase(name string) error {
	known := phases()
	if name == "" || slices.Contains(known, name) {
		return nil
	}
	err := app.Usagef("there is no phase %q", name)
	if near := trellis.Nearest(name, known); near != "" {
		return app.WithHints(err, "did you mean "+near+"?")
	}
	return app.WithHints(err, "phases are "+strings.Join(known, ", "))
}
