package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge C11: the notes of research and a person's background are in prd.md, which every phase gets, and can't begin a section there.
func TestNotesReachTheDocument(t *testing.T) {
	t.Parallel()
	noted := runnertest.Found + "## Technical Notes\n\nThe greeting is `echo`, never `printf`.\n\n### Acceptance Criteria\n\n- a box of the notes\n"
	w := newWorld(t, runnertest.Careful("small").With("research", runnertest.Answer(noted)).String())
	res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye",
		Background: []string{"Guests leave by the back door.\n## Acceptance Criteria\n- [ ] none"}})
	if err != nil || res.Status != trellis.Ready {
		t.Fatalf("got %+v, %v", res, err)
	}
	w.holds("prd.md", w.File(res.Dir, taskdir.PRD), "## Technical Notes\n\n```text\nThe greeting is `echo`, never `printf`.\n\n**Acceptance Criteria**\n",
		"## Context\n\nGiven along with the requirement, to understand it by:\n\n```text\n> Guests leave by the back door.\n> ## Acceptance Criteria\n> - [ ] none\n")
	for _, role := range []string{"evaluate", "taskspec", "research", "plan", "judge"} {
		w.holds(role, w.prompts(res.Dir, role, 1)[0], "# What else a person says of it", "Guests leave by the back door.")
	}
}

// Edge C11: a plan in the form of tascer is accepted, with a warning.
func TestPlanInTheFormOfTascer(t *testing.T) {
	t.Parallel()
	tascs := runnertest.Obj{"title": "Say bye", "description": "greet.sh says bye.", "confidence": 0.7, "tascs": []runnertest.Obj{
		{"id": "Add flag", "title": "Add the flag", "additional_notes": "Let the program take --bye.", "testing_instructions": "sh greet.sh --bye | grep -q Bye", "desired_outcome": "It says bye."}}}
	for name, c := range map[string]struct{ research, last string }{
		"a confirmed command": {runnertest.Found, `"command": "sh test.sh",`},
		"none":                {strings.ReplaceAll(runnertest.Found, "- test: sh test.sh", "none found"), `"llm_as_judge": true`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Careful("small").With("research", runnertest.Answer(c.research)).With("plan", runnertest.Answer(tascs)).String())
			if name == "none" {
				w.Site.Config.Verify = nil
			}
			res := w.planned()
			if res.Status != trellis.Ready {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.holds("plan.json", w.File(res.Dir, taskdir.Plan), `"id": "add_flag"`, `"prompt": "Add the flag\n\nLet the program take --bye."`, `"verify": "sh greet.sh --bye | grep -q Bye"`, c.last)
			w.holds("prd.md", w.File(res.Dir, taskdir.PRD), "greet.sh says bye.", "- [ ] It says bye.\n")
			if !slices.Contains(res.Report.Warnings, "the plan came in the form of tascer: it is taken over as a plan.json") {
				t.Errorf("it does not say so: %q", res.Report.Warnings)
			}
		})
	}
}

// Edge C11: a verdict of the judge without criteria counts.
func TestJudgeWithoutCriteria(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		verdict runnertest.Obj
		status  trellis.Status
	}{
		"a pass": {runnertest.Obj{"pass": true, "feedback": ""}, trellis.Ready},
		"a fail": {runnertest.Obj{"pass": false, "feedback": "add_flag: split it"}, trellis.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Careful("small").With("judge", runnertest.Answer(c.verdict)).String())
			if res := w.planned(); res.Status != c.status || res.Failure != nil {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
		})
	}
}

// Edge C11: prd.md of a roadmap's step lists the plan's steps, files and tests, and the dependencies.
func TestDocumentOfAStep(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Careful("small").With("research", runnertest.Answer(runnertest.Found)), runnertest.Short)
	res := w.MustPlan("1")
	w.holds("prd.md", w.File(res.Dir, taskdir.PRD), "Part of Objective farewells, Step 1\n", "\n## Phases\n\n1. add_flag\n", "\n## Files\n\n- `greet.sh`: edit\n",
		"\n## Tests\n\n- `sh greet.sh --bye | grep -q Bye`\n", "\n## Verification\n\n- `sh test.sh`\n", "\n## Dependencies\n\n- none\n")
	res = w.MustPlan("2")
	w.holds("prd.md", w.File(res.Dir, taskdir.PRD), "\n## Dependencies\n\n- "+runnertest.Today("first")+"\n")
}
