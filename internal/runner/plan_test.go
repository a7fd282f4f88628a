package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const rejecting = `
roles:
  evaluate:
    - when: "It is in scope"
      answer: {decision: accept, category: "", details: fine, suggestions: [], size: tiny, confidence: 0.9}
    - answer: {decision: reject, category: out_of_scope, details: "no payments here", suggestions: ["ask the shop's team"], size: small, confidence: 0.8}
`

// A rejection is recorded in REJECTED.md and task.json. Planning with feedback keeps it as REJECTED-1.md.
func TestRejection(t *testing.T) {
	t.Parallel()
	w := newWorld(t, rejecting+runnertest.Working[strings.Index(runnertest.Working, "  research:"):])
	res, err := w.Plan("pay", "take 'payments'")
	if err != nil || res.Status != trellis.Rejected || res.Failure != nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	rel := ".trellis/tasks/" + filepath.Base(res.Dir) + "/"
	page := w.Read(rel + "REJECTED.md")
	for _, want := range []string{"# Plan Rejected", "Out of Scope for This Project", "no payments here", "- ask the shop's team",
		"trellis plan --retry " + strings.TrimSuffix(rel, "/") + " --requirement '<revised requirement>'", "trellis task rm " + strings.TrimSuffix(rel, "/"), "trellis plan --name pay --type backend"} {
		if !strings.Contains(page, want) {
			t.Errorf("REJECTED.md lacks %q:\n%s", want, page)
		}
	}
	task := w.Task(res.Dir)
	if r := task.Pipeline.Rejection; r.Category != "out_of_scope" || len(r.Suggestions) != 1 || task.Pipeline.Outcome != trellis.OutcomeReject {
		t.Errorf("task.json says %+v", task.Pipeline)
	}
	if log := w.Read(rel + ".plan-log"); !strings.Contains(log, "evaluate_finished") || !strings.Contains(log, "decision=reject") {
		t.Errorf(".plan-log is %s", log)
	}
	again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Feedback: "It is in scope: see docs."})
	if err != nil || again.Status != trellis.Ready {
		t.Fatalf("again: %+v, %v", again, err)
	}
	if w.Read(rel+"REJECTED-1.md") != page {
		t.Error("the rejection was not kept")
	}
	if got := w.Read(rel + "requirement.md"); got != "take 'payments'" {
		t.Errorf("requirement.md is %q", got)
	}
	if log := w.Read(rel + ".plan-log"); strings.Count(log, "plan_started") != 2 {
		t.Errorf(".plan-log is %s", log)
	}
	if res := w.Start(again.Dir); res.Status != trellis.Review {
		t.Errorf("the task ended %s, %v", res.Status, res.Failure)
	}
}

// An invalid answer is sent back once with its mistakes. If it stays invalid, the planning fails and the task is not rejected.
func TestInvalidAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		evaluate string
		ready    bool
	}{
		"mended":                  {"[{when: \"/size\", answer: {decision: accept, size: tiny, category: \"\", details: ok, suggestions: [], confidence: 1}}, {answer: {decision: accept, size: huge}}]", true},
		"never mended":            {"[{answer: {decision: accept, size: huge}}]", false},
		"prose":                   {"[{answer: \"I think it is fine.\"}]", false},
		"reject without a reason": {"[{answer: {decision: reject}}]", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, "roles:\n  evaluate: "+c.evaluate+"\n"+runnertest.Working[strings.Index(runnertest.Working, "  research:"):])
			res, err := w.Plan("bye", "say bye")
			if err != nil {
				t.Fatal(err)
			}
			if c.ready {
				if res.Status != trellis.Ready || res.Report.Calls != 4 {
					t.Errorf("got %s, %v after %d calls", res.Status, res.Failure, res.Report.Calls)
				}
				return
			}
			if res.Failure == nil || res.Failure.Code != string(trellis.AgentProtocol) || res.Status != trellis.Planning {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
			if got := w.Task(res.Dir).Pipeline.Failure.Code; got != trellis.AgentProtocol {
				t.Errorf("task.json says %q", got)
			}
		})
	}
}

// Paths in research that don't exist or lead outside, and commands that can't run or can't fail, are left out. Paths and missing programs
// are reported.
func TestResearchIsGrounded(t *testing.T) {
	t.Parallel()
	script := strings.Replace(runnertest.Working, "        - path: greet.sh, reason: the program\n", "        - path: greet.sh, reason: the program\n        - path: missing.go, reason: x\n        - path: ../secret, reason: y\n", 1)
	script = strings.Replace(script, "        - test: sh test.sh\n", "        - test: sh test.sh\n        - lint: no-such-linter .\n        - build: \"true\"\n", 1)
	w := newWorld(t, script)
	res, err := w.Plan("bye", "say bye")
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	warned := strings.Join(res.Report.Warnings, "\n")
	for _, want := range []string{"missing.go", "../secret", "no-such-linter"} {
		if !strings.Contains(warned, want) {
			t.Errorf("no warning names %s: %s", want, warned)
		}
	}
	if got := res.Report.Commands; len(got) != 1 || got[0] != "sh test.sh" {
		t.Errorf("got commands %q", got)
	}
	rel := ".trellis/tasks/" + filepath.Base(res.Dir) + "/"
	if rows := w.Read(rel + "implement.jsonl"); strings.Contains(rows, "missing.go") || !strings.Contains(rows, "greet.sh") || !strings.Contains(rows, ".trellis/workflow.md") {
		t.Errorf("implement.jsonl is %s", rows)
	}
	if rows := w.Read(rel + "debug.jsonl"); rows == "" {
		t.Error("debug.jsonl is empty")
	}
}

// One process plans a name at a time, and a task with that name on that day is not overwritten.
func TestNamesAreTakenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	if _, err := w.Plan("bye", "say bye"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Plan("bye", "say bye again"); !errors.Is(err, taskdir.ErrExists) {
		t.Errorf("got %v", err)
	}
	draft, err := w.Site.PlanRunner().Draft(runner.PlanOptions{New: taskdir.New{Name: "hi", DevType: "backend"}, Requirement: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	var left *runner.DraftError
	if _, err := w.Plan("hi", "hi"); !errors.As(err, &left) || !strings.Contains(left.Dir, ".new-") {
		t.Errorf("a dead planner's folder: got %v", err)
	}
	if err := w.Site.Store.Disk.MkdirAll(filepath.Join(draft, taskdir.Run), 0o700); err != nil {
		t.Fatal(err)
	}
	lock, err := durable.TryLock(filepath.Join(draft, taskdir.RunLock), durable.Holder{PID: 4711})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if _, err := w.Plan("hi", "hi"); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("a living planner: got %v", err)
	}
}

// If the name is taken while the task is planned, the planning ends with a hint, and can be completed once the name is free.
func TestNameIsTakenMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	draft, err := w.Site.PlanRunner().Draft(runner.PlanOptions{New: taskdir.New{Name: "hi", DevType: "backend"}, Requirement: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(filepath.Dir(draft), strings.TrimPrefix(filepath.Base(draft), taskdir.DraftPrefix))
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	var refused *runner.RefusedError
	if _, err := w.Site.PlanRunner().Replan(context.Background(), draft, runner.PlanOptions{}); !errors.As(err, &refused) || !strings.HasSuffix(refused.Hint, "trellis plan --retry "+filepath.Base(draft)) {
		t.Fatalf("got %v, want what to type", err)
	}
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	if res, err := w.Site.PlanRunner().Replan(context.Background(), draft, runner.PlanOptions{}); err != nil || res.Status != trellis.Ready {
		t.Errorf("got %+v, %v", res, err)
	}
}

// If planning again is interrupted at a write before or at its begin, the task stays rejected, and planning can be repeated.
func TestReplanIsCutOffAtTheBegin(t *testing.T) {
	t.Parallel()
	for _, file := range soak.Of([]string{"requirement.md", "REJECTED.md", "journal.jsonl", "task.json"}, "journal.jsonl", "task.json") {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, rejecting+runnertest.Working[strings.Index(runnertest.Working, "  research:"):])
			res, err := w.Plan("pay", "take payments")
			if err != nil || res.Status != trellis.Rejected {
				t.Fatalf("got %+v, %v", res, err)
			}
			cut := errors.New("the power is gone")
			disk := &durable.Disk{Fault: func(_, path string) error {
				if base := filepath.Base(path); base == file || strings.Contains(base, strings.TrimSuffix(file, ".md")+"-") {
					return cut
				}
				return nil
			}}
			w.Site.Disk, w.Site.Store.Disk = disk, disk
			o := runner.PlanOptions{Requirement: "It is in scope: take payments"}
			if _, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, o); !errors.Is(err, cut) {
				t.Fatalf("got %v", err)
			}
			w.Site.Disk, w.Site.Store.Disk = nil, nil
			if got := w.Task(res.Dir).Status; got != trellis.Rejected {
				t.Errorf("it is %s", got)
			}
			if file == "task.json" { // everything else is done
				o = runner.PlanOptions{}
			}
			again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, o)
			if err != nil || again.Status != trellis.Ready {
				t.Errorf("again: %+v, %v", again, err)
			}
			if task := w.Task(res.Dir); task.Pipeline.Outcome != "" || task.Pipeline.Rejection.Category != "" {
				t.Errorf("task.json says %+v", task.Pipeline)
			}
			w.Read(".trellis/tasks/" + filepath.Base(res.Dir) + "/REJECTED-1.md")
		})
	}
}

// If an interrupted planning is repeated with other options, another planning begins with these.
func TestReplanWithOtherOptions(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	draft, err := w.Site.PlanRunner().Draft(runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	said := w.Site.Event
	w.Site.Event = func(e runner.Event) { cancel() }
	if res, err := w.Site.PlanRunner().Replan(ctx, draft, runner.PlanOptions{}); err != nil || !res.Interrupted {
		t.Fatalf("got %+v, %v", res, err)
	}
	w.Site.Event = said
	res, err := w.Site.PlanRunner().Replan(context.Background(), draft, runner.PlanOptions{Verify: []string{"sh test.sh"}})
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	if got := w.Task(res.Dir).Pipeline.Verify; len(got) != 1 || got[0] != "sh test.sh" {
		t.Errorf("task.json says verify %q", got)
	}
}

// An interrupted planning is resumed with its agent, whether that agent is named again or not.
func TestReplanWithTheSameAgent(t *testing.T) {
	t.Parallel()
	for _, again := range []string{"", "rehearsal"} {
		w := newWorld(t, runnertest.Working)
		asked := w.Site.Available
		w.Site.Available = func(ctx context.Context, agent string) error {
			if agent != "rehearsal" {
				t.Errorf("asked for %q", agent)
			}
			return asked(ctx, agent)
		}
		w.Site.Config.Agents.Default = "nobody"
		ctx, cancel := context.WithCancel(t.Context())
		said := w.Site.Event
		w.Site.Event = func(e runner.Event) { cancel() }
		o := runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye", Agent: "rehearsal"}
		res, err := w.Site.PlanRunner().Plan(ctx, o)
		if err != nil || !res.Interrupted {
			t.Fatalf("got %+v, %v", res, err)
		}
		w.Site.Event = said
		if res, err = w.Site.PlanRunner().Replan(t.Context(), res.Dir, runner.PlanOptions{Agent: again}); err != nil || res.Status != trellis.Ready {
			t.Fatalf("again with %q: got %+v, %v", again, res, err)
		}
		if h, err := journal.Read(filepath.Join(res.Dir, taskdir.Run)); err != nil || h.Number != 1 {
			t.Errorf("again with %q: it is the planning number %d, %v", again, h.Number, err)
		}
	}
}

// A revised requirement replaces the previous one, which is kept.
func TestReplanKeepsTheRequirement(t *testing.T) {
	w := newWorld(t, rejecting)
	res, err := w.Plan("pay", "take payments")
	for _, next := range []string{"take euros", "take euros", "take coins"} {
		if err != nil || res.Status != trellis.Rejected {
			t.Fatalf("got %+v, %v", res, err)
		}
		res, err = w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Requirement: next})
	}
	for name, want := range map[string]string{"requirement.md": "take coins", "requirement-1.md": "take payments", "requirement-2.md": "take euros"} {
		if got := w.File(res.Dir, name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	none(w, res.Dir, "requirement-3.md")
}

// A planning that failed is repeated with its options. After one that ended well, the next begins with the settings.
func TestReplanAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("large").With("prd", runnertest.Answer("no"), runnertest.Answer("no"), runnertest.Careful("large")["prd"][0]).String())
	o := runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye", Agent: "rehearsal", Quick: true, NoTaskSpec: true}
	res, err := w.Site.PlanRunner().Plan(context.Background(), o)
	if err != nil || res.Failure == nil {
		t.Fatalf("got %+v, %v", res, err)
	}
	for _, want := range []string{"prd", "plan"} {
		if res, err = w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Feedback: "about " + want}); err != nil || res.Status != trellis.Waiting {
			t.Fatalf("%s: got %+v, %v", want, res, err)
		}
		if _, err := os.Stat(filepath.Join(res.Dir, taskdir.Plan)); (err == nil) != (want == "plan") {
			t.Errorf("after %s there is plan.json: %v", want, err)
		}
	}
	h, err := journal.Read(filepath.Join(res.Dir, taskdir.Run))
	if err != nil || !strings.Contains(string(h.Input), "about plan") || strings.Contains(string(h.Input), "rehearsal") {
		t.Errorf("the last planning began with %s, %v", h.Input, err)
	}
}

// The TaskSpec sets the priority of a task that has none, also if the draft was made before.
func TestPriorityOfAReplan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	for said, want := range map[string]string{"": "P1", "P0": "P0"} {
		draft, err := w.Site.PlanRunner().Draft(runner.PlanOptions{New: taskdir.New{Name: "bye" + strings.ToLower(said), DevType: "backend", Priority: said}, Requirement: "say bye"})
		if err != nil {
			t.Fatal(err)
		}
		res, err := w.Site.PlanRunner().Replan(context.Background(), draft, runner.PlanOptions{})
		if err != nil || w.Task(res.Dir).Priority != want {
			t.Errorf("%q: got %+v, %v, want priority %s", said, res, err, want)
		}
	}
}
