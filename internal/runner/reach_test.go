package runner_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// The contents of a plan and a TaskSpec are in the prompt of every agent, in the checks, the criteria and the report.
func TestPlanReachesTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{files: {greet.sh: \"echo Bye\\n\"}, answer: done}]\n  check: [{answer: fine}]\n  debug: "+runnertest.Mend+"\n  "+runnertest.Met+"\n")
	w.Site.Config.Verify = nil
	dir := w.handPlan("# Say bye\n\n## Acceptance Criteria\n\n- [ ] greet.sh says bye\n- [ ] it  says bye\n", planJSON(`"summary": "A flag is added.",
 "design_decisions": ["a flag, not a command"], "assumptions": ["nobody greets --bye"], "files": [{"path": "greet.sh", "change": "edit"}],
 "uncovered": [{"item": "farewells in French", "reason": "nobody can check them"}], "out_of_scope": ["a manual page"], "rollback": ["git revert it"], "touches": ["greet.sh"],`))
	w.Write(".trellis/tasks/02-01-bye/taskspec.json", specJSON)
	res := w.Start(dir)
	if res.Status != trellis.Review || res.Rollback != nil {
		t.Fatalf("got %s, %v, %q", res.Status, res.Failure, res.Rollback)
	}
	calls := map[string]string{"implement": w.prompt(dir, "steps/step-say_bye/implement#1"), "check": w.prompt(dir, "round-1/check#1"), "debug": w.prompt(dir, "round-2/debug#1"), "accept": w.prompt(dir, "round-2/accept#1")}
	for role, text := range calls {
		want := []string{"farewells", "POSIX sh alone", "A flag is added.", "a flag, not a command", "nobody greets --bye", "farewells in French", "nobody can check them", "a manual page",
			"Teach greet.sh the flag --bye.", "It waves."}
		w.holds(role, text, want...)
	}
	if shared, _, _ := strings.Cut(calls["check"], "# Guidelines and context for the review"); !strings.HasPrefix(calls["debug"], shared) || len(shared) < 200 {
		t.Errorf("debug begins in another way than check:\n%s\nwant\n%s", calls["debug"], shared)
	}
	w.holds("report.md", w.File(dir, "report.md"), "Commands from plan.json", "| `sh test.sh` | 0 |", "| A2 | it says bye | must | met | `sh greet.sh --bye", "## Assumptions\n\n- nobody greets --bye\n",
		"## Design decisions\n\n- a flag, not a command\n", "## Left out\n\n- farewells in French: nobody can check them\n", "## Out of scope\n\n- a manual page\n", "!## Rollback", "!stands in plan.json alone")
	w.holds("the journal", w.File(dir, "run/journal.jsonl"), `"verify_source":"plan.json"`)
	w.holds("the worktree's copy", w.File(w.Task(dir).WorktreePath, ".trellis/.runtime/task/taskspec.json"), "farewells")
}
