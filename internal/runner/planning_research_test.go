package runner_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// looks makes a part report these numbers of tool calls, one for each call.
func looks(do part, calls ...int) part {
	return func(ctx context.Context, r agents.Request, n int) (*agents.Result, error) {
		res, err := do(ctx, r, n)
		if res != nil {
			res.ToolCalls = calls[min(n, len(calls))-1]
		}
		return res, err
	}
}

// Research that opened no file is sent back once, then accepted with a warning. An agent that does not report its tools is believed, and a
// project without files needs none to be opened.
func TestResearchWithoutALook(t *testing.T) {
	t.Parallel()
	const warning = "the research agent looked at no file"
	for name, c := range map[string]struct {
		research part
		empty    bool
		calls    int
		warned   bool
	}{
		"it looked":                   {looks(says(runnertest.Found), 3), false, 1, false},
		"it does not tell":            {looks(says(runnertest.Found), -1), false, 1, false},
		"it looked the second time":   {looks(says(runnertest.Found), 0, 1), false, 2, false},
		"it never looked":             {looks(says(runnertest.Found), 0), false, 2, true},
		"it was sent back for more":   {looks(says("hm", runnertest.Found), 1, 0), false, 2, true},
		"nothing is there to look at": {looks(says("## implement.jsonl\n- path: .trellis/workflow.md, reason: x\n## check.jsonl\n- path: .trellis/workflow.md, reason: x\n"), 0), true, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			p := w.play("tiny", map[trellis.Role]part{trellis.Research: c.research})
			if c.empty {
				w.Git("rm", "-q", "greet.sh", "test.sh", "README.md")
				w.Git("commit", "-q", "-m", "empty")
			}
			res := w.planned()
			if res.Status != trellis.Ready || len(p.heard[trellis.Research]) != c.calls || strings.Contains(strings.Join(res.Report.Warnings, "\n"), warning) != c.warned {
				t.Fatalf("got %s, %v after %d calls, warned of %q", res.Status, res.Failure, len(p.heard[trellis.Research]), res.Report.Warnings)
			}
			if c.calls == 2 && name != "it was sent back for more" && !strings.Contains(p.heard[trellis.Research][1].Prompt, "without opening a single file") {
				t.Errorf("it was not told why:\n%s", p.heard[trellis.Research][1].Prompt)
			}
		})
	}
}

// Without useful research, a task gets only the base context, and prd.md says so. If research fails, the planning fails and leaves no
// planned files.
func TestUselessResearch(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		research part
		calls    int
		code     trellis.Code
	}{
		"prose":    {says("I found nothing of interest."), 2, ""},
		"silence":  {fails(trellis.EmptyOutput), 1, ""},
		"no key":   {fails(trellis.AgentAuth), 1, trellis.AgentAuth},
		"too long": {fails(trellis.TimeoutWall), 1, trellis.TimeoutWall},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			w.Site.Config.Verify = nil
			plan := with(runnertest.Steps(), "steps", []runnertest.Obj{runnertest.Steps()["steps"].([]runnertest.Obj)[0], {"id": "look_over", "prompt": "Look it over.", "llm_as_judge": true, "desired_outcome": "it says bye"}})
			p := w.play("small", map[trellis.Role]part{trellis.Research: c.research, trellis.Plan: says(plan)})
			res := w.planned()
			if code(res) != c.code || len(p.heard[trellis.Research]) != c.calls {
				t.Fatalf("got %s, %v after %d calls", res.Status, res.Failure, len(p.heard[trellis.Research]))
			}
			if c.code != "" {
				for _, name := range []string{"prd.md", "plan.json", "taskspec.json", "research.md", "implement.jsonl"} {
					none(w, res.Dir, name)
				}
				if len(p.heard[trellis.Plan]) > 0 || res.Status != trellis.Planning {
					t.Errorf("it went on: %s", res.Status)
				}
				return
			}
			w.holds("prd.md", w.File(res.Dir, "prd.md"), "This is a new area: no existing patterns were found to follow.")
			w.holds("implement.jsonl", w.File(res.Dir, "implement.jsonl"), ".trellis/workflow.md", "!greet.sh")
			w.holds("the warnings", strings.Join(res.Report.Warnings, "\n"), "base context only")
		})
	}
}

// In a project without commands that check it, a plan has to end with a step that is judged; otherwise it is sent back.
func TestProjectWithoutCommands(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles: {}\n")
	w.Site.Config.Verify = nil
	judged := runnertest.Steps()
	judged["steps"] = append(slices.Clone(judged["steps"].([]runnertest.Obj)[:1]), runnertest.Obj{"id": "look_over", "prompt": "Look it over.", "llm_as_judge": true, "desired_outcome": "it says bye"})
	p := w.play("small", map[trellis.Role]part{trellis.Research: says(strings.Replace(runnertest.Found, "- test: sh test.sh", "none found", 1)), trellis.Plan: says(runnertest.Steps(), judged)})
	res := w.planned()
	heard := p.heard[trellis.Plan]
	if res.Status != trellis.Ready || len(heard) != 2 || len(res.Report.Commands) > 0 {
		t.Fatalf("got %s, %v after %d plans", res.Status, res.Failure, len(heard))
	}
	w.holds("the second prompt", heard[1].Prompt, "this project has no command that checks it", "!# Confirmed commands\n")
}

// Edge C2: commands of config.yaml, or of --verify instead, count as confirmed even if research confirms none.
func TestPersonsCommandsAreConfirmed(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct{ config, flag []string }{
		"config.yaml":    {[]string{"sh test.sh"}, nil},
		"--verify":       {nil, []string{"sh test.sh"}},
		"both":           {[]string{"sh greet.sh"}, []string{"sh test.sh"}},
		"one can't run":  {[]string{"sh test.sh", "no-such-program --all"}, nil},
		"written around": {[]string{"sh test.sh\n"}, nil},
	}, "both", "one can't run") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			w.Site.Config.Verify = c.config
			p := w.play("small", map[trellis.Role]part{trellis.Research: says(strings.Replace(runnertest.Found, "- test: sh test.sh", "none found", 1))})
			res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye", Verify: c.flag})
			heard := p.heard[trellis.Plan]
			if err != nil || res.Status != trellis.Ready || len(heard) != 1 || !slices.Equal(res.Report.Commands, []string{"sh test.sh"}) {
				t.Fatalf("got %s, %v, %v after %d plans with %q", res.Status, res.Failure, err, len(heard), res.Report.Commands)
			}
			w.holds("the prompt", heard[0].Prompt, "# Confirmed commands")
		})
	}
}

// If no command decides, the report says so.
func TestNothingWasExecuted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: "+runnertest.Mend+"\ncheck: [{answer: \"looks good\\n\\nALL_CHECKS_FINISH\"}]\n"+runnertest.Met))
	w.Site.Config.Verify = []string{}
	dir := w.Hand("02-01-bye", lyingPRD)
	if res := w.Start(dir); res.Status != trellis.Review || res.Report.Executed {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.holds("report.md", w.File(dir, "report.md"), "**Nothing was executed**")
}
