package runner_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// editPlan replaces a text in plan.json, as a person would.
func (w *world) editPlan(dir, from, to string) {
	w.Helper()
	path := filepath.Join(dir, "plan.json")
	data, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(data), from) {
		w.Fatalf("plan.json: %v\n%s", err, data)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(data), from, to)), 0o644); err != nil {
		w.Fatal(err)
	}
}

// A step runs only after enough people approved it, each counted once, and it runs as it was when they approved it.
func TestStepOfATaskIsAgreedToAsItIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	w.Site.Config.Planning.Approvers = 2
	dir := w.Stepped("02-01-bye", runnertest.Obj{"id": "note", "command": "echo first >> NOTES", "risk": "high"}, runnertest.AddFlag)
	yes := func(by, want string) {
		t.Helper()
		_, said, err := w.Site.Approvals().DecideStep(dir, proof.Approval{Decision: proof.Approve, By: by})
		if err != nil || said.State != want {
			t.Fatalf("%s: got %+v, %v, want %s", by, said, err, want)
		}
	}
	waits := func(what string) {
		t.Helper()
		res := w.Start(dir)
		if res.Status != trellis.Waiting || res.Failure != nil || len(w.prompts(dir, "implement", 1)) != 0 {
			t.Fatalf("%s: got %s, %v", what, res.Status, res.Failure)
		}
		if out, _ := filepath.Glob(filepath.Join(filepath.Dir(w.Dir), "*", "*", "*", "NOTES")); len(out) > 0 {
			t.Fatalf("%s: the step ran", what)
		}
	}
	waits("at first")
	yes("ann", workflow.Pending)
	yes("Ann", workflow.Pending)
	waits("agreed by one")
	yes("bob", workflow.Approved)
	w.editPlan(dir, "echo first", "echo second") // the run has its own copy of the plan
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("agreed by two: %s, %v", res.Status, res.Failure)
	}
	if got := w.Git("show", "feature/bye:NOTES"); got != "first" {
		t.Errorf("what ran is %q, and nobody agreed to that", got)
	}
}

// A step can't be approved while plan.json has it in another version than the run. Edits of other steps don't matter to a step of its own.
// After it is restored, the approval counts.
func TestEditedStepIsNotAgreedTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	dir := w.Stepped("02-01-bye", runnertest.Obj{"id": "alone", "command": "echo alone >> NOTES", "risk": "high"}, runnertest.Obj{"id": "each", "for_each": []string{"first", "other"}, "steps": []runnertest.Obj{{"id": "note", "command": "echo {{item}} >> NOTES", "risk": "high"}}},
		runnertest.Obj{"id": "ask", "type": "approval", "title": "Go on?"}, runnertest.AddFlag)
	yes := func(step string) (string, error) {
		_, said, err := w.Site.Approvals().DecideStep(dir, proof.Approval{Step: step, Decision: proof.Approve, By: "ann"})
		return said.State, err
	}
	if res := w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.editPlan(dir, "Let it take --bye.", "Let it take --bye, too.")
	if said, err := yes("alone"); err != nil || said != workflow.Approved {
		t.Fatalf("edited elsewhere: %s, %v", said, err)
	}
	w.editPlan(dir, "Let it take --bye, too.", "Let it take --bye.")
	if res := w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.editPlan(dir, `"first"`, `"none"`)
	if _, err := yes("each.1.note"); err == nil {
		t.Error("agreed to what a loop goes through no more")
	}
	w.editPlan(dir, `"none"`, `"first"`)
	w.editPlan(dir, "echo {{item}}", "echo no {{item}}")
	_, err := yes("each.1.note")
	refused, ok := errors.AsType[*runner.RefusedError](err)
	if !ok || !strings.Contains(refused.Why, "plan.json was edited") || refused.Hint != "trellis cancel 02-01-bye && trellis retry 02-01-bye" {
		t.Fatalf("an edited step: %v, %+v", err, refused)
	}
	w.editPlan(dir, "echo no {{item}}", "echo {{item}}")
	if said, err := yes("each.1.note"); err != nil || said != workflow.Approved {
		t.Fatalf("put back: %s, %v", said, err)
	}
	if res := w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("round 2: %s, %v", res.Status, res.Failure)
	}
	if said, err := yes("each.2.note"); err != nil || said != workflow.Approved {
		t.Fatalf("round 2: %s, %v", said, err)
	}
	if res := w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("the approval: %s, %v", res.Status, res.Failure)
	}
	w.editPlan(dir, "Let it take --bye.", "Let it take --bye, too.")
	if _, err := yes("ask"); err == nil {
		t.Fatal("an approval is about the whole, which was edited")
	}
	if _, _, err := w.Site.Approvals().DecideStep(dir, proof.Approval{Step: "ask", Decision: proof.Reject, By: "ann", Reason: "not that"}); err != nil {
		t.Errorf("a no: %v", err)
	}
}

// A rejected step fails its task. A retry asks for it again, and earlier decisions, or approvals of a plan that was edited since, don't
// count.
func TestRefusedStepIsAskedForAnew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	dir := w.Stepped("02-01-bye", runnertest.Obj{"id": "note", "command": "echo first >> NOTES", "risk": "high"}, runnertest.Obj{"id": "more", "command": "test -e ../../../go", "depends_on": []string{}}, runnertest.AddFlag)
	w.Site.Config.Limits.Rounds = 1
	say := func(d proof.Decision, want string) {
		t.Helper()
		_, said, err := w.Site.Approvals().DecideStep(dir, proof.Approval{Decision: d, By: "ann", Reason: "so"})
		if err != nil || said.State != want {
			t.Fatalf("got %+v, %v, want %s", said, err, want)
		}
	}
	again := func() runner.Result {
		t.Helper()
		if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
			t.Fatal(err)
		}
		return w.Start(dir)
	}
	if res := w.Start(dir); res.Status != trellis.Waiting {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	say(proof.Reject, workflow.Rejected)
	if res := w.Start(dir); res.Status != trellis.Failed || res.Failure.Code != string(trellis.ApprovalRejected) {
		t.Fatalf("refused: %s, %v", res.Status, res.Failure)
	}
	if res := again(); res.Status != trellis.Waiting {
		t.Fatalf("again: %s, %v", res.Status, res.Failure)
	}
	say(proof.Approve, workflow.Approved)
	w.editPlan(dir, "echo first", "echo second")
	if res := w.Start(dir); res.Status != trellis.Failed || res.Failure.Code != string(trellis.StepFailed) {
		t.Fatalf("agreed to, and another step fails: %s, %v", res.Status, res.Failure)
	}
	if res := again(); res.Status != trellis.Waiting {
		t.Fatalf("after the edit: %s, %v", res.Status, res.Failure)
	}
}

// A step that was rejected in one run can be approved in the next.
func TestApprovalInAnotherRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}}).String())
	dir := w.Stepped("02-01-bye", runnertest.Obj{"id": "ask", "type": "approval", "title": "Go on?"}, runnertest.AddFlag)
	for _, d := range []proof.Decision{proof.Reject, proof.Approve} {
		if res := w.Start(dir); res.Status != trellis.Waiting {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
		if _, _, err := w.Site.Approvals().DecideStep(dir, proof.Approval{Decision: d, By: "ann", Reason: "so"}); err != nil {
			t.Fatalf("%s: %v", d, err)
		}
		if d == proof.Approve {
			break
		}
		if res := w.Start(dir); res.Status != trellis.Failed {
			t.Fatalf("refused: %s, %v", res.Status, res.Failure)
		}
		if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}

// While a run waits for approvals, branches that don't depend on them run to their end.
func TestBranchesGoOnWhilePeopleAreAsked(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	res := w.runFile(w.stepsFile(`{"id": "x", "type": "approval", "title": "X?", "depends_on": []}, {"id": "after", "command": "echo after >> log"}, {"id": "y", "command": "echo y >> log", "risk": "high", "depends_on": []},
		{"id": "free", "command": "echo free >> log", "depends_on": []}, {"id": "l", "repeat": 2, "concurrency": 2, "depends_on": [], "steps": [{"id": "ask", "type": "approval", "title": "Round {{item}}?"}, {"id": "do", "command": "echo {{item}} >> log"}]}`, `"parallel": true`))
	var asked []string
	for _, q := range res.Waits {
		asked = append(asked, q.Path+" "+q.Title)
	}
	slices.Sort(asked)
	if got := strings.Join(asked, ", "); got != "l.1.ask Round 1?, l.2.ask Round 2?, x X?, y y" || w.Read("log") != "free\n" || res.Report.Failed != 0 || res.Failure != nil {
		t.Fatalf("asked %s, log %q, %+v", got, w.Read("log"), res.Report)
	}
	for _, path := range []string{"l.2.ask", "x", "l.1.ask"} {
		if _, said, err := w.Site.Approvals().DecideStep(res.Dir, proof.Approval{Step: path, Decision: proof.Approve, By: "ann"}); err != nil || said.State != workflow.Approved {
			t.Fatalf("%s: %+v, %v", path, said, err)
		}
	}
	res = w.resume(res.ID, runner.FileOptions{})
	got := strings.Fields(w.Read("log"))
	slices.Sort(got)
	if len(res.Waits) != 1 || res.Waits[0].Path != "y" || strings.Join(got, " ") != "1 2 after free" {
		t.Errorf("got %+v, log %q", res.Waits, got)
	}
}
