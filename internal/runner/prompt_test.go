package runner_test

import (
	"context"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// What a prompt is shown to be holds what the agent got, and names no command that was left out.
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
