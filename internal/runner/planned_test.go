package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// planJSON returns a plan.json with additional fields, a prompt step, a verification step and a criterion.
func planJSON(fields string) string {
	return `{"schema_version": 1, "title": "Say bye", ` + fields + `
 "steps": [
  {"id": "say_bye", "type": "prompt", "prompt": "Teach greet.sh the flag --bye.", "desired_outcome": "It waves.", "verify": "sh greet.sh --bye", "covers": ["it says bye"]},
  {"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye", "level": "must", "covers": ["it says bye"]}]}
`
}

const specJSON = `{"user_intent": "Say bye", "goals": ["farewells"], "constraints": ["POSIX sh alone"], "artifacts": [], "contexts": [],
 "actions": [], "acceptance": ["it says bye"], "priority": "normal"}`

// handPlan makes a task directory with a plan, as a person would.
func (w *world) handPlan(prd, plan string) string {
	w.Helper()
	dir := w.Hand("02-01-bye", prd)
	w.Write(".trellis/tasks/02-01-bye/plan.json", plan)
	return dir
}

// prompt returns the prompt of a call in a run.
func (w *world) prompt(dir, call string) string {
	w.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "run", "*", call, "1", "prompt.md"))
	if err != nil || len(found) != 1 {
		w.Fatalf("prompts of %s: %q, %v", call, found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		w.Fatal(err)
	}
	return string(data)
}

// holds checks that a text contains the wanted texts, and not those that begin with "!".
func (w *world) holds(name, text string, want ...string) {
	w.Helper()
	for _, s := range want {
		bare, not := strings.CutPrefix(s, "!")
		if strings.Contains(text, bare) == not {
			w.Errorf("%s: holds %q: %v\n%.6000s", name, bare, not, text)
		}
	}
}

// A TaskSpec that can't be read is reported before a run begins (edge C6). During a run it is left out, and the report says so. A plan that
// can't be read fails the run.
func TestBrokenPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.ByPlan(`printf '{\\\"goals\\\": 7}' > $TRELLIS_TASK_DIR/taskspec.json`))
	dir := w.handPlan(runnertest.ProvenPRD, planJSON(""))
	w.Write(".trellis/tasks/02-01-bye/taskspec.json", `{"goals": 7}`)
	if _, err := w.Site.Starter().Start(t.Context(), dir, runner.RunOptions{}); err == nil || !strings.Contains(err.Error(), ".trellis/tasks/02-01-bye/taskspec.json:1: ") {
		t.Errorf("before it begins: got %v", err)
	}
	w.Write(".trellis/tasks/02-01-bye/taskspec.json", `{"user_intent": "say bye"}`)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.holds("report.md", w.File(dir, "report.md"), "taskspec.json is left out: ")

	w = newWorld(t, runnertest.ByPlan(`printf '{\\n \\\"steps\\\": 7}' > $TRELLIS_TASK_DIR/plan.json`))
	dir = w.handPlan(runnertest.ProvenPRD, planJSON(`"rollback": ["git revert it"],`))
	res := w.Start(dir)
	if res.Failure == nil || res.Failure.Code != string(trellis.InvalidTask) || !strings.Contains(res.Failure.Detail, ".trellis/tasks/02-01-bye/plan.json:") {
		t.Errorf("broken while it runs: %s, %v", res.Status, res.Failure)
	}
	w.holds("report.md", w.File(dir, "report.md"), "## Rollback\n\n- git revert it\n") // of the plan that the run read first
}

// Preconditions of a plan: sentences are reported once, commands run in the fresh worktree and leave nothing in the commit.
func TestPreconditions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.ByPlan("true"))
	demand := func(command string) string {
		return planJSON(`"preconditions": ["the stage is free", {"command": "` + command + `"}], "rollback": ["git revert it"],`)
	}
	dir := w.handPlan(runnertest.ProvenPRD, demand("echo the hall is dark; echo x > dirt; test -f lamp"))
	res := w.Start(dir)
	if res.Failure == nil || res.Failure.Code != string(trellis.InvalidTask) || !strings.Contains(res.Failure.Detail, "test -f lamp` exited with 1: the hall is dark") {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if w.Heard("the stage is free") != 1 || strings.Join(res.Rollback, "") != "git revert it" {
		t.Errorf("said %q, rollback %q", w.Said, res.Rollback)
	}
	w.holds("report.md", w.File(dir, "report.md"), "## Preconditions\n\n- the stage is free\n- `echo the hall", "## Rollback\n\n- git revert it\n")
	w.Write(".trellis/tasks/02-01-bye/plan.json", demand("echo x > dirt; test ! -f lamp"))
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.holds("the journal", w.File(dir, "run/journal.jsonl"), `"assumed":["the stage is free"]`, `"results":[{"command":"echo x \u003e dirt; test ! -f lamp","code":0`)
	if got := w.Git("show", "--name-only", "--format=", "feature/bye"); got != "greet.sh" {
		t.Errorf("the commit holds %q", got)
	}
}

// More preconditions than a record can hold are reported when the run claims the task.
func TestTooManyPreconditions(t *testing.T) {
	soak.Only(t, "TestPreconditions")
	t.Parallel()
	w := newWorld(t, runnertest.ByPlan("true"))
	dir := w.handPlan(runnertest.ProvenPRD, planJSON(`"preconditions": [`+strings.Repeat(`{"command": "test -f greet.sh"}, `, 50)+`{"command": "test -f test.sh"}],`))
	if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.InvalidTask) || !strings.Contains(res.Failure.Detail, "the 51 preconditions") {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.replan(dir, `{"command": "test -f test.sh"}`, `"the stage is free"`)
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("one less: %s, %v", res.Status, res.Failure)
	}
}

// Preconditions are not checked again in a worktree with work in it.
func TestPreconditionsOfARetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\n  check: [{answer: fine}]\n  debug: [{answer: hm}]\n  "+runnertest.Met+"\n")
	w.Site.Config.Verify = []string{"test ! -f notes.txt"}
	dir := w.handPlan(lyingPRD, planJSON(`"preconditions": ["the stage is free", {"command": "echo asked >> $PWD/../../asked; test ! -f notes.txt"}],`))
	if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.NoProgress) {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	for _, fresh := range []bool{false, true} {
		if err := w.Site.Orders().Retry(context.Background(), dir, fresh, runner.RunOptions{}); err != nil {
			t.Fatal(err)
		}
		if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.NoProgress) {
			t.Errorf("retried, fresh %v: %s, %v", fresh, res.Status, res.Failure)
		}
	}
	if got := strings.Count(w.Read("../repo-worktrees/asked"), "asked"); got != 2 || w.Heard("the stage is free") != 2 {
		t.Errorf("it was asked %d times, said %q; want twice: at first, and with --fresh", got, w.Said)
	}
}

// Edge C3: verification in a loop counts as verification of the plan, and is proven for each item.
func TestDeliveredByVerificationInALoop(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.ByPlan("true"))
	w.Site.Config.Verify = nil
	const each = `{"id": "each", "for_each": ["test.sh", "greet.sh"], "steps": [{"id": "run_it", "command": "sh {{item}}", "proof": {"type": "test"}}]}`
	plan := strings.Replace(planJSON(""), `{"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}`, each, 1)
	dir := w.handPlan(runnertest.ProvenPRD, plan)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.holds("report.md", w.File(dir, "report.md"), "| `sh test.sh` | 0 |", "| `sh greet.sh` | 0 |")
	w.holds("proofs.jsonl", w.File(dir, "proofs.jsonl"), `"step":"each/item-1/run_it"`, `"step":"each/item-2/run_it"`)
	audit, err := runner.VerifyTask(context.Background(), w.Site.Store, w.Site.Repo.Refs(), dir)
	if err != nil || !audit.OK() || !slices.Contains(audit.Proven, "each/run_it") {
		t.Fatalf("got %+v, %v", audit, err)
	}
}
