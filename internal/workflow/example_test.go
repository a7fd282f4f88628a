package workflow_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// paging is a plan with every kind of step: a script with output, a prompt that is judged and verified, and tests.
const paging = `{"schema_version": 1, "title": "Add pagination", "summary": "Page the list endpoint", "requirements": ["limit and offset"], "design_decisions": [],
 "assumptions": [], "preconditions": [], "files": [{"path": "api/list.go", "change": "edit"}, {"path": "api/page.go", "change": "new"}],
 "vars": {"todo": "build/todo.txt"},
 "steps": [
  {"id": "find_callers", "type": "script", "command": "grep -rn ListItems --include=*.go . | cut -d: -f1 | sort -u", "output": "todo"},
  {"id": "add_params", "type": "prompt", "prompt": "Add limit and offset to ListItems.", "context": ["todo"], "verify": "go build ./...", "llm_as_judge": true, "covers": ["paging works"]},
  {"id": "run_tests", "type": "script", "command": "go test ./...", "depends_on": ["add_params"], "proof": {"type": "test"}, "timeout_seconds": 600}],
 "acceptance": [{"criterion": "GET /items?limit=2 returns two items", "verify": "go test -run TestPaging ./api", "level": "must", "covers": ["paging works"]}],
 "uncovered": [], "out_of_scope": [], "rollback": ["git revert"], "touches": ["api/**"]}`

// A typical plan loads both as the plan of a task and as a standalone file, and runs until its steps are proven.
func TestPlanOfAGoModule(t *testing.T) {
	t.Parallel()
	b := newBench(t, `{"id": "x", "command": "true"}`)
	b.plan, b.acts.Env = paging, append(os.Environ(), "GOFLAGS=-buildvcs=false") // a repository around the temporary folder is not the module's
	for _, task := range []bool{true, false} {
		l, problems := plan.Load(plan.LoadOptions{File: "plan.json", Task: task, Read: func(string) ([]byte, error) { return []byte(paging), nil }})
		if l == nil || len(problems) > 0 {
			t.Fatalf("task %t: %v", task, problems)
		}
	}
	b.put("go.mod", "module example.org/items\n\ngo 1.21\n")
	b.put("api/list.go", "package api\n\nfunc ListItems() []int { return []int{1, 2, 3} }\n")
	b.put("main.go", "package main\n\nimport \"example.org/items/api\"\n\nfunc main() { println(len(api.ListItems())) }\n")
	b.put("api/page_test.go", "package api\n\nimport \"testing\"\n\nfunc TestPaging(t *testing.T) {\n\tif n := len(ListItems(2, 0)); n != 2 {\n\t\tt.Error(n)\n\t}\n}\n")
	var shown []string
	tries := 0
	b.agent = func(q call) agentcall.Reply {
		if q.Role == "grade" {
			return graded(tries == 2, "main.go does not build")
		}
		slots, _, _, err := b.told("implement", q.Session, q.Data)
		if err != nil {
			t.Error(err)
		}
		shown = append(shown, slots["context"]+slots["tries"])
		b.put("api/list.go", "package api\n\nfunc ListItems(limit, offset int) []int { return []int{1, 2, 3}[offset : offset+limit] }\n")
		if tries++; tries == 2 {
			b.put("main.go", "package main\n\nimport \"example.org/items/api\"\n\nfunc main() { println(len(api.ListItems(3, 0))) }\n")
		}
		return agentcall.Reply{Text: *b.said("Done."), Session: "s"}
	}
	rep := b.do(workflow.Options{})
	if rep.Failure() != nil || b.ends() != "find_callers=done add_params=done run_tests=done" || b.roles() != "implement grade implement grade" {
		t.Fatalf("got %+v, asked %s", rep, b.roles())
	}
	if got := b.read("build/todo.txt"); got != "./api/list.go\n./api/page_test.go\n./main.go\n" {
		t.Errorf("todo is %q", got)
	}
	if !strings.Contains(shown[0], "./api/list.go\n") || !strings.Contains(shown[1], "main.go does not build") {
		t.Errorf("the agent was shown %q", shown)
	}
	var kinds []string
	for _, p := range b.proofs {
		kinds = append(kinds, p.Path+" "+p.Kind+" "+p.Ran.Command)
	}
	if want := []string{"add_params script go build ./...", "run_tests test go test ./..."}; !slices.Equal(kinds, want) {
		t.Errorf("proven is %q", kinds)
	}
	b.run = filepath.Join(t.TempDir(), "run")
	if rep = b.do(workflow.Options{Only: "run_tests"}); rep.Done != 1 || rep.Skipped != 2 {
		t.Errorf("the tests alone: %+v", rep)
	}
}

// Steps can be selected within rounds of nested loops too.
func TestChosenRounds(t *testing.T) {
	const steps = `{"id": "o", "repeat": 2, "as": "x", "steps": [{"id": "i", "repeat": 3, "as": "y", "command": "echo {{x}}{{y}} >> log"}, {"id": "e", "command": "echo e{{x}} >> log"}]}, {"id": "z", "command": "echo z >> log"}`
	for name, c := range map[string]struct {
		o    workflow.Options
		want string
	}{
		"from":      {workflow.Options{From: "o.2.i.2"}, "22 23 e2 z"},
		"by number": {workflow.Options{From: "1.2.1.2", To: "1"}, "22 23 e2"},
		"to":        {workflow.Options{To: "o.1.i.2"}, "11 12"},
		"between":   {workflow.Options{From: "o.1.i.3", To: "o.2.i.1"}, "13 e1 21"},
		"one":       {workflow.Options{Only: "o.2.e"}, "e2"},
		"to last":   {workflow.Options{To: "z", Only: "z"}, "z"},
	} {
		b := newBench(t, steps)
		if rep := b.do(c.o); rep.Failure() != nil || strings.Join(strings.Fields(b.read("log")), " ") != c.want {
			t.Errorf("%s: log %q, want %s: %+v", name, b.read("log"), c.want, rep)
		}
	}
}

// A message is reported unchanged; a command without output reports none; a loop without items succeeds, and is reported.
func TestWhatStepsTell(t *testing.T) {
	b := newBench(t, `{"id": "m", "message": "It's {{v}}."}, {"id": "quiet", "command": "true"}, {"id": "none", "for_each": [], "command": "exit 1"}, {"id": "both", "command": "echo out; sleep 0.2; echo err >&2; sleep 0.2; printf end", "timeout_seconds": 60}`, `"vars": {"v": "$&"}`)
	heard := b.hears()
	if rep := b.do(workflow.Options{}); rep.Done != 4 {
		t.Errorf("got %+v", rep)
	}
	var got []string
	for _, e := range heard() {
		if e.Type == workflow.StepOutput {
			got = append(got, e.Step+" "+e.Stream+" "+e.Text)
		}
	}
	if want := "m log It's $&.,none log its loop has no items: nothing was done,both stdout out,both stderr err,both stdout end"; strings.Join(got, ",") != want {
		t.Errorf("got %q", got)
	}
}
