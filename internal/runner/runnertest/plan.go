package runnertest

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/taskdir"
)

func (w *World) Plan(name, requirement string) (runner.PlanResult, error) {
	return w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: name, DevType: "backend"}, Requirement: requirement})
}
