package runner_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// When a failed planning is repeated, agents that answered are not called again if the same would be asked about the same files.
func TestAnswersOfAPlanningThatFailed(t *testing.T) {
	t.Parallel()
	const (
		evaluate, research, spec = trellis.Evaluate, trellis.Research, trellis.TaskSpec
	)
	kept := map[trellis.Role]int{evaluate: 1, research: 1, spec: 1}
	anew := map[trellis.Role]int{evaluate: 2, research: 2, spec: 2}
	for name, c := range soak.Rows(t, map[string]struct {
		between func(w *world, dir string)
		options runner.PlanOptions
		asked   map[trellis.Role]int
	}{
		"all is as it was": {func(*world, string) {}, runner.PlanOptions{}, kept},
		"settings were changed and committed": {func(w *world, _ string) {
			w.Write(".trellis/config.yaml", "limits: {tokens: 1000000}\n")
			w.Git("add", "-f", ".trellis/config.yaml")
			w.Git("commit", "-q", "-m", "raise a limit", "--", ".trellis/config.yaml")
		}, runner.PlanOptions{}, kept},
		"a file was changed": {func(w *world, _ string) { w.Write("README.md", "another\n") }, runner.PlanOptions{}, anew},
		"a file was committed": {func(w *world, _ string) {
			w.Write("x/y/new.txt", "new\n")
			w.Git("add", "-A")
			w.Git("commit", "-q", "-m", "new")
		}, runner.PlanOptions{}, anew},
		"a folder got a file": {func(w *world, _ string) { w.Write("untracked/deep/two.txt", "two\n") }, runner.PlanOptions{}, anew},
		"an agent is another program": {func(w *world, _ string) {
			w.Site.Config.Agents.Commands = map[string]config.Command{"mine": {Command: []string{"agent.sh", "big"}}}
		}, runner.PlanOptions{}, anew},
		"another requirement":     {func(*world, string) {}, runner.PlanOptions{Requirement: "say good bye"}, anew},
		"a person says something": {func(*world, string) {}, runner.PlanOptions{Feedback: "be quick"}, anew},
		"an answer was changed": {func(w *world, dir string) {
			answers, err := filepath.Glob(filepath.Join(dir, "run/1/*evaluate*/1/answer.md"))
			if err != nil || len(answers) != 1 {
				w.Fatalf("answers of evaluate: %v, %v", answers, err)
			}
			if err := os.WriteFile(answers[0], []byte("{}"), 0o600); err != nil {
				w.Fatal(err)
			}
		}, runner.PlanOptions{}, map[trellis.Role]int{evaluate: 2, research: 1, spec: 1}},
	}, "all is as it was", "a file was committed", "an agent is another program", "an answer was changed") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			w.Write("untracked/deep/one.txt", "one\n")
			p := w.play("small", nil)
			spending(p, 100, 0.25)
			good := p.parts[trellis.Plan]
			p.parts[trellis.Plan] = fails(trellis.AgentAuth)
			res := w.planned()
			if res.Failure == nil || res.Status != trellis.Planning {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			c.between(w, res.Dir)
			for n := range 2 { // it fails again before it ends well
				if n == 1 {
					p.parts[trellis.Plan] = good
				}
				var err error
				if res, err = w.Site.PlanRunner().Replan(context.Background(), res.Dir, c.options); err != nil {
					t.Fatal(err)
				}
				c.options = runner.PlanOptions{}
			}
			if res.Status != trellis.Ready {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			if skipped := "3 calls: the planning before got an answer to the same question"; res.Report.Calls != 2 || !slices.Contains(res.Report.Skipped, skipped) {
				t.Errorf("it made %d calls, and skipped %q", res.Report.Calls, res.Report.Skipped)
			}
			asked := map[trellis.Role]int{}
			for role, heard := range p.heard {
				if role != trellis.Plan && role != trellis.Judge {
					asked[role] = len(heard)
				}
			}
			if !maps.Equal(asked, c.asked) {
				t.Errorf("asked %v, want %v", asked, c.asked)
			}
			calls := 0
			for _, heard := range p.heard {
				calls += len(heard)
			}
			if got := w.Task(res.Dir).Pipeline.Usage.Tokens(); got != int64(100*(calls-2)) { // failed calls report no usage
				t.Errorf("task.json says %d tokens after %d calls", got, calls)
			}
		})
	}
}

// If a planning failed because of the answers, all agents are called again.
func TestAnswersThatAPlanningFailedBy(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", nil)
	good := p.parts[trellis.Plan]
	p.parts[trellis.Plan] = says("no plan")
	res := w.planned()
	if code(res) != trellis.AgentProtocol {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	p.parts[trellis.Plan] = good
	before := len(p.heard[trellis.Evaluate])
	if res, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{}); err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
	}
	if got := len(p.heard[trellis.Evaluate]); got != before+1 {
		t.Errorf("evaluate was asked %d times", got)
	}
}
