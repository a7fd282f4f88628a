package runner_test

import (
	"context"
	"fmt"
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

// with sets a value of an answer and returns the answer.
func with(o runnertest.Obj, key string, value any) runnertest.Obj {
	o[key] = value
	return o
}

// lines returns n lines, each with its number.
func lines(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format+"\n", i)
	}
	return b.String()
}

func verdictOn(size, details string) runnertest.Obj {
	return runnertest.Obj{"decision": "accept", "category": "", "details": details, "suggestions": slices.Repeat([]string{details[:min(len(details), 200)]}, 9), "size": size, "confidence": 1}
}

// code returns the code of a planning's failure, "" without one.
func code(res runner.PlanResult) trellis.Code {
	if res.Failure == nil {
		return ""
	}
	return trellis.Code(res.Failure.Code)
}

// However long an agent's answer is, the journal can record it: an answer that is too large is sent back as such. Some characters take six
// bytes of a record.
func TestMuchToSayWhilePlanning(t *testing.T) {
	soak.Only(t, "TestMuchToSay")
	t.Parallel()
	angles, accents := strings.Repeat("<&>", 2000), strings.Repeat("äöü\"\\\n", 1500)
	refused := runnertest.Verdict(false, "add_flag "+angles)["answer"]
	keys := runnertest.Obj{"decision": "accept"}
	for i := range 500 {
		keys[fmt.Sprintf("%s%03d", strings.Repeat("<", 600), i)] = 1
	}
	for name, c := range soak.Rows(t, map[string]struct {
		role   trellis.Role
		says   []any
		status trellis.Status
		code   trellis.Code
		calls  int
	}{
		"a plan of angles":             {trellis.Plan, []any{with(runnertest.Steps(), "summary", angles)}, trellis.Ready, "", 1},
		"a plan of accents":            {trellis.Plan, []any{with(runnertest.Steps(), "summary", accents)}, trellis.Ready, "", 1},
		"a plan that is too large":     {trellis.Plan, []any{with(runnertest.Steps(), "summary", strings.Repeat("x", 60<<10))}, trellis.Planning, trellis.AgentProtocol, 3},
		"too large by its angles":      {trellis.Plan, []any{with(runnertest.Steps(), "summary", strings.Repeat("<", 40<<10)), runnertest.Steps()}, trellis.Ready, "", 2},
		"large by its spaces":          {trellis.Plan, []any{strings.ReplaceAll(said(runnertest.Steps()).Text, `,"`, ","+strings.Repeat(" ", 4<<10)+`"`)}, trellis.Ready, "", 1},
		"paths that are not there":     {trellis.Research, []any{strings.Replace(runnertest.Found, "## check", lines(1500, "- path: gone/%04d/<<<<<<<<.go, reason: x")+"## check", 1)}, trellis.Ready, "", 1},
		"commands that can't run":      {trellis.Research, []any{runnertest.Found + lines(1500, "- test: `gone-%04d <<<<<<<<`")}, trellis.Ready, "", 1},
		"paths not to be modified":     {trellis.Research, []any{runnertest.Found + "## Risks\n" + lines(1500, "- do not modify: `gone/%04d/x.go`, reason: x")}, trellis.Ready, "", 1},
		"a scope without end":          {trellis.Research, []any{strings.Replace(runnertest.Found, "greet\n##", strings.Repeat("g", 9000)+"\n##", 1)}, trellis.Ready, "", 1},
		"keys without end":             {trellis.Evaluate, []any{keys}, trellis.Planning, trellis.AgentProtocol, 2},
		"details without end":          {trellis.Evaluate, []any{verdictOn("small", angles)}, trellis.Ready, "", 1},
		"a rejection without end":      {trellis.Evaluate, []any{with(with(verdictOn("small", angles), "decision", "reject"), "category", "unclear")}, trellis.Rejected, "", 1},
		"verdicts without end":         {trellis.Judge, []any{refused}, trellis.Waiting, "", 3},
		"a TaskSpec of many mistakes":  {trellis.TaskSpec, []any{runnertest.Obj{"user_intent": "x", "goals": strings.Split(strings.Repeat(" ,", 3000), ",")}}, trellis.Ready, "", 1},
		"a TaskSpec that is too large": {trellis.TaskSpec, []any{runnertest.Obj{"user_intent": strings.Repeat("x", 20<<10)}}, trellis.Ready, "", 2},
	}, "a plan of angles", "a plan that is too large", "large by its spaces", "commands that can't run", "details without end", "verdicts without end", "a TaskSpec of many mistakes") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			p := w.play("small", map[trellis.Role]part{trellis.Plan: says(uncovered())})
			p.parts[c.role] = says(c.says...)
			res := w.planned()
			if res.Status != c.status || code(res) != c.code {
				t.Fatalf("got %s, %.600v", res.Status, res.Failure)
			}
			if n := len(p.heard[c.role]); n != c.calls {
				t.Errorf("it was asked %d times, want %d", n, c.calls)
			}
			if strings.Contains(name, "too large") && !strings.Contains(w.File(res.Dir, ".plan-log"), "may take at most") {
				t.Errorf("nothing says why it came back:\n%.3000s", w.File(res.Dir, ".plan-log"))
			}
			if n := len(res.Report.Warnings); n > 30 {
				t.Errorf("there are %d warnings", n)
			}
		})
	}
}

// The same if all agents and a person say much: the journal can record what each call is asked.
func TestEverybodyHasMuchToSay(t *testing.T) {
	soak.Only(t, "TestMuchToSay")
	t.Parallel()
	angles := strings.Repeat("<", 1200)
	person := slices.Repeat([]string{angles[:530]}, 12) // 38 KB of a record
	var ghosts []runnertest.Obj
	for i := range 20 {
		ghosts = append(ghosts, runnertest.Obj{"path": fmt.Sprintf("%s%02d", angles[:300], i), "change": "edit"})
	}
	research := runnertest.Found + lines(400, "- test: `sh test.sh %03d`") + "## Risks\n" + lines(400, "- do not modify: `<<<<<<<<<</%03d`, reason: x")
	doc := func() runnertest.Obj {
		return runnertest.Obj{"title": "Say bye", "summary": angles + angles, "requirements": []string{"bye"}, "acceptance": []runnertest.Obj{{"criterion": "it says bye"}}}
	}
	for _, size := range soak.Of([]string{"small", "tiny"}, "tiny") {
		t.Run(size, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			w.Site.Config.Planning.MaxSteps = 1000
			p := w.play(size, map[trellis.Role]part{
				trellis.Evaluate: says(with(verdictOn(size, angles), "more", 1), verdictOn(size, angles)),
				trellis.Research: says("nothing", research), trellis.PRD: says(with(doc(), "more", 1), doc()),
				trellis.TaskSpec: says(runnertest.Obj{"user_intent": angles + angles}),
				trellis.Judge:    says(runnertest.Verdict(false, "add_flag "+strings.Repeat("<&>", 2000))["answer"])})
			p.parts[trellis.Plan] = func(_ context.Context, r agents.Request, n int) (*agents.Result, error) {
				plan := with(uncovered(), "summary", angles)
				for i, line := range confirmed(r.Prompt) {
					plan["steps"] = append(plan["steps"].([]runnertest.Obj), runnertest.Obj{"id": fmt.Sprintf("check_%d", i), "command": line, "proof": runnertest.Obj{"type": "test"}})
				}
				if n < 3 {
					plan["files"] = ghosts
				}
				return said(plan), nil
			}
			res, err := w.Site.PlanRunner().Plan(context.Background(), runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: "say bye", Constraints: person})
			if err != nil || res.Failure != nil {
				t.Fatalf("got %s, %v, %.900v", res.Status, err, res.Failure)
			}
			if n := len(p.heard[trellis.Plan]); size == "small" && (n != 5 || res.Status != trellis.Waiting) || size == "tiny" && len(p.heard[trellis.PRD]) != 2 {
				t.Errorf("got %s after %d plans", res.Status, n)
			}
		})
	}
}

// confirmed returns the commands with which a planner is told to end its plan.
func confirmed(prompt string) (commands []string) {
	_, rest, _ := strings.Cut(prompt, "<data name=\"commands\"")
	rest, _, _ = strings.Cut(rest, "</data")
	for line := range strings.Lines(rest) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "sh ") {
			commands = append(commands, line)
		}
	}
	return commands
}
