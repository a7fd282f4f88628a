package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// prompts returns the prompts of a role in the nth planning, in order.
func (w *world) prompts(dir, role string, run int) (texts []string) {
	w.Helper()
	root := filepath.Join(dir, taskdir.Run, fmt.Sprint(run))
	var paths []string
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Name() == "prompt.md" && strings.HasPrefix(filepath.Base(filepath.Dir(filepath.Dir(path))), role+"#") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	slices.Sort(paths)
	for _, p := range paths {
		data, err := os.ReadFile(p)
		if err != nil {
			w.Fatal(err)
		}
		texts = append(texts, string(data))
	}
	return texts
}

func none(w *world, dir, name string) {
	w.Helper()
	if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
		w.Errorf("there is a %s", name)
	}
}

// For each size of work, a planning makes these calls and ends with this status.
func TestCallsOfEachSize(t *testing.T) {
	t.Parallel()
	reject := runnertest.Answer(runnertest.Obj{"decision": "reject", "category": "unclear", "details": "what?", "suggestions": []string{"say what"}})
	for name, c := range soak.Rows(t, map[string]struct {
		script runnertest.Script
		change func(*runner.Site, *runner.PlanOptions)
		calls  string
		status trellis.Status
	}{
		"rejected":        {runnertest.Careful("small").With("evaluate", reject), nil, "evaluate", trellis.Rejected},
		"tiny":            {runnertest.Careful("tiny"), nil, "evaluate prd research", trellis.Ready},
		"quick":           {runnertest.Careful("medium"), func(_ *runner.Site, o *runner.PlanOptions) { o.Quick = true }, "evaluate prd research", trellis.Ready},
		"large and quick": {runnertest.Careful("large"), func(_ *runner.Site, o *runner.PlanOptions) { o.Quick = true }, "evaluate prd research", trellis.Waiting},
		"small":           {runnertest.Careful("small"), nil, "evaluate judge plan research taskspec", trellis.Ready},
		"medium":          {runnertest.Careful("medium"), nil, "evaluate judge plan research taskspec", trellis.Ready},
		"large":           {runnertest.Careful("large"), nil, "evaluate judge plan research taskspec", trellis.Waiting},
		"approval wanted": {runnertest.Careful("small"), func(s *runner.Site, _ *runner.PlanOptions) { s.Config.Planning.Approval = "plan" }, "evaluate judge plan research taskspec", trellis.Waiting},
		"no TaskSpec":     {runnertest.Careful("small"), func(_ *runner.Site, o *runner.PlanOptions) { o.NoTaskSpec = true }, "evaluate judge plan research", trellis.Ready},
		"TaskSpec off":    {runnertest.Careful("small"), func(s *runner.Site, _ *runner.PlanOptions) { s.Config.Planning.TaskSpec = false }, "evaluate judge plan research", trellis.Ready},
		"judge off":       {runnertest.Careful("small"), func(s *runner.Site, _ *runner.PlanOptions) { s.Config.Planning.Judge = false }, "evaluate plan research taskspec", trellis.Ready},
	}, "large", "judge off", "tiny", "TaskSpec off", "rejected") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.script.String())
			o := runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye"}
			if c.change != nil {
				c.change(w.Site, &o)
			}
			res, err := w.Site.PlanRunner().Plan(context.Background(), o)
			if err != nil || res.Failure != nil || res.Status != c.status {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			if got := w.asked(res.Dir); got != c.calls || res.Report.Calls != len(strings.Fields(c.calls)) {
				t.Errorf("got %d calls: %s; want %s", res.Report.Calls, got, c.calls)
			}
			if planned := strings.Contains(c.calls, "plan"); planned != (res.Report.Steps == 2) {
				t.Errorf("the plan has %d steps", res.Report.Steps)
			}
			if short := len(strings.Fields(c.calls)) < 5 && c.status != trellis.Rejected; short != (len(res.Report.Skipped) > 0) {
				t.Errorf("it says it skipped %q", res.Report.Skipped)
			}
			if (c.status == trellis.Waiting) != (len(res.Report.Why) > 0) {
				t.Errorf("it says it waits since %q", res.Report.Why)
			}
		})
	}
}

// asked returns the roles that were called, sorted.
func (w *world) asked(dir string) string {
	w.Helper()
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		w.Fatal(err)
	}
	var roles []string
	for _, e := range h.Calls {
		if slices.Contains(planner.Roles(), trellis.Role(e.Activity)) {
			roles = append(roles, e.Activity)
		}
	}
	slices.Sort(roles)
	return strings.Join(roles, " ")
}

// Research and TaskSpec are called at the same time: each waits until the other was called.
func TestCriticalPath(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	p := w.play("small", nil)
	w.meet(p, trellis.Research, trellis.TaskSpec)
	res, err := w.Plan("bye", "say bye")
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	h, err := journal.Read(filepath.Join(res.Dir, taskdir.Run))
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]journal.Entry{}
	for _, e := range h.Calls {
		at[e.Activity] = e
	}
	if r, s := at["research"], at["taskspec"]; !r.Started.Before(s.Finished) || !s.Started.Before(r.Finished) {
		t.Errorf("research %s to %s, taskspec %s to %s", r.Started, r.Finished, s.Started, s.Finished)
	}
}

// A planned directory has these contents, and later prompts get what earlier calls found.
func TestPlannedDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye",
		Constraints: []string{"no new program"}, Context: []string{"README.md"}})
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	for name, want := range map[string][]string{
		"prd.md":    {"# Task: Say bye", "- bye\n- no new program\n", "- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`", "## Design Decisions\n\n- a flag"},
		"plan.json": {`"id": "add_flag"`, `"command": "sh test.sh"`}, "taskspec.json": {`"user_intent": "say bye"`, `"no new program"`},
		"implement.jsonl": {"README.md", "greet.sh"}, "debug.jsonl": {"README.md"},
		".plan-log": {"taskspec_finished", "stub=false", "planner_finished", "judge_finished", "priority=high", "goals=1"},
	} {
		text := w.File(res.Dir, name)
		for _, s := range want {
			if !strings.Contains(text, s) {
				t.Errorf("%s lacks %q:\n%s", name, s, text)
			}
		}
	}
	task := w.Task(res.Dir)
	if task.Priority != "P1" || task.Pipeline.Judge == nil || !task.Pipeline.Judge.Pass || task.Pipeline.PlanHash == "" {
		t.Errorf("task.json says %s, %+v", task.Priority, task.Pipeline)
	}
	for role, want := range map[string][]string{
		"taskspec": {"no new program"}, "research": {"# greet", "no new program"},
		"plan":  {"a --bye flag", "the program", "sh test.sh", "# greet", "no new program"},
		"judge": {"add_flag", "a --bye flag", "sh test.sh", "no new program"},
	} {
		for _, s := range want {
			if got := w.prompts(res.Dir, role, 1); len(got) != 1 || !strings.Contains(got[0], s) {
				t.Errorf("the prompt of %s lacks %q:\n%s", role, s, got)
			}
		}
	}
}

// An invalid TaskSpec is sent back once. If it stays invalid or its agent fails, the planning continues with a stub.
func TestTaskSpec(t *testing.T) {
	t.Parallel()
	bad := runnertest.Spec()
	bad["mood"] = "fine"
	long := runnertest.Spec()
	long["goals"] = strings.Fields("a b c d e f g h i j k l m n")
	for name, c := range soak.Rows(t, map[string]struct {
		calls []runnertest.Obj
		want  planner.Spec
		n     int
	}{
		"valid":            {[]runnertest.Obj{runnertest.Answer(runnertest.Spec())}, planner.Spec{Valid: true, Goals: 1, Acceptance: 1, Priority: "high"}, 1},
		"mended":           {[]runnertest.Obj{runnertest.Answer(bad), runnertest.Answer(runnertest.Spec())}, planner.Spec{Valid: true, Repaired: true, Goals: 1, Acceptance: 1, Priority: "high"}, 2},
		"invalid twice":    {[]runnertest.Obj{runnertest.Answer(bad), runnertest.Answer(bad), runnertest.Answer(runnertest.Spec())}, planner.Spec{Stub: true, Priority: "normal"}, 2},
		"prose":            {[]runnertest.Obj{runnertest.Answer("I would rather not.")}, planner.Spec{Stub: true, Priority: "normal"}, 2},
		"the agent failed": {[]runnertest.Obj{{"exit": 3}}, planner.Spec{Stub: true, Priority: "normal"}, 1},
		"silence":          {[]runnertest.Obj{runnertest.Answer("")}, planner.Spec{Stub: true, Priority: "normal"}, 1},
		"too long a list":  {[]runnertest.Obj{runnertest.Answer(long)}, planner.Spec{Valid: true, Goals: 12, Acceptance: 1, Priority: "high"}, 1},
	}, "invalid twice", "mended", "valid", "the agent failed") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Careful("small").With("taskspec", c.calls...).With("plan", runnertest.Answer(uncovered())).String())
			res, err := w.Plan("bye", "say bye")
			if err != nil || res.Status != trellis.Ready {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			if got := res.Report.TaskSpec; got == nil || *got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			prompts := w.prompts(res.Dir, "taskspec", 1)
			if len(prompts) != c.n {
				t.Errorf("it was asked %d times, want %d", len(prompts), c.n)
			}
			if name == "mended" && (!strings.Contains(prompts[1], "/mood") || !strings.Contains(prompts[1], `"fine"`)) {
				t.Errorf("the repair lacks the error or the answer:\n%s", prompts[1])
			}
			if log := w.File(res.Dir, ".plan-log"); strings.Count(log, "taskspec_started") != c.n || strings.Count(log, "taskspec_finished") != c.n ||
				!strings.Contains(log, fmt.Sprintf("stub=%t", c.want.Stub)) {
				t.Errorf(".plan-log is\n%s", log)
			}
			if text := w.File(res.Dir, "taskspec.json"); !strings.Contains(text, `"user_intent": "say bye"`) {
				t.Errorf("taskspec.json is %s", text)
			}
		})
	}
}

// uncovered returns a plan that covers nothing of a TaskSpec, and says so.
func uncovered() runnertest.Obj {
	p := runnertest.Steps()
	p["uncovered"] = []runnertest.Obj{{"item": "it says bye", "reason": "the criterion says it"}}
	return p
}

// A plan that Trellis' checks refuse is sent back with its mistakes, twice. After that the planning fails.
func TestPlanComesBackFromTheChecks(t *testing.T) {
	t.Parallel()
	unproven := runnertest.Steps()
	unproven["steps"] = unproven["steps"].([]runnertest.Obj)[:1] // without the confirmed command
	ghost := runnertest.Steps()
	ghost["files"] = []runnertest.Obj{{"path": "no-such-file.sh", "change": "edit"}}
	for name, c := range soak.Rows(t, map[string]struct {
		calls []runnertest.Obj
		ok    bool
		n     int
	}{
		"mended at once":     {[]runnertest.Obj{runnertest.Answer(unproven), runnertest.Answer(runnertest.Steps())}, true, 2},
		"mended in the end":  {[]runnertest.Obj{runnertest.Answer(ghost), runnertest.Answer("I can't plan this."), runnertest.Answer(runnertest.Steps())}, true, 3},
		"never":              {[]runnertest.Obj{runnertest.Answer(unproven), runnertest.Answer(ghost), runnertest.Answer(unproven), runnertest.Answer(runnertest.Steps())}, false, 3},
		"a refusal":          {[]runnertest.Obj{runnertest.Answer("Summary: I will not help with that.\nSteps: none")}, false, 3},
		"silence":            {[]runnertest.Obj{runnertest.Answer(""), runnertest.Answer(runnertest.Steps())}, true, 2},
		"the agent is ended": {[]runnertest.Obj{{"fail": runnertest.Obj{"code": "agent_auth", "detail": "no key"}}}, false, 1},
	}, "mended in the end", "never", "silence") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Careful("small").With("plan", c.calls...).String())
			res, err := w.Plan("bye", "say bye")
			if err != nil {
				t.Fatal(err)
			}
			if ok := res.Status == trellis.Ready && res.Failure == nil; ok != c.ok {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
			prompts := w.prompts(res.Dir, "plan", 1)
			if len(prompts) != c.n {
				t.Fatalf("it was asked %d times, want %d", len(prompts), c.n)
			}
			if !c.ok {
				none(w, res.Dir, "plan.json")
				none(w, res.Dir, "prd.md")
				if got := w.Task(res.Dir); got.Status != trellis.Planning || got.Pipeline.Failure.Code == "" {
					t.Errorf("task.json says %s, %+v", got.Status, got.Pipeline.Failure)
				}
				return
			}
			if last := prompts[c.n-1]; name == "mended in the end" && (!strings.Contains(last, "no-such-file.sh") || !strings.Contains(last, "I can't plan this.") || !strings.Contains(last, "Plan 2")) {
				t.Errorf("the last prompt lacks what came before:\n%s", last)
			}
			if len(res.Report.Retries) != c.n-1 {
				t.Errorf("it says it was asked again since %q", res.Report.Retries)
			}
		})
	}
}

// A plan that the judge fails is sent back twice, with all earlier feedback. After that the plan waits for a person.
func TestJudge(t *testing.T) {
	t.Parallel()
	broken := runnertest.Steps()
	broken["steps"] = []runnertest.Obj{}
	for name, c := range soak.Rows(t, map[string]struct {
		plan, judge    []runnertest.Obj
		status         trellis.Status
		plans, judged  int
		lastPromptSays []string
	}{
		"no, then yes": {[]runnertest.Obj{runnertest.Answer(runnertest.Steps())}, []runnertest.Obj{runnertest.Verdict(false, "split add_flag"), runnertest.Verdict(true, "")}, trellis.Ready, 2, 2, []string{"split add_flag", "Let the program take --bye."}},
		"no for good":  {[]runnertest.Obj{runnertest.Answer(runnertest.Steps())}, []runnertest.Obj{runnertest.Verdict(false, "split add_flag"), runnertest.Verdict(false, "add_flag: too much"), runnertest.Verdict(false, "still add_flag")}, trellis.Waiting, 3, 3, []string{"split add_flag", "add_flag: too much"}},
		"both counters": {[]runnertest.Obj{runnertest.Answer(broken), runnertest.Answer(runnertest.Steps()), runnertest.Answer(broken), runnertest.Answer(runnertest.Steps()), runnertest.Answer(runnertest.Steps())},
			[]runnertest.Obj{runnertest.Verdict(false, "split add_flag"), runnertest.Verdict(false, "add_flag: more"), runnertest.Verdict(true, "")}, trellis.Ready, 5, 3, []string{"/steps", "split add_flag", "add_flag: more"}},
		"a no that names nothing is sent back": {[]runnertest.Obj{runnertest.Answer(runnertest.Steps())}, []runnertest.Obj{runnertest.Verdict(false, "meh"), runnertest.Verdict(true, "")}, trellis.Ready, 1, 2, nil},
		"a yes that is none":                   {[]runnertest.Obj{runnertest.Answer(runnertest.Steps())}, []runnertest.Obj{runnertest.Answer(runnertest.Obj{"pass": true, "feedback": "", "criteria": runnertest.Obj{"verification": false, "atomicity": true, "coverage": true, "vars": true}})}, trellis.Planning, 1, 2, nil},
		"prose":                                {[]runnertest.Obj{runnertest.Answer(runnertest.Steps())}, []runnertest.Obj{runnertest.Answer("Looks good to me!")}, trellis.Planning, 1, 2, nil},
		"the judge can't be asked":             {[]runnertest.Obj{runnertest.Answer(runnertest.Steps())}, []runnertest.Obj{{"fail": runnertest.Obj{"code": "agent_auth", "detail": "no key"}}}, trellis.Planning, 1, 1, nil},
	}, "no for good", "no, then yes", "a yes that is none", "the judge can't be asked") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Careful("small").With("plan", c.plan...).With("judge", c.judge...).String())
			res, err := w.Plan("bye", "say bye")
			if err != nil || res.Status != c.status || (res.Status == trellis.Planning) != (res.Failure != nil) {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			prompts := w.prompts(res.Dir, "plan", 1)
			if judged := w.prompts(res.Dir, "judge", 1); len(prompts) != c.plans || len(judged) != c.judged {
				t.Errorf("%d plans and %d judgements, want %d and %d", len(prompts), len(judged), c.plans, c.judged)
			}
			for _, want := range c.lastPromptSays {
				if !strings.Contains(prompts[len(prompts)-1], want) {
					t.Errorf("the last prompt lacks %q:\n%s", want, prompts[len(prompts)-1])
				}
			}
			if c.status == trellis.Waiting {
				w.undecided(res)
			}
		})
	}
}

// undecided checks a plan that the judge failed for good.
func (w *world) undecided(res runner.PlanResult) {
	w.Helper()
	task := w.Task(res.Dir)
	if j := task.Pipeline.Judge; j == nil || j.Pass || j.Feedback != "still add_flag" || !task.Pipeline.Approval.Required || len(res.Report.Why) != 1 {
		w.Errorf("task.json says %+v, the report %q", task.Pipeline, res.Report.Why)
	}
	w.File(res.Dir, "plan.json")
	if got := w.Start(res.Dir); got.Status != trellis.Waiting {
		w.Errorf("it was started: %s", got.Status)
	}
	again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Feedback: "one step is fine"})
	if err != nil {
		w.Fatal(err)
	}
	prompts := w.prompts(again.Dir, "plan", 2)
	if len(prompts) == 0 || !strings.Contains(prompts[0], "one step is fine") || !strings.Contains(prompts[0], "Let the program take --bye.") {
		w.Errorf("the feedback or the plan it is about does not reach the planner:\n%s", prompts)
	}
	if _, err := w.Site.Approvals().Approve(again.Dir, "ann", ""); err != nil || w.Task(again.Dir).Status != trellis.Ready {
		w.Errorf("a person can't decide: %v, %s", err, w.Task(again.Dir).Status)
	}
}

// Planning again replaces the files of an earlier planning. A person's edits are kept below run/.
func TestReplanKeepsEdits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").With("evaluate", runnertest.Accepted("small"), runnertest.Accepted("tiny")).String())
	w.Site.Config.Planning.Approval = "plan"
	res, err := w.Plan("bye", "say bye")
	if err != nil || res.Status != trellis.Waiting {
		t.Fatalf("got %+v, %v", res, err)
	}
	edited := strings.Replace(w.File(res.Dir, "plan.json"), "greet.sh says bye.", "greet.sh says bye, kindly.", 1)
	if err := os.WriteFile(filepath.Join(res.Dir, "plan.json"), []byte(edited), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Requirement: "say bye, but tiny"})
	if err != nil || again.Status != trellis.Waiting {
		t.Fatalf("again: %+v, %v", again, err)
	}
	none(w, res.Dir, "plan.json")
	none(w, res.Dir, "taskspec.json")
	if got := w.File(res.Dir, "run/2/survey#1/before/plan.json"); got != edited {
		t.Errorf("the edited plan is kept as %q", got)
	}
	if task := w.Task(res.Dir); task.Pipeline.Judge != nil {
		t.Errorf("the verdict on a plan that is gone stays: %+v", task.Pipeline.Judge)
	}
}

// A plan that changes protected paths waits for approval.
func TestPlanThatTouchesProtectedPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	w.Site.Config.Protected = append(w.Site.Config.Protected, "greet.sh")
	res, err := w.Plan("bye", "say bye")
	if err != nil || res.Status != trellis.Waiting || !strings.Contains(strings.Join(res.Report.Why, "\n"), "greet.sh") {
		t.Fatalf("got %s, %v, %v, %q", res.Status, res.Failure, err, res.Report.Why)
	}
}

// A ready plan can be planned again until its work has begun. The evaluate, plan and judge agents get earlier feedback too.
func TestFeedbackOnAReadyPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	res, err := w.Plan("bye", "say bye")
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	for _, said := range []string{"leave out the README", "and the manual"} {
		if res, err = w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Feedback: said}); err != nil || res.Status != trellis.Ready {
			t.Fatalf("got %+v, %v", res, err)
		}
	}
	for _, role := range []string{"evaluate", "plan", "judge"} {
		w.holds(role, w.prompts(res.Dir, role, 3)[0], "leave out the README", "and the manual")
	}
	if err := w.Site.Orders().Retry(context.Background(), res.Dir, false, runner.RunOptions{}); err != nil { // a retry asks for a run, which has not begun
		t.Fatal(err)
	}
	if res, err = w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Feedback: "or not"}); err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	if _, err := w.Site.Starter().Start(context.Background(), res.Dir, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	var refused *runner.RefusedError
	id := filepath.Base(res.Dir)
	if _, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Feedback: "again"}); !errors.As(err, &refused) ||
		refused.Why != id+" is failed: it can't be planned again" || refused.Hint != "trellis retry "+id+" --feedback 'what should be different'" {
		t.Errorf("planned again after the work failed: %v, %+v", err, refused)
	}
	w.Edit(res.Dir, `"status": "`+string(w.Task(res.Dir).Status), `"status": "ready`)
	if _, err := w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Feedback: "again"}); !errors.As(err, &refused) {
		t.Errorf("planned again after work was begun: %v", err)
	}
}

// A task that failed before any work can be planned again, unless it was sent back with feedback that no agent has got.
func TestFeedbackOnWorkThatNeverBegan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	res, err := w.Plan("bye", "say bye")
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	w.Edit(res.Dir, `"status": "ready`, `"status": "failed`)
	if err := w.Site.Orders().SendBack(t.Context(), res.Dir, "use CAPS"); err != nil {
		t.Fatal(err)
	}
	plans := w.Site.PlanRunner()
	var refused *runner.RefusedError
	if _, err := plans.Replan(t.Context(), res.Dir, runner.PlanOptions{}); !errors.As(err, &refused) || refused.Hint != "trellis start "+filepath.Base(res.Dir) {
		t.Errorf("planned again without what was said: %v", err)
	}
	if err := plans.CanReplan(res.Dir); !errors.As(err, &refused) {
		t.Errorf("it can be planned again: %v", err)
	}
	lock, err := runlock.Take(res.Dir, w.Site.Clock())
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	if err := plans.CanReplan(res.Dir); err != nil {
		t.Errorf("the lock is held, which has an answer of its own: %v", err)
	}
}

// If the journal can't be read, that is reported, not that the task can be planned again.
func TestReplanOfAnUnreadableJournal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	res, err := w.Plan("bye", "say bye")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(res.Dir, taskdir.Journal)
	if err := errors.Join(os.Rename(path, path+".before"), os.Mkdir(path, 0o755)); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.PlanRunner().CanReplan(res.Dir); !errors.As(err, new(*durable.FileError)) {
		t.Errorf("got %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.PlanRunner().CanReplan(res.Dir); err != nil {
		t.Errorf("without a journal: %v", err)
	}
	if err := os.WriteFile(path, []byte("{}\n{}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.PlanRunner().CanReplan(res.Dir); err != nil {
		t.Errorf("with a damaged journal, which is mended: %v", err)
	}
}

// A planned task gets a branch that is free, and keeps a branch that a person named.
func TestBranchOfAPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Careful("small").String())
	plan := func(name, want, warning string) string {
		t.Helper()
		res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: name, DevType: "backend", Force: true}, Requirement: "say bye"})
		if err != nil || res.Status != trellis.Ready {
			t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
		}
		if got := w.Task(res.Dir).Branch; got != want {
			t.Errorf("got the branch %q, want %q", got, want)
		}
		if got := strings.Join(res.Report.Warnings, "\n"); !strings.Contains(got, warning) || warning == "" && strings.Contains(got, "branch") {
			t.Errorf("warned of %q, want %q", got, warning)
		}
		return res.Dir
	}
	first := plan("bye", "feature/bye", "")
	plan("bye", "feature/bye-2", "") // the name of its branch is bye-2
	w.Git("branch", "feature/mine")
	plan("mine", "feature/mine-2", "the branch feature/mine is there, or another task's, so this one has feature/mine-2: `trellis task set-branch`")
	w.Git("branch", "feature/bye")
	if res, err := w.Site.PlanRunner().Replan(context.Background(), first, runner.PlanOptions{Requirement: "say bye aloud"}); err != nil || w.Task(first).Branch != "feature/bye-3" {
		t.Errorf("planned again beside a branch of a person's: got %q, %v, %v", w.Task(first).Branch, res.Failure, err)
	}
	w.Write(w.Site.Store.Rel(first)+"/task.json", strings.Replace(w.File(first, "task.json"), "feature/bye-3", "feature/other", 1))
	res, err := w.Site.PlanRunner().Replan(context.Background(), first, runner.PlanOptions{Requirement: "say bye twice"})
	if got := w.Task(first).Branch; err != nil || got != "feature/other" {
		t.Errorf("planned again: got %q, %v, %v", got, res.Failure, err)
	}
	w.Git("branch", "-D", "feature/mine", "feature/bye")
	w.Git("branch", "feature")
	late, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "late", DevType: "backend"}, Requirement: "say bye"})
	if err != nil || !strings.Contains(strings.Join(late.Report.Warnings, "\n"), "there is a branch feature: name another with `trellis task set-branch`, or start") {
		t.Errorf("got %+v, %v", late.Report.Warnings, err)
	}
}
