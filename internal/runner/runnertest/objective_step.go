package runnertest

import (
	"context"
	"strings"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// Short is an objective of two steps, one after the other, and a third one beside them.
const Short = `# Objective: Short

| Step | Description | Depends On | Status | PR |
| --- | --- | --- | --- | --- |
| 1 | First | | | |
| 2 | Second | | | |
| 3 | Beside | none | todo | |
`

func (w *World) PlanStep(step string) (runner.StepResult, error) {
	w.Helper()
	return w.Site.Objectives().PlanStep(context.Background(), "farewells", runner.StepOptions{Step: step})
}

func (w *World) MustPlan(step string) runner.StepResult {
	w.Helper()
	res, err := w.PlanStep(step)
	if err != nil {
		w.Fatal(err)
	}
	return res
}

// Row returns the row of a step.
func (w *World) Row(step string) string {
	w.Helper()
	for line := range strings.Lines(w.Read(RoadFile)) {
		if strings.HasPrefix(line, "| "+step+" |") {
			return strings.TrimSpace(line)
		}
	}
	w.Fatalf("there is no row %s", step)
	return ""
}

// Narrow returns a row without the padding of its cells, which the product keeps where it can.
func Narrow(row string) string {
	return strings.ReplaceAll(strings.Join(strings.Fields(row), " "), "| |", "||")
}

func (w *World) WantRow(step, want string) {
	w.Helper()
	if got := Narrow(w.Row(step)); got != Narrow(want) {
		w.Errorf("row %s is %q, want %q", step, got, want)
	}
}
