package dispatch_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// stepping is a script whose implement does one step after the other.
func stepping(calls ...obj) script {
	return script{"implement": calls, "check": {answer("fine")}, "debug": {{"files": obj{"greet.sh": bye}, "answer": "mended"}},
		"accept": {answer(obj{"criteria": []obj{{"id": "A1", "verdict": "met", "evidence": "greet.sh:1"}}})}}
}

const bye = "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"

// stepped makes a task directory with a plan of these steps.
func (w *world) stepped(id string, steps ...obj) string {
	w.Helper()
	dir := w.hand(id, "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n")
	raw, err := json.MarshalIndent(obj{"schema_version": 1, "title": "Say bye", "steps": steps,
		"acceptance": []obj{{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}}}, "", "  ")
	if err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "plan.json"), raw, 0o644); err != nil {
		w.Fatal(err)
	}
	return dir
}

var (
	addFlag  = obj{"id": "add_flag", "prompt": "Let it take --bye.", "verify": "sh greet.sh --bye | grep -q Bye"}
	note     = obj{"id": "note", "command": "echo bye >> NOTES"}
	runTests = obj{"id": "run_tests", "command": "sh test.sh", "proof": obj{"type": "test"}}
)

// The implement phase runs the steps; those that verify are run and proven at the end.
func TestStepsOfATask(t *testing.T) {
	w := newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}, "answer": "done"}).String())
	dir := w.stepped("02-01-bye", addFlag, note, runTests)
	res := w.start(dir)
	if res.Status != trellis.Review || res.Report.Steps.Done != 2 || res.Report.Steps.Skipped != 1 || res.Report.Proofs == "" {
		t.Fatalf("got %s, %v, %+v", res.Status, res.Failure, res.Report)
	}
	if got := w.git("show", "--name-only", "--format=", "feature/bye"); got != "NOTES\ngreet.sh" {
		t.Errorf("the commit holds %q", got)
	}
	proofs := strings.Split(strings.TrimSpace(w.file(dir, "proofs.jsonl")), "\n")
	if len(proofs) != 3 || !strings.Contains(proofs[0], `"step":"add_flag"`) || !strings.Contains(proofs[1], `"step":"run_tests"`) || !strings.Contains(proofs[2], `"kind":"final"`) || !strings.Contains(proofs[2], res.Report.Proofs) {
		t.Errorf("proofs.jsonl is\n%s", strings.Join(proofs, "\n"))
	}
	prompts := w.prompts(dir, "implement", 1)
	if len(prompts) != 1 || !strings.Contains(prompts[0], "Let it take --bye.") || !strings.Contains(prompts[0], "it says bye") {
		t.Errorf("implement was told\n%s", prompts)
	}
}

// A step that fails goes to the debug agent, which uses up a round, and is tried again there.
func TestStepGoesToDebug(t *testing.T) {
	w := newWorld(t, stepping(answer("I did nothing")).String())
	w.Site.Config.Limits.Rounds = 3
	dir := w.stepped("02-01-bye", obj{"id": "check_flag", "command": "sh greet.sh --bye | grep -q Bye"}, note)
	res := w.start(dir)
	if res.Status != trellis.Review || len(w.prompts(dir, "debug", 1)) != 1 || w.git("show", "feature/bye:NOTES") != "bye" {
		t.Fatalf("got %s, %v, %d debugs", res.Status, res.Failure, len(w.prompts(dir, "debug", 1)))
	}
	if p := w.prompts(dir, "debug", 1)[0]; !strings.Contains(p, "check_flag") || !strings.Contains(p, "step_failed") {
		t.Errorf("debug was told\n%s", p)
	}
	w = newWorld(t, stepping(answer("x")).with("debug", answer("can't")).String())
	w.Site.Config.Limits.Rounds = 3
	dir = w.stepped("02-01-bye", obj{"id": "check_flag", "command": "sh greet.sh --bye | grep -q Bye"})
	res = w.start(dir)
	if res.Status != trellis.Failed || res.Failure.Code != string(trellis.NoProgress) || len(w.prompts(dir, "debug", 1)) != 1 {
		t.Errorf("got %s, %v, %d debugs", res.Status, res.Failure, len(w.prompts(dir, "debug", 1)))
	}
}

// A step that fails on the tree it failed on before is not tried until the rounds are used up; one that changed something
// in between is (edge A7).
func TestStepMakesNoProgress(t *testing.T) {
	step := obj{"id": "work", "title": "Work", "prompt": "Work.", "verify": "test -e never"}
	w := newWorld(t, stepping(answer("I did it")).with("debug", answer("can't")).String())
	w.Site.Config.Limits.Rounds = 5
	dir := w.stepped("02-01-stuck", note, step)
	res := w.start(dir)
	asked, mended := len(w.prompts(dir, "implement", 1)), len(w.prompts(dir, "debug", 1))
	if res.Status != trellis.Failed || res.Failure.Code != string(trellis.NoProgress) || asked != 2 || mended != 1 || !strings.Contains(res.Failure.Detail, "work") {
		t.Errorf("got %s, %v, %d calls for the step, %d debugs", res.Status, res.Failure, asked, mended)
	}
	w = newWorld(t, stepping(answer("I did it")).with("debug", obj{"run": []string{"echo more >> NOTES"}, "answer": "tried"}).String())
	w.Site.Config.Limits.Rounds = 4
	dir = w.stepped("02-01-tries", note, step)
	if res = w.start(dir); res.Failure == nil || res.Failure.Code != string(trellis.StepFailed) || len(w.prompts(dir, "debug", 1)) != 3 {
		t.Errorf("got %s, %v, %d debugs", res.Status, res.Failure, len(w.prompts(dir, "debug", 1)))
	}
}

// A retry runs no step again that was finished, unless it was edited since.
func TestRetryKeepsSteps(t *testing.T) {
	w := newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}}).with("debug", answer("can't")).String())
	w.Site.Config.Limits.Rounds = 1
	dir := w.stepped("02-01-bye", note, obj{"id": "wait", "command": "test -e ../../../go"}, addFlag)
	if res := w.start(dir); res.Status != trellis.Failed || res.Failure.Code != string(trellis.StepFailed) {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(w.Dir), "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Retry(t.Context(), dir, false, dispatch.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.start(dir); res.Status != trellis.Review {
		t.Fatalf("again: %s, %v", res.Status, res.Failure)
	}
	if got := w.git("show", "feature/bye:NOTES"); got != "bye" {
		t.Errorf("NOTES is %q: its step ran again", got)
	}
}

// A step waits for people before any effect; a line by hand is enough, and an edit voids it.
func TestStepApproval(t *testing.T) {
	w := newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}}).String())
	dir := w.stepped("02-01-bye", obj{"id": "ask", "type": "approval", "title": "Shall it say bye?"}, addFlag, note)
	res := w.start(dir)
	if res.Status != trellis.Waiting || len(w.prompts(dir, "implement", 1)) != 0 {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if err := os.WriteFile(filepath.Join(dir, "approvals.jsonl"), []byte(`{"step": "ask", "decision": "approve", "by": "ann"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if res = w.start(dir); res.Status != trellis.Review {
		t.Fatalf("after the yes: %s, %v", res.Status, res.Failure)
	}
	if line := w.file(dir, "approvals.jsonl"); !strings.Contains(line, `"hash": "sha256:`) {
		t.Errorf("the line was not bound: %s", line)
	}
	if proofs := w.file(dir, "proofs.jsonl"); !strings.Contains(proofs, `"by":["ann"]`) {
		t.Errorf("no proof names who agreed:\n%s", proofs)
	}
	w = newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}}).String())
	dir = w.stepped("02-01-bye", obj{"id": "ask", "type": "approval", "title": "Shall it say bye?"}, addFlag, note)
	if res = w.start(dir); res.Status != trellis.Waiting {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if err := os.WriteFile(filepath.Join(dir, "approvals.jsonl"), []byte(`{"step": "ask", "decision": "reject", "by": "ann", "reason": "no"}`+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if res = w.start(dir); res.Status != trellis.Failed || res.Failure.Code != string(trellis.ApprovalRejected) {
		t.Errorf("after the no: %s, %v", res.Status, res.Failure)
	}
}

// A task's plan may be of another tool, and call files of the repository.
func TestForeignAndNestedPlans(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}, "answer": "done"}).String())
	w.write("flows/note.yaml", "schema_version: 1\ntitle: note\nvars: {text: ~}\nsteps:\n  - {id: write, command: 'echo {{text}} >> NOTES'}\n")
	dir := w.stepped("02-01-bye", addFlag, obj{"id": "note", "workflow": "flows/note.yaml", "vars": obj{"text": "nested"}}, runTests)
	if res := w.start(dir); res.Status != trellis.Review || w.git("show", "feature/bye:NOTES") != "nested" {
		t.Fatalf("nested: %s, %v", res.Status, res.Failure)
	}
	w = newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}, "answer": "done"}).String())
	dir = w.stepped("02-01-bye")
	tascs := `{"title": "Say bye", "tascs": [{"id": "add_flag", "title": "Take --bye", "testing_instructions": "sh greet.sh --bye | grep -q Bye", "desired_outcome": "it says bye"}]}`
	if err := os.WriteFile(filepath.Join(dir, "plan.json"), []byte(tascs), 0o644); err != nil {
		t.Fatal(err)
	}
	if res := w.start(dir); res.Status != trellis.Review || len(w.prompts(dir, "implement", 1)) != 1 {
		t.Fatalf("tascs: %s, %v", res.Status, res.Failure)
	}
}

// A watcher leaves a run alone that waits with a step until people have decided, and says how they do.
func TestWatchLeavesWaitingSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, stepping(obj{"files": obj{"greet.sh": bye}}).String())
	dir := w.stepped("02-01-bye", obj{"id": "ask", "type": "approval", "title": "Shall it say bye?"}, addFlag, note)
	watch := func() dispatch.Result {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), hang)
		defer cancel()
		all, err := w.Site.Watch(ctx, dispatch.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour})
		if err != nil || ctx.Err() != nil || len(all) != 1 {
			t.Fatalf("got %+v, %v, %v", all, err, ctx.Err())
		}
		return all[0]
	}
	const how = "approval of the step ask: trellis approve 02-01-bye --step ask"
	for range 2 {
		if res := watch(); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits[0] != how || w.task(dir).Pipeline.Revision > 5 {
			t.Fatalf("got %s, %q, revision %d", res.Status, res.Waits, w.task(dir).Pipeline.Revision)
		}
	}
	if res := w.start(dir); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits[0] != how {
		t.Errorf("start: %s, %q", res.Status, res.Waits)
	}
	if _, _, err := w.Site.DecideStep(dir, proof.Approval{Decision: proof.Approve, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	if res := watch(); res.Status != trellis.Review {
		t.Errorf("after the yes: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}
