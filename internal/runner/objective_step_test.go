package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// settle updates the roadmap to the state of the tasks.
func (w *world) settle() runner.Advance {
	w.Helper()
	works, err := roadmap.ReadStepTasks(w.Site.Store, false)
	if err != nil {
		w.Fatal(err)
	}
	a, err := w.Site.Objectives().Advance(context.Background(), "farewells", works, false)
	if err != nil {
		w.Fatal(err)
	}
	return a
}

func TestPlanStep(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Short)
	res := w.MustPlan("")
	if res.Task != runnertest.Today("first") || res.Known || res.Status != trellis.Ready || res.Step.ID != "1" || res.Dir != filepath.Join(w.Site.Store.Tasks(), res.Task) {
		t.Fatalf("got %+v", res)
	}
	w.SameRoad(strings.Replace(runnertest.Short, "| First | | | |", "| First | | | plan "+res.Task+" |", 1))
	task := w.Task(res.Dir)
	if task.Title != "Say bye" || task.DevType != "" || task.Pipeline.Objective != (taskdir.Objective{Name: "farewells", Step: "1"}) {
		t.Errorf("task %+v", task)
	}
	if got := w.File(res.Dir, "requirement.md"); !strings.HasPrefix(got, "Step 1 of the objective \"Short\": First\n") || !strings.Contains(got, runnertest.Short) {
		t.Errorf("the requirement is\n%s", got)
	}
	for role, call := range map[string]string{"evaluate": "evaluate/evaluate#1", "research": "research/research#1", "prd": "prd#1"} {
		w.holds(role, w.prompt(res.Dir, call), "| 2 | Second |")
	}
	before := w.Read(runnertest.RoadFile)
	again := w.MustPlan("1")
	if !again.Known || again.Task != res.Task || w.Read(runnertest.RoadFile) != before {
		t.Errorf("again: %+v\n%s", again, w.Read(runnertest.RoadFile))
	}
	if res := w.MustPlan(""); res.Step.ID != "3" { // 2 waits for 1
		t.Errorf("next: %+v", res)
	}
	var not *runner.StepError
	if _, err := w.PlanStep(""); !errors.As(err, &not) || not.Code != roadmap.Waiting || !strings.Contains(not.Why, runnertest.Today("first")) {
		t.Errorf("nothing is left: %v", err)
	}
	if res := w.MustPlan("2"); strings.Join(w.Task(res.Dir).Pipeline.DependsOn, " ") != runnertest.Today("first") { // a person may plan it
		t.Errorf("2 depends on %q", w.Task(res.Dir).Pipeline.DependsOn)
	}
}

// A missing link to a task is added, and an interrupted planning is resumed, by the next command.
func TestStepIsKnown(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Short)
	res := w.MustPlan("1")
	linked := w.Read(runnertest.RoadFile)
	w.Write(runnertest.RoadFile, runnertest.Short)
	w.settle()
	w.SameRoad(linked)
	if err := os.Remove(filepath.Join(res.Dir, "run", "objective.json")); err != nil {
		t.Fatal(err)
	}
	w.Write(runnertest.RoadFile, runnertest.Short)
	if again := w.MustPlan("1"); !again.Known || again.Task != res.Task {
		t.Errorf("again: %+v", again)
	}
	w.SameRoad(linked)

	draft, err := w.Site.Store.Draft(taskdir.New{Name: "beside", Title: "Step 3: Beside", Objective: taskdir.Objective{Name: "farewells", Step: "3"},
		Files: map[string][]byte{taskdir.Requirement: []byte("Beside")}})
	if err != nil {
		t.Fatal(err)
	}
	if res := w.MustPlan("3"); res.Known || "."+"new-"+res.Task != filepath.Base(draft) || res.Status != trellis.Ready {
		t.Errorf("gone on with: %+v", res)
	}
	if got := len(w.Tasks()); got != 2 {
		t.Errorf("%d tasks", got)
	}
}

// A step that can't be planned is reported with the reason, and nothing is made.
func TestStepIsNotPlanned(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, step, want string }{
		"not yet":      {runnertest.Short, "2", "it depends on step 1, which is pending"},
		"done":         {strings.Replace(runnertest.Short, "| First | | | |", "| First | | | #7 |", 1), "1", "it is done"},
		"blocked":      {strings.Replace(runnertest.Short, "todo", "blocked", 1), "3", "it is blocked"},
		"another plan": {strings.Replace(runnertest.Short, "| todo | |", "| | plan other |", 1), "3", "its cell says plan other"},
		"no task":      {strings.Replace(runnertest.Short, "| todo | |", "| | plan other |", 1), "3", "plan other, which is not a task: empty the cell"},
		"behind none":  {strings.Replace(runnertest.Short, "| First | | | |", "| First | | | plan gone |", 1), "2", "step 1, which is planned as gone, and there is no such task"},
		"no step":      {runnertest.Short, "9", "no such step: 9"},
		"complete":     {strings.NewReplacer("| First | | | |", "| First | | | #1 |", "| Second | | | |", "| Second | | | #2 |", "todo", "done").Replace(runnertest.Short), "", "(complete)"},
		"no PR column": {"| Step | Description | Status |\n| --- | --- | --- |\n| 1 | First | |\n", "1", "no PR column"},
		"broken":       {runnertest.Short + "| 1 | Again | | | |\n", "1", "step 1 appears 2 times"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newRoad(t, runnertest.Roadwork(), c.text)
			if _, err := w.PlanStep(c.step); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			w.SameRoad(c.text)
			if got := w.Tasks(); len(got) != 0 {
				t.Errorf("tasks %q", got)
			}
		})
	}
}

// Options for the planning of a step apply to its task. A cell that names another task stays.
func TestStepAsAskedFor(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Short)
	w.Site.Available = func(_ context.Context, name string) error {
		if name == agents.Rehearsal {
			return nil
		}
		return errors.New("there is no " + name)
	}
	o := runner.StepOptions{Step: "1", DevType: "backend", Agent: "nobody"}
	if _, err := w.Site.Objectives().PlanStep(context.Background(), "farewells", o); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("planned by nobody: %v", err)
	}
	o.Agent = agents.Rehearsal
	first, err := w.Site.Objectives().PlanStep(context.Background(), "farewells", o)
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Task(first.Dir).DevType; got != "backend" {
		t.Errorf("type %q", got)
	}
	if again, err := w.Site.Objectives().PlanStep(context.Background(), "farewells", o); err != nil || !again.Known {
		t.Errorf("again: %+v, %v", again, err)
	}
	o.DevType = "docs"
	if _, err := w.Site.Objectives().PlanStep(context.Background(), "farewells", o); err == nil || !strings.Contains(err.Error(), first.Task+" already, of type backend") {
		t.Errorf("another type: %v", err)
	}

	beside := w.MustPlan("3")
	w.Write(runnertest.RoadFile, strings.ReplaceAll(w.Read(runnertest.RoadFile), "plan "+first.Task, "plan "+beside.Task))
	before := w.Read(runnertest.RoadFile)
	if _, err := w.PlanStep("1"); !errors.Is(err, runner.ErrOtherPlan) || !strings.Contains(err.Error(), "plan "+beside.Task) {
		t.Errorf("the cell names another's task: %v", err)
	}
	w.SameRoad(before)
}

// If several processes plan the same step at the same time, one does. The others report that, or find the plan.
func TestStepIsPlannedOnce(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Short)
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			res, err := w.PlanStep("1")
			if err != nil && !errors.Is(err, durable.ErrHeld) || err == nil && res.Task != runnertest.Today("first") {
				t.Errorf("%+v, %v", res, err)
			}
		})
	}
	group.Wait()
	if got := w.Tasks(); len(got) != 1 {
		t.Errorf("tasks %q", got)
	}
	w.WantRow("1", "| 1 | First | | | plan "+runnertest.Today("first")+" |")
}

// A step that another process plans is left to it: the next free step is planned, and reconcile does not report an error.
func TestStepIsBeingPlanned(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Short)
	claim, err := roadmap.Store{Root: w.Dir, Disk: w.Site.Disk, Holder: durable.Holder{PID: 7}}.Claim("farewells", "1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.PlanStep("1")
	if busy := (*runner.BusyError)(nil); !errors.As(err, &busy) || !errors.Is(err, durable.ErrHeld) || busy.Error() != "step 1 of farewells is being planned by process 7" {
		t.Errorf("got %v", err)
	}
	list, err := w.Site.Objectives().Reconcile(context.Background(), runner.ReconcileOptions{Names: []string{"farewells"}})
	if err != nil || list[0].Err != nil || len(list[0].Busy) != 1 || list[0].Busy[0].Step != "1" || len(list[0].Planned) > 0 {
		t.Errorf("reconciled: %+v, %v", list, err)
	}
	if res := w.MustPlan(""); res.Step.ID != "3" {
		t.Errorf("planned: %+v", res)
	}
	if _, err := w.PlanStep(""); !errors.Is(err, durable.ErrHeld) {
		t.Errorf("nothing is free: %v", err)
	}
	claim.Unlock()
	if res := w.MustPlan(""); res.Step.ID != "1" {
		t.Errorf("free again: %+v", res)
	}
}

// If the planning of a step can't begin, no task is reported as planned.
func TestStepThatNobodyCanPlan(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Short)
	w.Site.Available = func(context.Context, string) error { return flow.Fail(string(trellis.AgentMissing), "no such program") }
	list, err := w.Site.Objectives().Reconcile(context.Background(), runner.ReconcileOptions{Names: []string{"farewells"}})
	if err != nil || list[0].Err == nil || len(list[0].Planned) > 0 {
		t.Errorf("reconciled: %+v, %v", list, err)
	}
}

// If the name for a step's task is taken, the task gets a number.
func TestNameOfAStep(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), strings.Replace(runnertest.Short, "| Beside |", "| First |", 1))
	w.MustPlan("1")
	if res := w.MustPlan("3"); res.Task != runnertest.Today("first-2") || w.Task(res.Dir).Branch != "feature/first-2" {
		t.Errorf("got %+v", res)
	}
}

// A plan with an empty title is named after its step.
func TestTitleOfAStep(t *testing.T) {
	t.Parallel()
	s := runnertest.Roadwork()
	s["prd"] = []runnertest.Obj{runnertest.Answer(runnertest.Obj{"title": "** **", "summary": "It says bye.", "requirements": []string{"bye"}, "acceptance": []runnertest.Obj{{"criterion": "it says bye"}}})}
	w := newRoad(t, s, runnertest.Short)
	res := w.MustPlan("1")
	if got := w.Task(res.Dir).Title; got != "Step 1: First" || !strings.HasPrefix(w.File(res.Dir, "prd.md"), "# Task: Step 1: First\n") {
		t.Errorf("it is called %q", got)
	}
}

// A planning that fails or rejects blocks the step until a person has it planned again.
func TestStepOfABadEnd(t *testing.T) {
	t.Parallel()
	reject := runnertest.Answer(runnertest.Obj{"decision": "reject", "category": "unclear", "details": "what is first?", "suggestions": []string{"say what"}})
	w := newRoad(t, runnertest.Roadwork().With("evaluate", reject, runnertest.Accepted("tiny")), runnertest.Short)
	res := w.MustPlan("1")
	if res.Status != trellis.Rejected {
		t.Fatalf("got %+v", res)
	}
	w.WantRow("1", "| 1 | First | | blocked | plan "+res.Task+" |")
	if again := w.MustPlan("1"); !again.Known || again.Status != trellis.Rejected {
		t.Errorf("again: %+v", again)
	}
	if a := w.settle(); len(a.Changes) > 0 || len(a.Ready) != 1 || a.Ready[0].ID != "3" {
		t.Errorf("settled: %+v", a)
	}
	if _, err := w.PlanStep("2"); err == nil || !strings.Contains(err.Error(), "it depends on step 1, which is ") {
		t.Errorf("what nothing comes of was built on: %v", err)
	}
	if _, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Feedback: "the first one"}); err != nil {
		t.Fatal(err)
	}
	w.settle()
	w.WantRow("1", "| 1 | First | |  | plan "+res.Task+" |")

	w.Edit(res.Dir, `"ready"`, `"cancelled"`)
	w.settle()
	w.WantRow("1", "| 1 | First | | blocked | plan "+res.Task+" |")
	w.Write(runnertest.RoadFile, runnertest.Short) // a person gives up the task
	if a := w.settle(); len(a.Changes) > 0 {
		t.Errorf("what a person took away is written again: %+v", a.Changes)
	}
	if next := w.MustPlan("1"); next.Known || next.Task != runnertest.Today("first-2") {
		t.Errorf("planned anew: %+v", next)
	}

	failing := newRoad(t, runnertest.Roadwork().With("evaluate", runnertest.Obj{"answer": ""}), runnertest.Short)
	if res := failing.MustPlan("3"); res.Failure == nil || res.Status != trellis.Planning {
		t.Fatalf("an empty answer: %+v", res)
	}
	failing.WantRow("3", "| 3 | Beside | none | blocked | plan "+runnertest.Today("beside")+" |")
	failing.Write(".trellis/rehearsal.yaml", runnertest.Roadwork().String())
	if res := failing.MustPlan("3"); res.Failure != nil || res.Status != trellis.Ready {
		t.Errorf("asked again: %+v", res)
	}
	failing.WantRow("3", "| 3 | Beside | none | todo | plan "+runnertest.Today("beside")+" |")
}

// The state of a task is written into its step, and what people wrote there stays.
func TestWhatBecameOfASteps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ cells, task, want string }{
		"at work":            {"| | plan TASK |", `"status": "in_progress"`, "| | plan TASK |"},
		"review":             {"| | plan TASK |", `"status": "review"`, "| | plan TASK |"},
		"pull request":       {"| | plan TASK |", `"status": "review", "pr_url": "https://github.com/ann/greet/pull/12"`, "| | #12 |"},
		"merged":             {"| | plan TASK |", `"status": "completed", "pr_url": "https://github.com/ann/greet/pull/12", "pipeline": {"outcome": "merged"}`, "| done | #12 |"},
		"merged by hand":     {"| in progress | plan TASK |", `"status": "completed"`, "| done | plan TASK |"},
		"nothing to do":      {"| | plan TASK |", `"status": "completed", "pipeline": {"outcome": "no_change_needed"}`, "| done | plan TASK |"},
		"failed":             {"| | plan TASK |", `"status": "failed", "pipeline": {"failure": {"code": "tests_failed"}}`, "| blocked | plan TASK |"},
		"closed":             {"| | #12 |", `"status": "cancelled", "pr_url": "https://github.com/ann/greet/pull/12"`, "| blocked | #12 |"},
		"blocked by hand":    {"| blocked | plan TASK |", `"status": "in_progress"`, "| blocked | plan TASK |"},
		"blocked, completed": {"| blocked | plan TASK |", `"status": "completed"`, "| blocked | plan TASK |"},
		"skipped":            {"| skipped | plan TASK |", `"status": "failed"`, "| skipped | plan TASK |"},
		"done by hand":       {"| done | plan TASK |", `"status": "failed"`, "| done | plan TASK |"},
		"not linked":         {"| | — |", `"status": "ready"`, "| | plan TASK |"},
		"another plan":       {"| | plan #99 |", `"status": "ready"`, "| | plan #99 |"},
		"other words":        {"| done | by hand |", `"status": "failed"`, "| done | by hand |"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cells := func(s string) string { return strings.ReplaceAll(s, "TASK", "02-01-beside") }
			w := newRoad(t, runnertest.Roadwork(), cells(strings.Replace(runnertest.Short, "| todo | |", c.cells, 1)))
			text := strings.TrimSuffix(`{`+c.task, "}")
			if strings.Contains(text, `"pipeline": {`) {
				text += `, "objective": {"name": "farewells", "step": "3"}}}`
			} else {
				text += `, "pipeline": {"objective": {"name": "farewells", "step": "3"}}}`
			}
			w.Write(".trellis/tasks/02-01-beside/task.json", text)
			for range 2 {
				a := w.settle()
				w.WantRow("3", "| 3 | Beside | none "+cells(c.want))
				if (len(a.Others) > 0) != (strings.Contains(c.want, "#99") || strings.Contains(c.want, "by hand")) {
					t.Errorf("others: %+v", a.Others)
				}
			}
		})
	}
}

// A blocked that was written for a task is removed when the task continues. A person's change in between stays.
func TestBlockedIsTakenBack(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Short)
	res := w.MustPlan("3")
	move := func(from, to trellis.Status) { w.Edit(res.Dir, `"`+string(from)+`"`, `"`+string(to)+`"`); w.settle() }
	plan := "plan " + res.Task + " |"
	move("ready", "failed")
	w.WantRow("3", "| 3 | Beside | none | blocked | "+plan)
	move("failed", "ready")
	w.WantRow("3", "| 3 | Beside | none | todo | "+plan)
	move("ready", "failed")
	w.Write(runnertest.RoadFile, strings.Replace(w.Read(runnertest.RoadFile), "blocked", "skipped", 1))
	move("failed", "ready")
	w.WantRow("3", "| 3 | Beside | none | skipped | "+plan)
	w.Write(runnertest.RoadFile, strings.Replace(w.Read(runnertest.RoadFile), "skipped", "blocked", 1)) // by hand
	w.settle()
	w.WantRow("3", "| 3 | Beside | none | blocked | "+plan)
}

// A plan becomes one issue, even if an attempt is interrupted. A rejected or cancelled task gets no issue.
func TestIssueOfAStep(t *testing.T) {
	t.Parallel()
	reject := runnertest.Obj{"when": "Step 3 of the objective", "answer": runnertest.Obj{"decision": "reject", "category": "unclear", "details": "beside what?", "suggestions": []string{"say"}}}
	w := newRoad(t, runnertest.Roadwork().With("evaluate", runnertest.Accepted("tiny"), reject), runnertest.Short)
	w.Git("remote", "add", "origin", "../origin.git")
	gh := githubtest.Install(t, githubtest.State{FailFrom: 1, FailTo: 1, Lost: "cut"})
	env := append(os.Environ(), gh.Env...)
	plan := func(step string) (runner.StepResult, error) {
		return w.Site.Objectives().PlanStep(context.Background(), "farewells", runner.StepOptions{Step: step, Forge: &github.Client{Dir: w.Dir, Env: env}})
	}
	if _, err := plan("1"); !errors.Is(err, runner.ErrNoIssue) || !strings.Contains(err.Error(), "step 1 of farewells is planned as "+runnertest.Today("first")+", but its plan could not be put into an issue: ") {
		t.Fatalf("without an answer: %v", err)
	}
	w.WantRow("1", "| 1 | First | | | plan "+runnertest.Today("first")+" |")
	for _, known := range []bool{true, true} { // the answer to the first call is lost
		res, err := plan("1")
		if err != nil || res.Known != known || res.Issue == nil || res.Issue.Number != 101 {
			t.Fatalf("got %+v, %v", res, err)
		}
		w.WantRow("1", "| 1 | First | | | plan #101 |")
	}
	if a := w.settle(); len(a.Changes)+len(a.Others) > 0 {
		t.Errorf("settled: %+v", a)
	}
	if res, err := plan("3"); err != nil || res.Issue != nil {
		t.Errorf("rejected: %+v, %v", res, err)
	}
	s := gh.State(t)
	if len(s.Issues) != 1 || s.Issues[0]["title"] != "Say bye" || !strings.Contains(s.Issues[0]["body"].(string), "Part of Objective farewells, Step 1") {
		t.Errorf("issues %v", s.Issues)
	}
	second := w.MustPlan("2")
	w.Edit(second.Dir, `"ready"`, `"cancelled"`)
	if res, err := plan("2"); err != nil || res.Issue != nil || res.Dead == "" {
		t.Errorf("an issue of what nothing comes of: %+v, %v", res, err)
	}
	w.Edit(filepath.Join(w.Site.Store.Tasks(), runnertest.Today("first")), `"ready"`, `"completed"`)
	w.settle()
	w.WantRow("1", "| 1 | First | | done | plan #101 |")
}
