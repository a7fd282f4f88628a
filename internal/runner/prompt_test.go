package runner_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// The prompts shown for a planned task have what the agents got, and no command that was left out.
func TestPromptsOfAPlannedTask(t *testing.T) {
	w := newWorld(t, runnertest.Careful("small").With("research", runnertest.Answer(runnertest.Found+"- lint: no-such-program\n")).String())
	res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye",
		Constraints: []string{"no new program"}, Context: []string{"README.md"}})
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	for role, wants := range map[trellis.Role][]string{
		trellis.Evaluate: {"say bye", "no new program"},
		trellis.TaskSpec: {"say bye", "no new program"},
		trellis.Research: {"say bye", "no new program", "# README.md"},
		trellis.Plan:     {"say bye", "no new program", "# README.md", "a --bye flag", "sh test.sh"},
		trellis.Judge:    {"say bye", "no new program", "a --bye flag", "sh test.sh", "add_flag"},
		trellis.PRD:      {"say bye", "no new program", "# README.md"},
	} {
		p, _, _, err := w.Site.TaskRunner().Prompt(context.Background(), res.Dir, role)
		if err != nil {
			t.Errorf("%s: %v", role, err)
		}
		for _, want := range wants {
			if !strings.Contains(p.Text, want) {
				t.Errorf("the prompt of %s lacks %q:\n%s", role, want, p.Text)
			}
		}
		_, commands, _ := strings.Cut(p.Text, "# Confirmed commands")
		if strings.Contains(commands, "no-such-program") {
			t.Errorf("the prompt of %s confirms a command that can't run", role)
		}
	}
}

// If a file that a prompt needs is missing, the error names the file and a hint.
func TestPromptsOfATaskWithoutTexts(t *testing.T) {
	w := newWorld(t, runnertest.Careful("small").String())
	w.Write(".trellis/tasks/02-01-bare/task.json", `{"status": "planning"}`)
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-bare")
	for role, want := range map[trellis.Role]trellis.Problem{
		trellis.Implement: {File: ".trellis/tasks/02-01-bare/prd.md", Message: "there is no prd.md", Hint: "trellis edit 02-01-bare prd"},
		trellis.Evaluate:  {File: ".trellis/tasks/02-01-bare/requirement.md", Message: "there is none: nobody planned this task", Hint: "write what is wanted into it"},
	} {
		_, _, _, err := w.Site.TaskRunner().Prompt(context.Background(), dir, role)
		var got *trellis.Problem
		if !errors.As(err, &got) || *got != want {
			t.Errorf("%s: got %v, want %+v", role, err, want)
		}
	}
}
