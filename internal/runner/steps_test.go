package runner_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

var (
	runTests = runnertest.Obj{"id": "run_tests", "command": "sh test.sh", "proof": runnertest.Obj{"type": "test"}}
)

// Implement runs the steps of a plan. Steps that verify run at the end, and are proven then.
func TestStepsOfATask(t *testing.T) {
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}, "answer": "done"}).String())
	dir := w.Stepped("02-01-bye", runnertest.AddFlag, runnertest.Note, runTests)
	res := w.Start(dir)
	if res.Status != trellis.Review || res.Report.Steps.Done != 2 || res.Report.Steps.Skipped != 1 || res.Report.Proofs == "" {
		t.Fatalf("got %s, %v, %+v", res.Status, res.Failure, res.Report)
	}
	if got := w.Git("show", "--name-only", "--format=", "feature/bye"); got != "NOTES\ngreet.sh" {
		t.Errorf("the commit holds %q", got)
	}
	proofs := strings.Split(strings.TrimSpace(w.File(dir, "proofs.jsonl")), "\n")
	if len(proofs) != 3 || !strings.Contains(proofs[0], `"step":"add_flag"`) || !strings.Contains(proofs[1], `"step":"run_tests"`) || !strings.Contains(proofs[2], `"kind":"final"`) || !strings.Contains(proofs[2], res.Report.Proofs) {
		t.Errorf("proofs.jsonl is\n%s", strings.Join(proofs, "\n"))
	}
	prompts := w.prompts(dir, "implement", 1)
	if len(prompts) != 1 || !strings.Contains(prompts[0], "Let it take --bye.") || !strings.Contains(prompts[0], "it says bye") {
		t.Errorf("implement was told\n%s", prompts)
	}
}

// A step that fails is given to the debug agent, which uses up a round, and is then repeated.
func TestStepGoesToDebug(t *testing.T) {
	w := newWorld(t, runnertest.Stepping(runnertest.Answer("I did nothing")).String())
	w.Site.Config.Limits.Rounds = 3
	dir := w.Stepped("02-01-bye", runnertest.Obj{"id": "check_flag", "command": "sh greet.sh --bye | grep -q Bye"}, runnertest.Note)
	res := w.Start(dir)
	if res.Status != trellis.Review || len(w.prompts(dir, "debug", 1)) != 1 || w.Git("show", "feature/bye:NOTES") != "bye" {
		t.Fatalf("got %s, %v, %d debugs", res.Status, res.Failure, len(w.prompts(dir, "debug", 1)))
	}
	if p := w.prompts(dir, "debug", 1)[0]; !strings.Contains(p, "check_flag") || !strings.Contains(p, "step_failed") {
		t.Errorf("debug was told\n%s", p)
	}
	w = newWorld(t, runnertest.Stepping(runnertest.Answer("x")).With("debug", runnertest.Answer("can't")).String())
	w.Site.Config.Limits.Rounds = 3
	dir = w.Stepped("02-01-bye", runnertest.Obj{"id": "check_flag", "command": "sh greet.sh --bye | grep -q Bye"})
	res = w.Start(dir)
	if res.Status != trellis.Failed || res.Failure.Code != string(trellis.NoProgress) || len(w.prompts(dir, "debug", 1)) != 1 {
		t.Errorf("got %s, %v, %d debugs", res.Status, res.Failure, len(w.prompts(dir, "debug", 1)))
	}
}

// If a step fails twice on the same tree, the run ends before its rounds are used up. It does not if debug changed something in between
// (edge A7).
func TestStepMakesNoProgress(t *testing.T) {
	step := runnertest.Obj{"id": "work", "title": "Work", "prompt": "Work.", "verify": "test -e never"}
	w := newWorld(t, runnertest.Stepping(runnertest.Answer("I did it")).With("debug", runnertest.Answer("can't")).String())
	w.Site.Config.Limits.Rounds = 5
	dir := w.Stepped("02-01-stuck", runnertest.Note, step)
	res := w.Start(dir)
	asked, mended := len(w.prompts(dir, "implement", 1)), len(w.prompts(dir, "debug", 1))
	if res.Status != trellis.Failed || res.Failure.Code != string(trellis.NoProgress) || asked != 2 || mended != 1 || !strings.Contains(res.Failure.Detail, "work") {
		t.Errorf("got %s, %v, %d calls for the step, %d debugs", res.Status, res.Failure, asked, mended)
	}
	w = newWorld(t, runnertest.Stepping(runnertest.Answer("I did it")).With("debug", runnertest.Obj{"run": []string{"echo more >> NOTES"}, "answer": "tried"}).String())
	w.Site.Config.Limits.Rounds = 4
	dir = w.Stepped("02-01-tries", runnertest.Note, step)
	if res = w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.StepFailed) || len(w.prompts(dir, "debug", 1)) != 3 {
		t.Errorf("got %s, %v, %d debugs", res.Status, res.Failure, len(w.prompts(dir, "debug", 1)))
	}
}

// A retry does not repeat finished steps.
func TestRetryKeepsSteps(t *testing.T) {
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).With("debug", runnertest.Answer("can't")).String())
	w.Site.Config.Limits.Rounds = 1
	dir := w.Stepped("02-01-bye", runnertest.Note, runnertest.Obj{"id": "wait", "command": "test -e ../../../go"}, runnertest.AddFlag)
	if res := w.Start(dir); res.Status != trellis.Failed || res.Failure.Code != string(trellis.StepFailed) {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(w.Dir), "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("again: %s, %v", res.Status, res.Failure)
	}
	if got := w.Git("show", "feature/bye:NOTES"); got != "bye" {
		t.Errorf("NOTES is %q: its step ran again", got)
	}
}

// A step waits for approval before anything else runs. A line written by hand is enough, and a rejection fails the task.
func TestStepApproval(t *testing.T) {
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	dir := w.Stepped("02-01-bye", runnertest.Obj{"id": "ask", "type": "approval", "title": "Shall it say bye?"}, runnertest.AddFlag, runnertest.Note)
	res := w.Start(dir)
	if res.Status != trellis.Waiting || len(w.prompts(dir, "implement", 1)) != 0 {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if err := os.WriteFile(filepath.Join(dir, "approvals.jsonl"), []byte(`{"step": "ask", "decision": "approve", "by": "ann"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if res = w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("after the yes: %s, %v", res.Status, res.Failure)
	}
	if line := w.File(dir, "approvals.jsonl"); !strings.Contains(line, `"hash": "sha256:`) {
		t.Errorf("the line was not bound: %s", line)
	}
	if proofs := w.File(dir, "proofs.jsonl"); !strings.Contains(proofs, `"by":["ann"]`) {
		t.Errorf("no proof names who agreed:\n%s", proofs)
	}
	w = newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	dir = w.Stepped("02-01-bye", runnertest.Obj{"id": "ask", "type": "approval", "title": "Shall it say bye?"}, runnertest.AddFlag, runnertest.Note)
	if res = w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if err := os.WriteFile(filepath.Join(dir, "approvals.jsonl"), []byte(`{"step": "ask", "decision": "reject", "by": "ann", "reason": "no"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if res = w.Start(dir); res.Status != trellis.Failed || res.Failure.Code != string(trellis.ApprovalRejected) {
		t.Errorf("after the no: %s, %v", res.Status, res.Failure)
	}
}

// A task's plan may have the form of tascer, and may call files of the repository.
func TestForeignAndNestedPlans(t *testing.T) {
	soak.Only(t, "TestPlanInTheFormOfTascer")
	t.Parallel()
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}, "answer": "done"}).String())
	w.Write("flows/note.yaml", "schema_version: 1\ntitle: note\nvars: {text: ~}\nsteps:\n  - {id: write, command: 'echo {{text}} >> NOTES'}\n")
	dir := w.Stepped("02-01-bye", runnertest.AddFlag, runnertest.Obj{"id": "note", "workflow": "flows/note.yaml", "vars": runnertest.Obj{"text": "nested"}}, runTests)
	if res := w.Start(dir); res.Status != trellis.Review || w.Git("show", "feature/bye:NOTES") != "nested" {
		t.Fatalf("nested: %s, %v", res.Status, res.Failure)
	}
	w = newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}, "answer": "done"}).String())
	dir = w.Stepped("02-01-bye")
	tascs := `{"title": "Say bye", "tascs": [{"id": "add_flag", "title": "Take --bye", "testing_instructions": "sh greet.sh --bye | grep -q Bye", "desired_outcome": "it says bye"}]}`
	if err := os.WriteFile(filepath.Join(dir, "plan.json"), []byte(tascs), 0o644); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review || len(w.prompts(dir, "implement", 1)) != 1 {
		t.Fatalf("tascs: %s, %v", res.Status, res.Failure)
	}
}
