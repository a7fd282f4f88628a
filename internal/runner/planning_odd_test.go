package runner_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"

	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A TaskSpec or plan that is ambiguous or not UTF-8 is sent back, other odd answers are used, and no file has control characters.
func TestOddAnswers(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 100) + "1" + strings.Repeat("}", 100)
	dup := func(v any, from, to string) string { return strings.Replace(said(v).Text, from, to, 1) }
	for name, c := range soak.Rows(t, map[string]struct {
		role  trellis.Role
		says  []any
		calls int
	}{
		"a TaskSpec with a key twice":     {trellis.TaskSpec, []any{`{"user_intent": "x", "user_intent": "y"}`, runnertest.Spec()}, 2},
		"a TaskSpec without a bottom":     {trellis.TaskSpec, []any{`{"user_intent": "x", "actions": [{"tool": "t", "params": ` + deep + `}]}`, runnertest.Spec()}, 2},
		"a TaskSpec that is not UTF-8":    {trellis.TaskSpec, []any{"{\"user_intent\": \"caf\xe9\"}", runnertest.Spec()}, 2},
		"a plan with a key twice":         {trellis.Plan, []any{dup(runnertest.Steps(), `"title":`, `"title":"x","title":`), runnertest.Steps()}, 2},
		"a plan that is not UTF-8":        {trellis.Plan, []any{dup(runnertest.Steps(), "greet.sh says", "caf\xe9 says"), runnertest.Steps()}, 2},
		"a plan with control characters":  {trellis.Plan, []any{dup(runnertest.Steps(), `"title":"Say bye"`, `"title":"Say\u0000\u001b[31m bye\u202e"`)}, 1},
		"a summary of control characters": {trellis.Plan, []any{dup(runnertest.Steps(), "greet.sh says", `\u0000\u001b[31m\u202e`)}, 1},
		"a verdict that is not UTF-8":     {trellis.Judge, []any{dup(runnertest.Verdict(true, "")["answer"], `"feedback":""`, "\"feedback\":\"caf\xe9\"")}, 1},
		"a verdict with a key twice":      {trellis.Judge, []any{dup(runnertest.Verdict(true, "")["answer"], `"pass":true`, `"pass":false,"pass":true`)}, 1},
		"an evaluation that is not UTF-8": {trellis.Evaluate, []any{dup(runnertest.Accepted("small")["answer"], "A flag.", "caf\xe9")}, 1},
		"research that is not UTF-8":      {trellis.Research, []any{runnertest.Found + "\n## Technical Notes\ncaf\xe9\x00\n"}, 1},
	}, "a TaskSpec without a bottom", "a plan with a key twice", "a plan that is not UTF-8", "an evaluation that is not UTF-8") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles: {}\n")
			p := w.play("small", map[trellis.Role]part{c.role: says(c.says...)})
			res := w.planned()
			if res.Status != trellis.Ready || len(p.heard[c.role]) != c.calls {
				t.Fatalf("got %s, %v after %d calls", res.Status, res.Failure, len(p.heard[c.role]))
			}
			for _, name := range []string{"prd.md", "plan.json", "task.json", "taskspec.json"} {
				if text := w.File(res.Dir, name); strings.ContainsAny(text, "\x00\x1b") {
					t.Errorf("%s holds control characters", name)
				}
			}
		})
	}
}
