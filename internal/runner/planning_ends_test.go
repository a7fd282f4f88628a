package runner_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// An evaluation that is contradictory or incomplete neither accepts nor rejects: the planning fails, the answer is kept, and the task can
// only be planned again.
func TestDecisionsThatAreNone(t *testing.T) {
	t.Parallel()
	accept := func(key string, value any) runnertest.Obj {
		return with(runnertest.Accepted("small")["answer"].(runnertest.Obj), key, value)
	}
	reject := func(key string, value any) runnertest.Obj {
		return with(runnertest.Obj{"decision": "reject", "category": "unclear", "details": "what?", "suggestions": []string{"say what"}}, key, value)
	}
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", nil)
	for i, c := range []struct {
		says any
		why  string
	}{
		{accept("category", "harmful"), "/category"},
		{accept("size", "huge"), "/size"},
		{accept("size", nil), "/size"},
		{accept("confidence", 1.5), "/confidence"},
		{accept("confidence", -0.1), "/confidence"},
		{accept("confidence", "high"), "/confidence"},
		{accept("decision", "ACCEPT"), "/decision"},
		{accept("decision", nil), "/decision"},
		{accept("approved", true), "/approved"},
		{reject("category", ""), "/category"},
		{reject("category", "ugly"), "/category"},
		{reject("details", " "), "/details"},
		{reject("suggestions", []string{}), "/suggestions"},
		{reject("suggestions", []string{""}), "/suggestions/0"},
		{"decision: accept", "no complete JSON object"},
		{"I must reject this.", "no complete JSON object"},
		{"", "empty_output"},
	} {
		p.parts[trellis.Evaluate] = says(c.says)
		p.heard[trellis.Evaluate] = nil
		if c.says == "" { // a program that says nothing has failed
			p.parts[trellis.Evaluate] = fails(trellis.EmptyOutput)
		}
		res, err := w.Plan(fmt.Sprintf("bye-%c", 'a'+i), "say bye")
		if err != nil || res.Status != trellis.Planning || res.Failure == nil || !strings.Contains(res.Failure.Error(), c.why) {
			t.Errorf("%v: got %s, %v, %v", c.says, res.Status, res.Failure, err)
			continue
		}
		if n := len(p.heard[trellis.Evaluate]); n != 2 && c.says != "" || len(p.heard[trellis.Research]) > 0 {
			t.Errorf("%v: it was asked %d times, research %d times", c.says, n, len(p.heard[trellis.Research]))
		}
		if task := w.Task(res.Dir); task.Status != trellis.Planning || task.Pipeline.Failure.Code != code(res) || task.Pipeline.Rejection.Category != "" || task.Pipeline.Outcome != "" {
			t.Errorf("%v: task.json says %s, %+v", c.says, task.Status, task.Pipeline)
		}
		for _, name := range []string{"REJECTED.md", "prd.md", "plan.json", "taskspec.json", "research.md"} {
			none(w, res.Dir, name)
		}
		if c.says != "" && (w.File(res.Dir, "run/1/evaluate#2/1/answer.md") != said(c.says).Text || !strings.Contains(res.Failure.Detail, "run/1/evaluate#2/1/answer.md")) {
			t.Errorf("%v: the answer is not kept where it says: %v", c.says, res.Failure)
		}
		if _, err := w.Site.Starter().Start(context.Background(), res.Dir, runner.RunOptions{}); err == nil {
			t.Errorf("%v: it was started", c.says)
		}
	}
}

// A plan is sent back with mistakes that only this project shows, and the second prompt names them.
func TestPlanIsHeldToTheProject(t *testing.T) {
	t.Parallel()
	three := runnertest.Steps()
	three["steps"] = append([]runnertest.Obj{{"id": "look", "command": "ls"}}, three["steps"].([]runnertest.Obj)...)
	uncover := runnertest.Steps()
	uncover["steps"].([]runnertest.Obj)[0]["covers"] = []string{"something else"}
	uncover["acceptance"].([]runnertest.Obj)[0]["criterion"] = "bye is said"
	silent := runnertest.Steps()
	delete(silent, "summary")
	for name, c := range soak.Rows(t, map[string]struct {
		bad  runnertest.Obj
		told string
	}{
		"too many steps":      {three, "/steps: has 3 steps, those of groups counted, may have at most 2"},
		"what nothing covers": {uncover, `/acceptance: nothing covers "it says bye"`},
		"a blank summary":     {with(runnertest.Steps(), "summary", " "), "/summary: is blank"},
		"no summary":          {silent, "/summary: say in a paragraph"},
		"no requirement":      {with(runnertest.Steps(), "requirements", []string{}), "/requirements: name at least one"},
		"a path that is gone": {with(runnertest.Steps(), "files", []runnertest.Obj{{"path": "gone.sh", "change": "delete"}}), "/files/0/path: gone.sh does not exist"},
		"a path outside":      {with(runnertest.Steps(), "files", []runnertest.Obj{{"path": "../x", "change": "new"}}), "/files/0/path: ../x leads out"},
		"no such program":     {with(runnertest.Steps(), "acceptance", []runnertest.Obj{{"criterion": "it says bye", "verify": "no-such-program"}}), "/acceptance/0/verify: `no-such-program`"},
		"no criterion":        {with(runnertest.Steps(), "acceptance", []runnertest.Obj{}), "/acceptance: there is no criterion"},
	}, "too many steps", "a path outside", "what nothing covers", "no such program") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			w.Site.Config.Planning.MaxSteps = 2
			p := w.play("small", map[trellis.Role]part{trellis.Plan: says(c.bad, runnertest.Steps())})
			res := w.planned()
			heard := p.heard[trellis.Plan]
			if res.Status != trellis.Ready || len(heard) != 2 || len(p.heard[trellis.Judge]) != 1 {
				t.Fatalf("got %s, %v after %d plans", res.Status, res.Failure, len(heard))
			}
			if !strings.Contains(heard[1].Prompt, c.told) || strings.Contains(heard[0].Prompt, c.told) {
				t.Errorf("the second prompt does not say %q:\n%s", c.told, heard[1].Prompt)
			}
			place, _, _ := strings.Cut(c.told, " ")
			if res.Report.Calls != 6 || len(res.Report.Retries) != 1 || !strings.HasPrefix(res.Report.Retries[0], "checks, 1 of 2: "+place) {
				t.Errorf("it reports %d calls, %q", res.Report.Calls, res.Report.Retries)
			}
		})
	}
}

// A plan is written as it was given: steps that look alike are not folded into a loop. Odd loops are reported.
func TestNothingIsNormalised(t *testing.T) {
	t.Parallel()
	plan := runnertest.Steps()
	var list []runnertest.Obj
	for i, do := range []string{"Teach greet.sh --bye.", "Describe --bye in README.md.", "Test --bye in test.sh."} {
		list = append(list, runnertest.Obj{"id": fmt.Sprintf("pass_%d", i+1), "prompt": do, "verify": "sh test.sh"})
	}
	list = append(list,
		runnertest.Obj{"id": "counted", "prompt": "Look again, {{item}} of 5.", "for_each": []string{"1", "2", "3", "4", "5"}, "verify": "sh test.sh"},
		runnertest.Obj{"id": "listed", "command": "echo {{item}}", "for_each": "seq 3"},
		runnertest.Obj{"id": "one_of_3", "command": "ls"}, runnertest.Obj{"id": "two_of_3", "command": "ls"}, runnertest.Obj{"id": "empty", "command": "ls {{item}}", "for_each": []string{}})
	plan["steps"] = append(list, plan["steps"].([]runnertest.Obj)...)
	w := newWorld(t, "roles: {}\n")
	w.play("small", map[trellis.Role]part{trellis.Plan: says(plan)})
	res, err := w.Plan("bye", "for each file, 20 times: do it in 5 iterations")
	if err != nil || res.Status != trellis.Ready || res.Report.Calls != 5 || res.Report.Steps != 10 {
		t.Fatalf("got %s, %v, %v, %+v", res.Status, res.Failure, err, res.Report)
	}
	var got, want any
	if err := json.Unmarshal([]byte(w.File(res.Dir, "plan.json")), &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(said(plan).Text), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%v\nwant\n%v", got, want)
	}
	w.holds("the warnings", strings.Join(res.Report.Warnings, "\n"), "pass_1 to pass_3", "the list only counts", "the list is empty")
}

// Without a TaskSpec, prompts show none, nothing has to be covered, and no file is written.
func TestWithoutTaskSpec(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", nil)
	res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye", NoTaskSpec: true})
	if err != nil || res.Status != trellis.Ready || res.Report.TaskSpec != nil || len(p.heard[trellis.TaskSpec]) > 0 {
		t.Fatalf("got %s, %v, %v, %+v", res.Status, res.Failure, err, res.Report)
	}
	none(w, res.Dir, "taskspec.json")
	for _, role := range []trellis.Role{trellis.Plan, trellis.Judge} {
		w.holds(string(role), p.heard[role][0].Prompt, "!# TaskSpec\n", "!<data name=\"taskspec\"")
	}
	w.holds(".plan-log", w.File(res.Dir, ".plan-log"), "!taskspec ", "!settle", "goals=0")
	if got := w.Task(res.Dir).Priority; got != "P2" {
		t.Errorf("the priority is %s", got)
	}
}

// A file of --context is shown in prompts. If it no longer exists, that is reported, and the planning continues.
func TestContextThatWentAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", nil)
	res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye", Context: []string{"greet.sh", "gone.md", "test.sh"}})
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
	}
	for _, role := range []trellis.Role{trellis.Research, trellis.Plan} {
		w.holds(string(role), p.heard[role][0].Prompt, "# greet.sh\n\n"+runnertest.Program["greet.sh"], "# test.sh\n\n"+runnertest.Program["test.sh"], "!# gone.md")
	}
	w.holds("the warnings", strings.Join(res.Report.Warnings, "\n"), "gone.md, which was named with --context, is not shown", "gone.md does not exist")
	w.holds("implement.jsonl", w.File(res.Dir, "implement.jsonl"), `"greet.sh"`, "!gone.md")
}

// Markup around a title does not reach task.json. A judge that fails a plan has to name a step of the plan.
func TestWordsOfThePlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", map[trellis.Role]part{trellis.Plan: says(with(runnertest.Steps(), "title", "# Plan: **Say** `bye`")),
		trellis.Judge: says(runnertest.Verdict(false, "split add_flags, add_flag2 and run")["answer"], runnertest.Verdict(true, "")["answer"])})
	res := w.planned()
	if res.Status != trellis.Ready || len(p.heard[trellis.Judge]) != 2 || len(p.heard[trellis.Plan]) != 1 {
		t.Fatalf("got %s, %v after %d judgements", res.Status, res.Failure, len(p.heard[trellis.Judge]))
	}
	w.holds("the second question", p.heard[trellis.Judge][1].Prompt, "/feedback: name the id of a step")
	if got := w.Task(res.Dir).Title; got != "Say bye" || !strings.HasPrefix(w.File(res.Dir, "prd.md"), "# Task: Say bye\n") {
		t.Errorf("the title is %q", got)
	}
}

// A run uses the TaskSpec and the plan of its planning.
func TestPlannedIsCarriedOut(t *testing.T) {
	t.Parallel()
	s := runnertest.Careful("small").With("implement", runnertest.Obj{"files": runnertest.Obj{"greet.sh": "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"}, "answer": "done"}).
		With("check", runnertest.Answer("fine")).With("accept", runnertest.Answer(runnertest.Obj{"criteria": []runnertest.Obj{{"id": "A1", "verdict": "met", "evidence": "greet.sh:1"}}}))
	w := newWorld(t, s.String())
	w.Site.Config.Verify = nil
	planned := w.planned()
	if res := w.Start(planned.Dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	prompts := w.prompts(planned.Dir, "implement", 2)
	if len(prompts) != 1 {
		t.Fatalf("implement was told\n%s", prompts)
	}
	w.holds("implement", prompts[0], "a --bye flag", "Let the program take --bye.")
	w.holds("report.md", w.File(planned.Dir, "report.md"), "| `sh test.sh` | 0 |", "Commands from plan.json")
}
