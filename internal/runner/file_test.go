package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// stepsFile writes a file with these steps, and returns the options of `trellis run` for it.
func (w *world) stepsFile(steps string, more ...string) runner.FileOptions {
	w.Helper()
	w.Write("steps.json", `{"schema_version": 1, "title": "Try it"`+strings.Join(append([]string{""}, more...), ", ")+`, "steps": [`+steps+`]}`)
	return fileOptions(w.T, w.Dir)
}

func fileOptions(t *testing.T, dir string) runner.FileOptions {
	t.Helper()
	file := filepath.Join(dir, "steps.json")
	b, problems := plan.Load(plan.LoadOptions{File: "steps.json", Read: func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, path)) }})
	if b == nil {
		t.Fatalf("steps.json: %v", problems)
	}
	return runner.FileOptions{File: file, Bundle: b, Steps: workflow.Options{Dir: dir}}
}

func nobody(runner.FileRun, []workflow.Event) {}

func (w *world) runFile(o runner.FileOptions) runner.FileRun {
	w.Helper()
	res, err := w.Site.FileRunner().RunFile(context.Background(), o, nobody)
	if err != nil {
		w.Fatal(err)
	}
	return res
}

func (w *world) resume(id string, o runner.FileOptions) runner.FileRun {
	w.Helper()
	o.Steps.Dir = w.Dir
	res, err := w.Site.FileRunner().ResumeFile(context.Background(), id, o, nobody)
	if err != nil {
		w.Fatal(err)
	}
	return res
}

// overhears collects the events of steps from now on, in a few words each.
func (w *world) overhears() func() []string {
	var list []string
	w.Site.Event = func(e runner.Event) {
		if e.Step == nil {
			return
		}
		w.Mu.Lock()
		defer w.Mu.Unlock()
		s := e.Step
		text := strings.Join(strings.Fields(fmt.Sprintf("%s %s %s %s %s %s", s.Type, s.Step, s.Stream, s.Tool, s.State, s.Text)), " ")
		if s.Pass != nil {
			text += fmt.Sprintf(" %t", *s.Pass)
		}
		if s.Attempt > 0 {
			text += fmt.Sprintf(" (%d)", s.Attempt)
		}
		list = append(list, text)
	}
	return func() []string {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return slices.Clone(list)
	}
}

// The agents for the steps of a file use their roles, and their events name the step.
func TestFileAsksAgents(t *testing.T) {
	w := newWorld(t, runnertest.Script{"implement": {{"files": runnertest.Obj{"out.txt": "one"}, "answer": "wrote it"}}, "heal": {{"files": runnertest.Obj{"mended": "x"}, "answer": "made the file"}},
		"grade": {runnertest.Answer(runnertest.Obj{"reasoning": "r", "feedback": "write two", "pass": false}), runnertest.Answer(runnertest.Obj{"reasoning": "r", "feedback": "", "pass": true})}}.String())
	heard := w.overhears()
	res := w.runFile(w.stepsFile(`{"id": "write", "prompt": "Write out.txt.", "llm_as_judge": true}, {"id": "check", "command": "test -e mended", "self_healing": true, "proof": {"type": "test"}}`))
	if res.Report.Done != 2 || res.Failure != nil || res.Report.Head == "" || res.Proven != 1 || res.Checks != 1 {
		t.Fatalf("got %+v", res)
	}
	events := strings.Join(heard(), "\n")
	for _, want := range []string{"step_judge write write two false (1)", "step_judge write true (2)", "step_output write implement write \"out.txt\"",
		"step_healing check running (1)", "step_healing check done made the file (1)", "step_finished check done"} {
		if !strings.Contains(events, want) {
			t.Errorf("no %s among\n%s", want, events)
		}
	}
	prompt := w.Read(".trellis/.runtime/runs/" + res.ID + "/run/1/step-write/implement#2/1/prompt.md")
	if !strings.Contains(prompt, "write two") || !strings.Contains(prompt, "wrote it") {
		t.Errorf("the second try is told\n%s", prompt)
	}
}

// A resumed run repeats only what did not end well, also if the file was edited: unchanged steps and rounds do not run again.
func TestFileIsResumed(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	const steps = `{"id": "a", "command": "echo a >> log"}, {"id": "l", "for_each": "cat items", "command": "echo {{item}} >> log; test -e go || test {{item}} != y"}, {"id": "b", "command": "%s"}`
	w.Write("items", "x\ny\n")
	res := w.runFile(w.stepsFile(fmt.Sprintf(steps, "echo b >> log")))
	if fail := res.Report.Failure(); fail == nil || res.Report.Done != 1 || w.Read("log") != "a\nx\ny\n" {
		t.Fatalf("got %+v, log %q", res, w.Read("log"))
	}
	w.Write("go", "")
	w.Write("items", "x2\ny\n") // changes the first round
	res = w.resume(res.ID, runner.FileOptions{})
	if res.Report.Failure() != nil || res.Input.Number != 2 || w.Read("log") != "a\nx\ny\nx2\ny\nb\n" {
		t.Errorf("got %+v, log %q", res, w.Read("log"))
	}
	if res = w.resume(res.ID, runner.FileOptions{}); !res.Idle || res.Input.Number != 2 {
		t.Errorf("a run that ended well does it again: %+v", res)
	}
	if res = w.resume(res.ID, w.stepsFile(fmt.Sprintf(steps, "echo b >> log"))); !res.Idle {
		t.Errorf("the same file: %+v", res)
	}
	res = w.resume(res.ID, w.stepsFile(fmt.Sprintf(steps, "echo c >> log")))
	if res.Report.Failure() != nil || res.Input.Number != 3 || !strings.HasSuffix(w.Read("log"), "y\nb\nc\n") {
		t.Errorf("an edited file: %+v, log %q", res, w.Read("log"))
	}
	res = w.resume(res.ID, runner.FileOptions{Steps: workflow.Options{From: "l"}})
	if res.Report.Failure() != nil || res.Report.Skipped != 1 || !strings.HasSuffix(w.Read("log"), "c\nx2\ny\nc\n") {
		t.Errorf("from a step: %+v, log %q", res, w.Read("log"))
	}
	if _, err := w.Site.FileRunner().ResumeFile(context.Background(), "260101-000000-aaaa", runner.FileOptions{}, nobody); !errors.Is(err, runner.ErrNoRun) {
		t.Errorf("got %v", err)
	}
	if _, err := w.Site.FileRunner().ResumeFile(context.Background(), "../../../x", runner.FileOptions{}, nobody); !errors.Is(err, runner.ErrNoRun) {
		t.Errorf("got %v", err)
	}
}

// The choice of steps for a run also holds when it is resumed, until another one is given.
func TestResumeKeepsTheChoice(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	o := w.stepsFile(`{"id": "a", "command": "echo a >> log"}, {"id": "b", "command": "test -e go && echo b >> log"}, {"id": "c", "command": "echo c >> log"}`)
	o.Steps.To = "b"
	res := w.runFile(o)
	w.Write("go", "")
	if res = w.resume(res.ID, runner.FileOptions{}); res.Report.Failure() != nil || w.Read("log") != "a\nb\n" {
		t.Errorf("got %+v, log %q", res.Report, w.Read("log"))
	}
	if res = w.resume(res.ID, runner.FileOptions{Steps: workflow.Options{To: "c"}}); res.Report.Failure() != nil || w.Read("log") != "a\nb\nc\n" {
		t.Errorf("got %+v, log %q", res.Report, w.Read("log"))
	}
}

// A step runs again if the file that it calls, or a value in it, changed.
func TestFinishedStepsThatAreOthers(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	load := func(given map[string]string) runner.FileOptions {
		o := runner.FileOptions{File: filepath.Join(w.Dir, "steps.json"), Steps: workflow.Options{Dir: w.Dir}}
		var problems []trellis.Problem
		o.Bundle, problems = plan.Load(plan.LoadOptions{File: "steps.json", Given: given, Read: func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(w.Dir, path)) }})
		if o.Bundle == nil {
			t.Fatalf("steps.json: %v", problems)
		}
		return o
	}
	w.Write("steps.json", `{"schema_version": 1, "title": "t", "vars": {"v": "1"}, "steps": [{"id": "call", "workflow": "inner.json"}, {"id": "a", "command": "echo a{{v}} >> log"}, {"id": "f", "command": "exit 1"}]}`)
	inner := func(s string) {
		w.Write("inner.json", `{"schema_version": 1, "title": "i", "steps": [{"id": "x", "command": "echo `+s+` >> log"}]}`)
	}
	inner("x")
	res := w.runFile(load(nil))
	inner("y")
	w.resume(res.ID, load(nil))
	if got := w.Read("log"); got != "x\na1\ny\n" {
		t.Errorf("another file below: log %q", got)
	}
	w.resume(res.ID, load(map[string]string{"v": "2"}))
	if got := w.Read("log"); got != "x\na1\ny\na2\n" {
		t.Errorf("another value: log %q", got)
	}
}

// A run waits for approvals of a step. Approvals of a step that was edited since do not count.
func TestFileWaitsForPeople(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	w.Site.Config.Planning.Approvers = 2
	const steps = `{"id": "a", "command": "echo a >> log"}, {"id": "ok", "type": "approval", "title": "Publish?"}, {"id": "p", "command": "echo p%s >> log", "depends_on": ["ok"], "risk": "high"}`
	heard := w.overhears()
	res := w.runFile(w.stepsFile(fmt.Sprintf(steps, "")))
	if len(res.Waits) != 1 || res.Waits[0].Path != "ok" || !slices.Equal(res.Waits[0].Lets, []string{"p"}) || w.Read("log") != "a\n" {
		t.Fatalf("got %+v", res)
	}
	if !slices.Contains(heard(), "step_output ok approval waiting Publish?") {
		t.Errorf("nobody was told of the wait: %q", heard())
	}
	say := func(step string, d proof.Decision, by string) (workflow.Answer, error) {
		_, said, err := w.Site.Approvals().DecideStep(res.Dir, proof.Approval{Step: step, Decision: d, By: by, Reason: "so"})
		return said, err
	}
	var refused *runner.RefusedError
	if _, err := say("p", proof.Approve, "ann"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "does not wait with a step p, but with ok") {
		t.Errorf("got %v", err)
	}
	for i, want := range []string{workflow.Pending, workflow.Pending, workflow.Approved} {
		if said, err := say("", proof.Approve, []string{"ann", "Ann", "bob"}[i]); err != nil || said.State != want {
			t.Errorf("%d: got %+v, %v, want %s", i, said, err, want)
		}
	}
	if said, err := say("ok", proof.Reject, "eve"); err != nil || said.State != workflow.Approved {
		t.Errorf("a no that comes too late: %+v, %v", said, err)
	}
	res = w.resume(res.ID, runner.FileOptions{})
	if len(res.Waits) != 1 || res.Waits[0].Path != "p" {
		t.Fatalf("got %+v", res)
	}
	for _, by := range []string{"ann", "bob"} {
		if _, err := say("p", proof.Approve, by); err != nil {
			t.Fatal(err)
		}
	}
	edited := w.resume(res.ID, w.stepsFile(fmt.Sprintf(steps, "2"))) // both approvals were for the previous version
	if len(edited.Waits) != 1 || edited.Waits[0].Path != "ok" || w.Read("log") != "a\n" {
		t.Fatalf("after an edit: %+v, log %q", edited, w.Read("log"))
	}
	for _, by := range []string{"ann", "bob"} {
		if _, err := say("ok", proof.Approve, by); err != nil {
			t.Fatal(err)
		}
	}
	if edited = w.resume(res.ID, runner.FileOptions{}); len(edited.Waits) != 1 || edited.Waits[0].Path != "p" || w.Read("log") != "a\n" {
		t.Fatalf("after an edit: %+v, log %q", edited, w.Read("log"))
	}
	if said, err := say("p", proof.Reject, "eve"); err != nil || said.State != workflow.Rejected {
		t.Errorf("got %+v, %v", said, err)
	}
	res = w.resume(res.ID, runner.FileOptions{})
	if res.Report.Failed != 1 || !strings.Contains(res.Report.Worst[0].Detail, "rejected by eve: so") {
		t.Errorf("got %+v", res.Report)
	}
	if _, err := say("p", proof.Approve, "ann"); !errors.As(err, &refused) {
		t.Errorf("a yes without a request: %v", err)
	}
	if res = w.resume(res.ID, runner.FileOptions{}); len(res.Waits) != 1 { // a new request
		t.Fatalf("got %+v", res)
	}
	w.append(res.Dir, `{"step": "p", "decision": "approve", "by": "ann"}`, `{"step": "p", "decision": "approve", "by": "bob"}`) // by hand
	if res = w.resume(res.ID, runner.FileOptions{}); res.Report.Failure() != nil || w.Read("log") != "a\np2\n" {
		t.Errorf("got %+v, log %q", res.Report, w.Read("log"))
	}
}

// append adds lines to approvals.jsonl, as a person would.
func (w *world) append(dir string, lines ...string) {
	w.Helper()
	f, err := os.OpenFile(filepath.Join(dir, "approvals.jsonl"), os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err == nil {
		_, err = f.WriteString(strings.Join(lines, "\n") + "\n")
	}
	if err = errors.Join(err, f.Close()); err != nil {
		w.Fatal(err)
	}
}

// An approval that has expired does not count.
func TestStepApprovalExpires(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	w.Site.Config.Planning.ApprovalExpires = time.Hour
	res := w.runFile(w.stepsFile(`{"id": "ok", "type": "approval", "title": "Publish?"}`))
	if _, _, err := w.Site.Approvals().DecideStep(res.Dir, proof.Approval{Decision: proof.Approve, By: "ann"}); err != nil {
		t.Fatal(err)
	}
	w.Site.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
	if res = w.resume(res.ID, runner.FileOptions{}); len(res.Waits) != 1 {
		t.Errorf("got %+v", res)
	}
	w.Site.Now = time.Now // the approval has not expired by this clock
	if res = w.resume(res.ID, runner.FileOptions{}); len(res.Waits) != 0 || res.Report.Failure() != nil {
		t.Errorf("before that time: %+v", res)
	}
}

// If an agent or a chosen step is missing, that is reported before anything begins.
func TestFileCantRun(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	w.Site.Available = func(_ context.Context, name string) error {
		if name == "codex" {
			return flow.Fail(string(trellis.AgentMissing), "no codex")
		}
		return nil
	}
	o := w.stepsFile(`{"id": "s", "command": "echo s"}, {"id": "p", "prompt": "Do.", "agent": "codex", "verify": "test -d .git"}`)
	fail := (*flow.Failure)(nil)
	if _, err := w.Site.FileRunner().RunFile(context.Background(), o, nobody); !errors.As(err, &fail) || fail.Code != "agent_missing" {
		t.Errorf("got %v", err)
	}
	var refused *runner.RefusedError
	bad := o
	bad.Steps.From = "gone"
	if _, err := w.Site.FileRunner().RunFile(context.Background(), bad, nobody); !errors.As(err, &refused) || !strings.Contains(err.Error(), "--from-step gone: there is no step gone") {
		t.Errorf("got %v", err)
	}
	if list, _ := filepath.Glob(filepath.Join(w.Dir, ".trellis/.runtime/runs/*")); len(list) > 0 {
		t.Errorf("something was begun: %q", list)
	}
	o.Steps.Only = "s" // needs no agent
	if res := w.runFile(o); res.Report.Done != 1 {
		t.Errorf("got %+v", res)
	}
}

// If an agent fails, its step fails, and independent steps run. If the budget is used up, no further agent is called and the run is paused.
func TestFileAgentFails(t *testing.T) {
	w := newWorld(t, runnertest.Script{"implement": {{"fail": runnertest.Obj{"code": "agent_exit", "detail": "it crashed"}}}}.String())
	w.Site.Config.Limits.Attempts = 1
	const steps = `{"id": "p", "prompt": "Do.", "verify": "test -d .git"}, {"id": "q", "command": "echo q"}, {"id": "free", "command": "echo free", "depends_on": []}`
	res := w.runFile(w.stepsFile(steps))
	if res.Failure != nil || res.Report.Failed != 1 || res.Report.Blocked != 1 || res.Report.Done != 1 || !strings.Contains(res.Report.Worst[0].Detail, "it crashed") {
		t.Errorf("got %+v", res)
	}
	w = newWorld(t, runnertest.Script{"implement": {{"sleep": "700ms", "answer": "done"}}}.String())
	w.Site.Config.Limits.Seconds, w.Site.Config.Limits.Attempts = 1, 1
	const prompt = `{"id": "%s", "prompt": "Do.", "verify": "test -d .git", "depends_on": []}`
	res = w.runFile(w.stepsFile(fmt.Sprintf(prompt+","+prompt+","+prompt+`, {"id": "free", "command": "echo free", "depends_on": []}`, "a", "b", "c")))
	if res.Failure == nil || res.Failure.Code != string(trellis.BudgetTime) || res.Usage.Seconds < 0.7 {
		t.Errorf("got %+v", res)
	}
	stands, err := status.ReadRun(res.Dir, time.Now())
	if err != nil || stands.Status != status.RunPaused || stands.Failure.Code != trellis.BudgetTime {
		t.Errorf("got %+v, %v: without a budget a run is paused, as its exit code says", stands, err)
	}
}

// A run that one process works on can't be resumed by another.
func TestFileIsHeld(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	o := w.stepsFile(`{"id": "a", "command": "while ! test -e go; do sleep 0.02; done"}`)
	began := make(chan runner.FileRun)
	done := make(chan error)
	go func() {
		_, err := w.Site.FileRunner().RunFile(context.Background(), o, func(r runner.FileRun, _ []workflow.Event) { began <- r })
		done <- err
	}()
	_, err := w.Site.FileRunner().ResumeFile(context.Background(), (<-began).ID, runner.FileOptions{Steps: workflow.Options{Dir: w.Dir}}, nobody)
	if !errors.Is(err, durable.ErrHeld) {
		t.Errorf("got %v", err)
	}
	w.Write("go", "")
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// An interrupt ends what runs, and nothing else begins. A resume continues there.
func TestFileIsInterrupted(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	ctx, cancel := context.WithCancel(context.Background())
	w.Site.Event = func(e runner.Event) {
		if e.Step != nil && e.Step.Type == workflow.StepStarted && e.Step.Step == "b" {
			cancel()
		}
	}
	res, err := w.Site.FileRunner().RunFile(ctx, w.stepsFile(`{"id": "a", "command": "echo a >> log"}, {"id": "b", "command": "test -e go || sleep 3000; echo b >> log", "continue_on_error": true}, {"id": "c", "command": "echo c >> log"}`), nobody)
	if err != nil || !res.Interrupted || w.Read("log") != "a\n" {
		t.Fatalf("got %+v, %v", res, err)
	}
	w.Write("go", "")
	if res = w.resume(res.ID, runner.FileOptions{}); res.Report.Done != 3 || res.Input.Number != 1 || w.Read("log") != "a\nb\nc\n" {
		t.Errorf("got %+v, log %q", res, w.Read("log"))
	}
}

// VerifyFile checks the proofs of a run again, and finds changes to the proofs and to their output.
func TestVerifyFile(t *testing.T) {
	w := newWorld(t, "roles: {}\n")
	w.Write("inner.json", `{"schema_version": 1, "title": "i", "steps": [{"id": "x", "command": "echo x", "verify": "test -d .git"}]}`)
	res := w.runFile(w.stepsFile(`{"id": "t", "command": "echo fine; test -d .git", "proof": {"type": "test"}}, {"id": "l", "repeat": 2, "steps": [{"id": "i", "repeat": 2, "as": "n", "command": "echo {{n}}", "verify": "test -d .git"}]}, {"id": "c", "workflow": "inner.json"}`))
	if res.Proven != 3 || res.Checks != 3 {
		t.Fatalf("got %+v", res)
	}
	audit, err := runner.VerifyFile(res.Dir)
	if err != nil || !audit.OK() || audit.Overall == "" || audit.Overall != res.Report.Head || len(audit.Records) != 7 || audit.NotRechecked != 0 {
		t.Fatalf("got %+v, %v", audit, err)
	}
	proofs := filepath.Join(res.Dir, "proofs.jsonl")
	whole, err := os.ReadFile(proofs)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for name, text := range map[string]string{"a byte": strings.Replace(string(whole), `"exit":0`, `"exit":1`, 1), "a line": strings.Join(lines[1:], ""), "the end": strings.Join(lines[:3], "")} {
		if err := os.WriteFile(proofs, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if audit, err := runner.VerifyFile(res.Dir); err != nil || audit.OK() {
			t.Errorf("%s: got %+v, %v", name, audit, err)
		}
	}
	if err := os.WriteFile(proofs, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	w.Write(".trellis/.runtime/runs/"+res.ID+"/run/1/step-t/script#1/stdout", "changed\n")
	if audit, err := runner.VerifyFile(res.Dir); err != nil || len(audit.Findings) != 1 || audit.Findings[0].Fault != proof.Changed {
		t.Errorf("got %+v, %v", audit, err)
	}
}

// VerifyTask checks the proofs of a task again, with the current plan and branch.
func TestVerifyTask(t *testing.T) {
	w := newWorld(t, runnertest.Stepping(runnertest.Obj{"files": runnertest.Obj{"greet.sh": runnertest.Bye}, "answer": "done"}).String())
	dir := w.Stepped("02-01-bye", runnertest.AddFlag, runnertest.Note, runTests)
	audit := func() *proof.Report {
		t.Helper()
		audit, err := runner.VerifyTask(context.Background(), w.Site.Store, w.Site.Repo.Refs(), dir)
		if err != nil {
			t.Fatal(err)
		}
		return audit
	}
	if a := audit(); !a.OK() || a.Overall != "" || len(a.Unproven) != 2 {
		t.Errorf("before it runs: %+v", a)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if a := audit(); !a.OK() || a.Overall == "" || len(a.Proven) != 2 || a.NotRechecked != 0 {
		t.Fatalf("after it was delivered: %+v", a)
	}
	fault := func(what string, want proof.Fault, words string) {
		t.Helper()
		a := audit()
		if a.OK() || a.Overall != "" || !slices.ContainsFunc(a.Findings, func(f proof.Finding) bool { return f.Fault == want && strings.Contains(f.Message, words) }) {
			t.Errorf("%s: got %+v", what, a.Findings)
		}
	}
	whole := w.File(dir, "plan.json")
	w.Write(".trellis/tasks/02-01-bye/plan.json", strings.Replace(whole, "NOTES", "NEWS", 1))
	fault("the plan was edited", proof.Stale, "the plan was edited")
	w.Write(".trellis/tasks/02-01-bye/plan.json", "{")
	fault("the plan can't be read", proof.Stale, "the plan was edited")
	w.Write(".trellis/tasks/02-01-bye/plan.json", whole)
	tip := w.Git("rev-parse", "feature/bye")
	w.Git("update-ref", "refs/heads/feature/bye", w.Git("commit-tree", "main^{tree}", "-p", tip, "-m", "moved"))
	fault("the branch moved", proof.Stale, "the branch moved")
	w.Git("update-ref", "refs/heads/feature/bye", w.Git("commit-tree", tip+"^{tree}", "-p", tip, "-m", "the same tree"))
	if a := audit(); !a.OK() {
		t.Errorf("another commit of the same tree: %+v", a.Findings)
	}
	if err := os.RemoveAll(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	if a := audit(); !a.OK() || a.NotRechecked == 0 {
		t.Errorf("without run/: %+v", a)
	}
}

// childFile is set in a child that runs steps.json and dies at a step of its journal.
const childFile = "TRELLIS_TEST_FILE"

func childRun(site *runner.Site) int {
	dir := os.Getenv(runnertest.ChildDir)
	b, problems := plan.Load(plan.LoadOptions{File: "steps.json", Read: func(path string) ([]byte, error) { return os.ReadFile(filepath.Join(dir, path)) }})
	if b == nil {
		fmt.Fprintln(os.Stderr, problems)
		return 2
	}
	o := runner.FileOptions{File: filepath.Join(dir, "steps.json"), Bundle: b, Steps: workflow.Options{Dir: dir, FailFast: os.Getenv(childFile) == "fails fast"}}
	ids, err := filepath.Glob(filepath.Join(dir, ".trellis/.runtime/runs/*/run/journal.jsonl"))
	var res runner.FileRun
	if err == nil && len(ids) > 0 {
		err = durable.ErrHeld
		for end := time.Now().Add(runnertest.Hang); errors.Is(err, durable.ErrHeld) && time.Now().Before(end); time.Sleep(5 * time.Millisecond) { // a shell that was forked just before its parent was killed has the lock until it begins
			res, err = site.FileRunner().ResumeFile(context.Background(), filepath.Base(filepath.Dir(filepath.Dir(ids[0]))), runner.FileOptions{Steps: workflow.Options{Dir: dir}}, nobody)
		}
	} else if err == nil {
		res, err = site.FileRunner().RunFile(context.Background(), o, nobody)
	}
	if err != nil || (res.Report.Failure() != nil) != o.Steps.FailFast {
		fmt.Fprintln(os.Stderr, res, err)
		return 1
	}
	return 0
}

func (w *world) fileChild(how string, kill int) (killed bool, steps int) {
	w.Helper()
	log := filepath.Join(w.Dir, "..", "steps.log")
	os.Remove(log)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), runnertest.ChildDir+"="+w.Dir, childFile+"="+how, runnertest.ChildKill+"="+strconv.Itoa(kill), runnertest.ChildLog+"="+log, "GORACE=atexit_sleep_ms=0",
		"GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return true, 0
	}
	if err != nil {
		w.Fatalf("kill %d: %v\n%s", kill, err, out)
	}
	data, err := os.ReadFile(log)
	if err != nil {
		w.Fatal(err)
	}
	return false, strings.Count(string(data), "\n")
}

// If a run of steps is killed at any step of its journal and resumed, each step runs once, except those that were interrupted, and is
// proven once.
func TestKillFileAtEveryRecord(t *testing.T) {
	const file = `{"id": "a", "command": "echo a >> log", "verify": "grep -q a log"},
		{"id": "l", "for_each": "echo x; echo y", "concurrency": 2, "steps": [{"id": "one", "command": "echo one-{{item}} >> log"}, {"id": "two", "command": "echo two-{{item}} >> log", "verify": "grep -q two-{{item}} log"}]},
		{"id": "g", "parallel": true, "steps": [{"id": "p", "prompt": "Write it.", "verify": "test -e made"}, {"id": "q", "command": "echo q >> log", "depends_on": []}]},
		{"id": "z", "command": "echo z >> log"}`
	played := runnertest.Script{"implement": {{"files": runnertest.Obj{"made": "x"}, "run": []string{"echo p >> log"}, "answer": "done"}}}.String()
	want := "a g-p one-x one-y q two-x two-y z"
	run := func(kill int) (bool, int, *world) {
		w := newWorld(t, played)
		w.stepsFile(file)
		killed, steps := w.fileChild("whole", kill)
		return killed, steps, w
	}
	_, steps, _ := run(0)
	if steps < 60 {
		t.Fatalf("an undisturbed run has %d steps", steps)
	}
	every := soak.Every(41) // so that each of the three steps of a record is tried
	kills := 0
	for at := 1; at <= steps; at++ {
		if (at-1)%every > 0 && (at <= steps-8 || at%2 > 0 && !soak.Asked()) { // the last steps seal the proofs and end the run
			continue
		}
		killed, _, w := run(at)
		if killed {
			kills++
			w.fileChild("whole", 0)
		}
		lines := strings.Fields(strings.ReplaceAll(w.Read("log"), "p\n", "g-p\n"))
		slices.Sort(lines)
		if got := strings.Join(slices.Compact(slices.Clone(lines)), " "); got != want || len(lines) > len(strings.Fields(want))+2 { // two rounds run at the same time
			t.Errorf("kill %d: log %q", at, lines)
		}
		ids, err := filepath.Glob(filepath.Join(w.Dir, ".trellis/.runtime/runs/*/run/journal.jsonl"))
		if err != nil || len(ids) != 1 {
			t.Fatalf("kill %d: the runs are %q, %v", at, ids, err)
		}
		audit, err := runner.VerifyFile(filepath.Dir(filepath.Dir(ids[0])))
		if err != nil || !audit.OK() || audit.Overall == "" || len(audit.Records) != 5 {
			t.Errorf("kill %d: got %+v, %v", at, audit, err)
		}
	}
	t.Logf("%d kills of a run of %d steps", kills, steps)
}

// In a run with fail-fast, no step begins after the first failure, even if the run is killed at any step and resumed.
func TestKillRunThatFailsFast(t *testing.T) {
	soak.Only(t, "TestKillFileAtEveryRecord")
	for at := 1; ; at += soak.Every(5) {
		w := newWorld(t, "roles: {}\n")
		w.stepsFile(`{"id": "a", "command": "exit 3"}, {"id": "b", "command": "echo b >> log", "depends_on": []}`)
		killed, _ := w.fileChild("fails fast", at)
		if killed {
			ids, err := filepath.Glob(filepath.Join(w.Dir, ".trellis/.runtime/runs/*/run/journal.jsonl"))
			if err == nil && len(ids) == 1 { // otherwise it was killed before it began
				w.fileChild("fails fast", 0)
			}
		}
		if _, err := os.Stat(filepath.Join(w.Dir, "log")); err == nil {
			t.Errorf("kill %d: b was run", at)
		}
		if !killed {
			t.Logf("kills at every %d. of %d steps", soak.Every(5), at)
			return
		}
	}
}

// The input of a run stays small even if many steps were finished before.
func TestManyFinishedSteps(t *testing.T) {
	soak.Only(t, "TestFileIsResumed")
	w := newWorld(t, "roles: {}\n")
	res := w.runFile(w.stepsFile(`{"id": "l", "repeat": 200, "concurrency": 4, "command": "true"}, {"id": "f", "command": "test -e go"}`))
	if res.Report.Failed != 1 {
		t.Fatalf("got %+v", res)
	}
	w.Write("go", "")
	if res = w.resume(res.ID, runner.FileOptions{}); res.Report.Failure() != nil || res.Report.Done != 2 {
		t.Errorf("got %+v", res.Report)
	}
	raw, err := json.Marshal(res.Input)
	if err != nil || len(raw) > 2000 {
		t.Errorf("the input has %d bytes, %v", len(raw), err)
	}
}
