package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// there reports whether the repository of the tests has path; reading "broken" fails.
func there(path string) (bool, error) {
	if path == "broken" {
		return false, errors.New("permission denied")
	}
	return slices.Contains([]string{"api/list.go", "Makefile", "package.json", "docs"}, path), nil
}

// missing returns why line can't be run, or "" if its program is one of the few that are installed.
func missing(line string) string {
	for _, program := range []string{"go", "grep", "test", "cat", "git"} {
		if strings.HasPrefix(line, program+" ") {
			return ""
		}
	}
	return "the program " + strings.Fields(line)[0] + " is not installed"
}

func check(t *testing.T, name, doc string, f plan.Facts, want string) {
	t.Helper()
	p, problems := plan.Parse([]byte(doc))
	if p == nil {
		t.Fatalf("%s: %s", name, told(problems))
	}
	same(t, name, told(p.Check(f)), want)
}

// In each row, steps begin in line 3 of the plan.
func TestCheckSteps(t *testing.T) {
	for _, tt := range []struct{ name, steps, want string }{
		{"fine", step, ""},
		{"same id", step + ",\n" + step, "4 /steps/1/id: a is the id of another step too, in line 3"},
		{"same id in a group", step + ",\n" + `{"id": "g", "steps": [` + "\n" + step + `]}`, "5 /steps/1/steps/0/id: a is the id of another step too, in line 3"},
		{"same id as its group", `{"id": "a", "steps": [` + "\n" + step + `]}`, "4 /steps/0/steps/0/id: a is the id of another step too, in line 3"},

		{"a step without anything", `{"id": "a"}`, "3 /steps/0: step a: has nothing to do"},
		{"script without command", `{"id": "a", "type": "script"}`, "3 /steps/0: step a: a script step needs command"},
		{"prompt without prompt", `{"id": "a", "type": "prompt", "llm_as_judge": true}`, "3 /steps/0: step a: a prompt step needs prompt"},
		{"log without message", `{"id": "a", "type": "log"}`, "3 /steps/0: step a: a log step needs message"},
		{"workflow without workflow", `{"id": "a", "type": "workflow"}`, "3 /steps/0: step a: a workflow step needs workflow"},
		{"group without steps", `{"id": "a", "type": "group"}`, "3 /steps/0: step a: a group step needs steps"},
		{"approval without title", `{"id": "a", "type": "approval"}`, "3 /steps/0: step a: an approval step needs a title"},
		{"approval", `{"id": "a", "type": "approval", "title": "Go on?"}`, ""},
		{"type and field differ", `{"id": "a", "type": "script", "prompt": "p"}`, "3 /steps/0/prompt: step a: prompt does not apply to a script step\n3 /steps/0: step a: a script step needs command"},
		{"two things to do", `{"id": "a", "command": "ls", "prompt": "p"}`, "3 /steps/0/prompt: step a: prompt does not apply to a script step"},
		{"group with a command", `{"id": "a", "command": "ls", "steps": [` + "\n" + step2 + `]}`, "3 /steps/0/steps: step a: steps does not apply to a script step"},
		{"judge of a script", `{"id": "a", "command": "ls", "llm_as_judge": true}`, "3 /steps/0/llm_as_judge: step a: llm_as_judge does not apply to a script step"},
		{"no judge of a script", `{"id": "a", "command": "ls", "llm_as_judge": false}`, ""},
		{"healing of a prompt", `{"id": "a", "prompt": "p", "llm_as_judge": true, "self_healing": true}`, "3 /steps/0/self_healing: step a: self_healing does not apply to a prompt step"},
		{"context of a script", `{"id": "a", "command": "ls", "context": ["todo"]}`, "3 /steps/0/context: step a: context does not apply to a script step\n3 /steps/0/context/0: step a: context names todo, which is not one of vars"},
		{"agent of a script", `{"id": "a", "command": "ls", "agent": "x", "model": "y", "session": "fresh", "allowed_tools": []}`,
			"3 /steps/0/agent: step a: agent does\n3 /steps/0/model: step a: model does\n3 /steps/0/session: step a: session does\n3 /steps/0/allowed_tools: step a: allowed_tools does"},
		{"output of a log", `{"id": "a", "message": "m", "output": "todo"}`, "3 /steps/0/output: step a: output does not apply to a log step\n3 /steps/0/output: step a: output names todo"},
		{"timeout of a group", `{"id": "a", "timeout_seconds": 1, "steps": [` + "\n" + step2 + `]}`, "3 /steps/0/timeout_seconds: step a: timeout_seconds does not apply to a group step"},
		{"timeout of another file", `{"id": "a", "workflow": "w.json", "timeout_seconds": 1}`, "3 /steps/0/timeout_seconds: step a: timeout_seconds does not apply to a workflow step"},
		{"timeout of a log", `{"id": "a", "message": "m", "timeout_seconds": 1}`, "3 /steps/0/timeout_seconds: step a: timeout_seconds does not apply to a log step"},
		{"check of an approval", `{"id": "a", "type": "approval", "title": "t", "verify": "go vet"}`, "3 /steps/0/verify: step a: verify does not apply to an approval step"},
		{"vars of a prompt", `{"id": "a", "prompt": "p", "llm_as_judge": true, "vars": {"x": "y"}}`, "3 /steps/0/vars: step a: vars does not apply to a prompt step"},
		{"parallel of a prompt", `{"id": "a", "prompt": "p", "llm_as_judge": true, "parallel": true}`, "3 /steps/0/parallel: step a: parallel does not apply to a prompt step"},
		{"loop of an approval", `{"id": "a", "type": "approval", "title": "t", "repeat": 2}`, "3 /steps/0/repeat: step a: repeat does not apply to an approval step"},
		{"attempts without judge", `{"id": "a", "prompt": "p", "verify": "go vet", "max_judge_attempts": 2}`, "~3 /steps/0/max_judge_attempts: step a: max_judge_attempts has no effect without llm_as_judge"},
		{"attempts without healing", `{"id": "a", "command": "ls", "max_healing_attempts": 2}`, "~3 /steps/0/max_healing_attempts: step a: max_healing_attempts has no effect"},

		{"two loops", `{"id": "a", "command": "ls", "for_each": ["x"], "repeat": 2}`, "3 /steps/0/repeat: step a: has for_each and repeat"},
		{"variable without loop", `{"id": "a", "command": "ls", "as": "x"}`, "3 /steps/0/as: step a: as names the variable of a loop, and there is none"},
		{"pool without loop", `{"id": "a", "command": "ls", "concurrency": 2}`, "3 /steps/0/concurrency: step a: concurrency is for a loop"},
		{"empty list", `{"id": "a", "command": "ls", "for_each": []}`, "~3 /steps/0/for_each: step a: the list is empty"},
		{"a list that counts", `{"id": "a", "command": "ls", "for_each": ["1", "2", "3"]}`, "~3 /steps/0/for_each: step a: the list only counts"},
		{"one item", `{"id": "a", "command": "ls", "for_each": ["1"]}`, ""},
		{"the same variable in a loop in a loop", `{"id": "a", "repeat": 2, "steps": [` + "\n" + `{"id": "b", "command": "ls {{item}}", "repeat": 2}]}`, "~4 /steps/0/steps/0: step b: its loop hides the variable item"},
		{"two variables in a loop in a loop", `{"id": "a", "repeat": 2, "as": "x", "steps": [` + "\n" + `{"id": "b", "command": "ls {{item}} {{x}}", "for_each": "ls {{x}}"}]}`, ""},
		{"loops without end", `{"id": "a", "repeat": 5000, "steps": [` + "\n" + `{"id": "b", "command": "ls", "repeat": 5000}]}`, "2 /steps: its loops make more than 5000 steps of it\n~4 /steps/0/steps/0: step b: its loop hides"},

		{"no dependency", step + `,` + "\n" + `{"id": "b", "command": "ls", "depends_on": []}`, ""},
		{"itself", `{"id": "a", "command": "ls", "depends_on": ["a"]}`, "3 /steps/0/depends_on/0: step a depends on itself"},
		{"unknown", step + ",\n" + `{"id": "b", "command": "ls", "depends_on": ["a", "c"]}`, "4 /steps/1/depends_on/1: step b depends on c, which is not a step"},
		{"a cycle", `{"id": "a", "command": "ls", "depends_on": ["b"]},` + "\n" + `{"id": "b", "command": "ls", "depends_on": ["c"]},` + "\n" + `{"id": "c", "command": "ls", "depends_on": ["a"]}`,
			"3 /steps/0/depends_on: these steps wait for each other: a → b → c → a"},
		{"a cycle through the step before", `{"id": "a", "command": "ls", "depends_on": ["b"]},` + "\n" + `{"id": "b", "command": "ls"}`, "3 /steps/0/depends_on: these steps wait for each other: a → b → a"},
		{"a cycle that others wait for", `{"id": "x", "command": "ls", "depends_on": ["b"]},` + "\n" + `{"id": "a", "command": "ls", "depends_on": ["b"]},` + "\n" + `{"id": "b", "command": "ls"}`,
			"4 /steps/1/depends_on: these steps wait for each other: b → a → b"},
		{"two cycles", `{"id": "a", "command": "ls", "depends_on": ["b"]},` + "\n" + `{"id": "b", "command": "ls"},` + "\n" + `{"id": "c", "command": "ls", "depends_on": ["d"]},` + "\n" + `{"id": "d", "command": "ls"}`,
			"3 /steps/0/depends_on: these steps wait for each other: a → b → a\n5 /steps/2/depends_on: these steps wait for each other: c → d → c"},
		{"a cycle in a group", `{"id": "g", "steps": [` + "\n" + `{"id": "a", "command": "ls", "depends_on": ["b"]},` + "\n" + `{"id": "b", "command": "ls"}]}`, "4 /steps/0/steps/0/depends_on: these steps wait for each other: a → b → a"},
		{"into a group", `{"id": "g", "steps": [` + "\n" + step + `]},` + "\n" + `{"id": "b", "command": "ls", "depends_on": ["a"]}`, "5 /steps/1/depends_on/0: step b depends on a, which is in another list of steps"},
		{"out of a group", step + ",\n" + `{"id": "g", "steps": [` + "\n" + `{"id": "b", "command": "ls", "depends_on": ["a"]}]}`, "5 /steps/1/steps/0/depends_on/0: step b depends on a, which is in another list of steps"},

		{"placeholders", `{"id": "a", "title": "{{t}}", "prompt": "{{p}}", "verify": "go {{v}}", "for_each": "ls {{f}} {{item}}"}`,
			"3 /steps/0/title: step a: {{t}} in title is neither one of vars nor the variable of a loop\n3 /steps/0/prompt: step a: {{p}}\n3 /steps/0/verify: step a: {{v}}\n3 /steps/0/for_each: step a: {{f}}\n3 /steps/0/for_each: step a: {{item}} in for_each"},
		{"placeholders elsewhere", `{"id": "a", "message": "{{m}}"},` + "\n" + `{"id": "b", "workflow": "{{w}}.json", "vars": {"x": "{{v}}"}, "for_each": ["{{i}}"]},` + "\n" + `{"id": "c", "command": "ls {{c}}", "proof": {"type": "file", "path": "{{p}}"}}`,
			"3 /steps/0/message: step a: {{m}}\n4 /steps/1/workflow: step b: {{w}}\n4 /steps/1/vars/x: step b: {{v}}\n4 /steps/1/for_each/0: step b: {{i}}\n5 /steps/2/proof/path: step c: {{p}} in proof\n5 /steps/2/command: step c: {{c}}"},
		{"what is not a placeholder", `{"id": "a", "command": "echo {{ x }} ${{ x }} ${{x}} {{.Go}} {{x-y}} {{}} {x} $x", "description": "{{nothing}}"}`, ""},
		{"null for another file", `{"id": "a", "workflow": "w.json", "vars": {"x": null}}`, "3 /steps/0/vars/x: x has no value"},

		{"proof without command", `{"id": "a", "prompt": "p", "proof": {"type": "test"}}`, "3 /steps/0/proof: step a: proof test needs a command: give the step verify"},
		{"proof by verify", `{"id": "a", "prompt": "p", "verify": "go test ./x", "proof": {"type": "test"}}`, ""},
		{"proof of a file without path", `{"id": "a", "command": "ls", "proof": {"type": "file", "contains": "x"}}`, "3 /steps/0/proof: step a: proof file needs path"},
		{"proof of a file outside", `{"id": "a", "command": "ls", "proof": {"type": "file", "path": "../x"}}`, "3 /steps/0/proof/path: step a: ../x leads out of the repository"},
		{"path of a test", `{"id": "a", "command": "go test", "proof": {"type": "test", "path": "x"}}`, "3 /steps/0/proof: step a: path, contains and sha256 are for proof file, not test"},
		{"parts of a test", `{"id": "a", "command": "go test", "proof": {"type": "test", "all": [{"type": "manual"}]}}`, "3 /steps/0/proof: step a: all and any are for proof composite, not test"},
		{"nothing together", `{"id": "a", "command": "ls", "proof": {"type": "composite"}}`, "3 /steps/0/proof: step a: proof composite needs all or any"},
		{"a part of a proof", `{"id": "a", "command": "ls", "proof": {"type": "composite", "any": [{"type": "manual"}, {"type": "file"}]}}`, "3 /steps/0/proof/any/1: step a: proof file needs path"},
		{"proof of an approval", `{"id": "a", "type": "approval", "title": "t", "proof": {"type": "manual"}}`, ""},

		{"a check that may fail", `{"id": "a", "command": "go test", "proof": {"type": "test"}, "continue_on_error": true}`, "3 /steps/0/continue_on_error: step a: a check that may fail is none"},
		{"checks that can't fail", `{"id": "a", "prompt": "p", "verify": "true"},` + "\n" + `{"id": "b", "command": "echo ok", "proof": {"type": "build"}},` + "\n" + `{"id": "c", "command": "go build", "verify": "go test || true"},` + "\n" +
			`{"id": "d", "prompt": "p", "verify": "set -e; true"},` + "\n" + `{"id": "e", "prompt": "p", "verify": "exit 0"},` + "\n" + `{"id": "f", "prompt": "p", "verify": ":"},` + "\n" + `{"id": "g", "prompt": "p", "verify": "[ 1 = 1 ]"}`,
			"3 /steps/0/verify: step a: `true` can't fail, so it proves nothing\n4 /steps/1/command: step b: `echo ok` can't\n5 /steps/2/verify: step c: `go test || true` can't\n6 /steps/3/verify: step d: `set -e; true` can't\n7 /steps/4/verify: \n8 /steps/5/verify: \n9 /steps/6/verify: "},
		{"a command that can't fail is not a check", `{"id": "a", "command": "echo ok"}`, ""},
		{"a script that proves itself", `{"id": "a", "command": "true", "proof": {"type": "script"}},` + "\n" + `{"id": "b", "command": "true", "verify": "go vet", "proof": {"type": "script"}}`, "3 /steps/0/command: step a: `true` can't fail"},
		{"a person looks", `{"id": "a", "command": "echo ok", "verify": "true", "proof": {"type": "manual"}}`, ""},
		{"programs that are missing", `{"id": "a", "prompt": "p", "verify": "cargo test"},` + "\n" + `{"id": "b", "command": "npm test", "proof": {"type": "test"}}`,
			"3 /steps/0/verify: step a: `cargo test`: the program cargo is not installed\n4 /steps/1/command: step b: `npm test`: the program npm is not installed"},
		{"a program that only works", `{"id": "a", "command": "cargo run"}`, ""},
	} {
		check(t, tt.name, doc("", tt.steps), plan.Facts{Exists: there, Missing: missing}, tt.want)
	}
}

// The hint for an unknown dependency names a step with a similar id, but not the step itself, which can't wait for itself.
func TestCheckMeant(t *testing.T) {
	for _, tt := range []struct{ steps, hint string }{
		{`{"id": "a", "command": "ls", "depends_on": ["b"]}`, ""},
		{`{"id": "build", "command": "ls", "depends_on": ["biuld"]}`, ""},
		{`{"id": "a", "command": "ls"},` + "\n" + `{"id": "c", "command": "ls", "depends_on": ["b"]}`, ""},
		{`{"id": "built", "command": "ls"},` + "\n" + `{"id": "build", "command": "ls", "depends_on": ["bulit"]}`, "did you mean built?"},
	} {
		p, _ := plan.Parse([]byte(doc("", tt.steps)))
		if got := p.Check(plan.Facts{}); len(got) != 1 || got[0].Hint != tt.hint {
			t.Errorf("%s: got %+v, want the hint %q", tt.steps, got, tt.hint)
		}
	}
}

const step2 = `{"id": "b", "prompt": "p", "llm_as_judge": true}`

func TestCheckVars(t *testing.T) {
	vars := func(s string) string { return "\"vars\": {" + s + "},\n" }
	for _, tt := range []struct{ name, vars, steps, want string }{
		{"declared", `"dir": "api", "todo": "build/{{item}}.txt"`, `{"id": "a", "command": "ls {{dir}} {{item}}", "output": "todo", "for_each": "ls {{dir}}"}`, ""},
		{"null", `"dir": null`, `{"id": "a", "command": "ls {{dir}}"}`, "2 /vars/dir: dir has no value: a task's plan has to set every value"},
		{"nearest", `"todo": "x.txt"`, `{"id": "a", "command": "ls {{tood}}"}`, "4 /steps/0/command: step a: {{tood}} in command is neither"},
		{"not replaced in a value", `"a": "x {{b}}", "b": "y"`, `{"id": "a", "command": "ls {{a}}"}`, "~2 /vars/a: {{b}} in the value of a var stays as it is"},
		{"unknown output", `"todo": "x.txt"`, `{"id": "a", "command": "ls", "output": "todoo"}`, "4 /steps/0/output: step a: output names todoo, which is not one of vars"},
		{"unknown in a path", `"todo": "build/{{nope}}.txt"`, `{"id": "a", "command": "ls", "output": "todo"}`, "4 /steps/0/output: step a: {{nope}} in output is neither"},
		{"output outside", `"todo": "/tmp/x.txt"`, `{"id": "a", "command": "ls", "output": "todo"}`, "4 /steps/0/output: step a: output names todo, whose value /tmp/x.txt leads out of the repository"},
		{"one file for all rounds", `"todo": "x.txt"`, `{"id": "a", "command": "ls", "output": "todo", "repeat": 2}`, "~4 /steps/0/output: step a: every round of the loop writes the same file, x.txt"},
		{"context that an earlier step writes", `"todo": "x.txt"`, `{"id": "a", "command": "ls", "output": "todo"},` + "\n" + `{"id": "b", "prompt": "p", "llm_as_judge": true, "context": ["todo"]}`, ""},
		{"context that is there", `"list": "api/list.go"`, `{"id": "b", "prompt": "p", "llm_as_judge": true, "context": ["list"]}`, ""},
		{"context that nobody writes", `"todo": "x.txt"`, `{"id": "b", "prompt": "p", "llm_as_judge": true, "context": ["todo"]},` + "\n" + `{"id": "a", "command": "ls", "output": "todo"}`, "~4 /steps/0/context/0: step b: no step before it writes x.txt"},
		{"loop variable that is a var", `"item": "x"`, `{"id": "a", "command": "ls {{item}}", "repeat": 2}`, "4 /steps/0: step a: the loop's variable item is one of vars too"},
	} {
		check(t, tt.name, doc(vars(tt.vars), tt.steps), plan.Facts{Exists: there}, tt.want)
	}
	p, _ := plan.Parse([]byte(doc(vars(`"todo": "x"`), `{"id": "a", "command": "ls {{tood}}"}`)))
	if got := p.Check(plan.Facts{})[0]; got.Hint != "did you mean {{todo}}?" || got.ForModel() != got.Pointer+": "+got.Message+" (did you mean {{todo}}?)" {
		t.Errorf("got %+v", got)
	}
}

func TestCheckFiles(t *testing.T) {
	for _, tt := range []struct{ files, want string }{
		{`{"path": "api/list.go", "change": "edit"}, {"path": "api/page.go", "change": "new"}, {"path": "docs", "change": "delete"}`, ""},
		{`{"path": "api/page.go", "change": "edit"}`, "2 /files/0/path: api/page.go does not exist, so the plan can't edit it"},
		{`{"path": "api/page.go", "change": "delete"}`, "2 /files/0/path: api/page.go does not exist, so the plan can't delete it"},
		{`{"path": "api/list.go", "change": "new"}`, "~2 /files/0/path: api/list.go is there already"},
		{`{"path": "api/list.go", "change": "edit"}, {"path": "./api//list.go", "change": "edit"}`, "2 /files/1/path: ./api//list.go is in the list twice"},
		{`{"path": "../x", "change": "new"}`, "2 /files/0/path: ../x leads out of the repository"},
		{`{"path": "a/../../x", "change": "new"}`, "2 /files/0/path: a/../../x leads out of the repository"},
		{`{"path": "/etc/passwd", "change": "edit"}`, "2 /files/0/path: /etc/passwd leads out of the repository"},
		{`{"path": ".git/config", "change": "edit"}`, "2 /files/0/path: .git/config belongs to git"},
		{`{"path": ".git", "change": "delete"}`, "2 /files/0/path: .git belongs to git"},
		{`{"path": ".", "change": "edit"}`, "2 /files/0/path: . is the whole repository"},
		{`{"path": "api\\list.go", "change": "edit"}`, `2 /files/0/path: api\list.go has to be written with /`},
		{`{"path": "{{x}}", "change": "new"}`, "2 /files/0/path: {{x}} is to be written without placeholders"},
		{`{"path": "broken", "change": "edit"}`, "2 /files/0/path: looking for broken: permission denied"},
	} {
		check(t, tt.files, doc("\"files\": ["+tt.files+"],\n", step), plan.Facts{Exists: there}, tt.want)
	}
	check(t, "touches", doc("\"touches\": [\"api/**\", \"../**\"],\n", step), plan.Facts{}, "2 /touches/1: ../** leads out of the repository")
}

func TestCheckBringsWhatItNeeds(t *testing.T) {
	steps := `{"id": "a", "prompt": "p", "verify": "./check.sh --all"},` + "\n" + `{"id": "b", "prompt": "p", "verify": "cd web && npm run lint"},` + "\n" + `{"id": "c", "prompt": "p", "verify": "make lint"}`
	files := "\"files\": [{\"path\": \"check.sh\", \"change\": \"new\"}, {\"path\": \"package.json\", \"change\": \"edit\"}, {\"path\": \"Makefile\", \"change\": \"edit\"}],\n"
	f := plan.Facts{Missing: func(string) string { return "it is not there" }}
	check(t, "without", doc("", steps), f, "3 /steps/0/verify: \n4 /steps/1/verify: \n5 /steps/2/verify: ")
	check(t, "with", doc(files, steps), f, "~4 /steps/0/verify: \n~5 /steps/1/verify: \n~6 /steps/2/verify: ")
}

func TestCheckMaxSteps(t *testing.T) {
	steps := step + ",\n" + `{"id": "g", "steps": [` + "\n" + step2 + "]}"
	check(t, "as many as may be", doc("", steps), plan.Facts{MaxSteps: 3}, "")
	check(t, "too many", doc("", steps), plan.Facts{MaxSteps: 2}, "2 /steps: has 3 steps, those of groups counted, may have at most 2")
	check(t, "without limit", doc("", steps), plan.Facts{}, "")
	var many []string
	for i := range 6000 {
		many = append(many, fmt.Sprintf(`{"id": "s%d", "message": "m", "depends_on": []}`, i))
	}
	check(t, "far too many", doc("", strings.Join(many, ",")), plan.Facts{MaxSteps: 20}, "2 /steps: has 6000 steps\n2 /steps: its loops make more than 5000 steps of it")
}

// The confirmed commands must be the last steps of the plan: all of them, in order, to the letter.
func TestCheckConfirmed(t *testing.T) {
	lint, test, build := `{"id": "lint", "command": "go vet ./...", "proof": {"type": "lint"}}`, `{"id": "test", "command": "go test ./...", "proof": {"type": "test"}}`, `{"id": "build", "command": "go build ./...", "proof": {"type": "build"}}`
	all := []string{"go vet ./...", "go test ./...", "go build ./..."}
	const wanted = "the last steps must be these commands, each as a script step, in this order and to the letter: `go vet ./...`, `go test ./...`, `go build ./...`"
	for _, tt := range []struct {
		name  string
		steps []string
		want  string
	}{
		{"all", []string{step, lint, test, build}, ""},
		{"nothing else", []string{lint, test, build}, ""},
		{"more checks before", []string{step, `{"id": "more", "command": "go test -race ./api", "proof": {"type": "test"}}`, lint, test, build}, ""},
		{"another order", []string{step, test, lint, build}, "6 /steps/3: " + wanted},
		{"one is missing", []string{step, lint, build}, "5 /steps/2: " + wanted},
		{"fewer steps than commands", []string{step}, "3 /steps/0: " + wanted},
		{"not last", []string{lint, test, build, step}, "6 /steps/3: " + wanted},
		{"something behind", []string{lint, test, build, `{"id": "more", "command": "go test -race", "proof": {"type": "test"}}`}, "6 /steps/3: " + wanted},
		{"not to the letter", []string{step, lint, strings.Replace(test, "go test ./...", "go test -v ./...", 1), build}, "6 /steps/3: " + wanted},
		{"two in one", []string{step, lint, strings.Replace(test, "go test ./...", "go test ./... && go build ./...", 1)}, "5 /steps/2: " + wanted},
		{"without proof", []string{step, lint, strings.Replace(test, `, "proof": {"type": "test"}`, "", 1), build}, "5 /steps/2: step test: a verification step is a script step with proof of type lint, test or build"},
		{"with another proof", []string{step, lint, strings.Replace(test, `"type": "test"`, `"type": "manual"`, 1), build}, "5 /steps/2: step test: a verification step is"},
		{"in a loop", []string{step, lint, strings.Replace(test, `"proof"`, `"repeat": 2, "proof"`, 1), build}, ""},
		{"in a loop of a command", []string{step, lint, strings.Replace(test, `"proof"`, `"for_each": "git ls-files", "proof"`, 1), build}, "5 /steps/2: step test: a verification step is"},
		{"in a group", []string{step, `{"id": "checks", "steps": [` + lint + "," + test + "," + build + "]}"}, ""},
		{"in a group, and one is missing", []string{step, `{"id": "checks", "steps": [` + lint + "," + test + "]}"}, "4 /steps/1: the last steps leave out these commands, which must be among them to the letter, the items of loops put in: `go build ./...`"},
		{"in a group that may fail", []string{step, `{"id": "checks", "continue_on_error": true, "steps": [` + lint + "," + test + "," + build + "]}"}, "4 /steps/1: " + wanted},
	} {
		check(t, tt.name, doc("", strings.Join(tt.steps, ",\n")), plan.Facts{Confirmed: &all}, tt.want)
	}
	none := []string{}
	check(t, "no command, judged at the end", doc("", test+",\n"+step), plan.Facts{Confirmed: &none}, "")
	check(t, "no command, a script at the end", doc("", step+",\n"+test), plan.Facts{Confirmed: &none}, "4 /steps/1: step test: this project has no command that checks it, so the last step must be a prompt step with llm_as_judge")
	check(t, "no command, not judged at the end", doc("", `{"id": "a", "prompt": "p", "verify": "go vet"}`), plan.Facts{Confirmed: &none}, "3 /steps/0: step a: this project has no command")
	check(t, "not known", doc("", step+",\n"+test), plan.Facts{}, "")
}

func TestCheckAcceptance(t *testing.T) {
	with := func(s string) string {
		return strings.Replace(doc("\"vars\": {\"dir\": \"./api\"}, \"preconditions\": [{\"command\": \"ls {{dirr}}\"}, \"x\"],\n", step), `[{"criterion": "it works"}]`, s, 1)
	}
	const pre = "2 /preconditions/0/command: {{dirr}} is not one of vars"
	for _, tt := range []struct{ acceptance, want string }{
		{`[{"criterion": "it works", "verify": "go test {{dir}}"}]`, ""},
		{`[]`, "5 /acceptance: there is no criterion"},
		{`[{"criterion": "it works", "level": "should"}]`, "5 /acceptance: no criterion is a must"},
		{"[{\"criterion\": \"it works\"},\n{\"criterion\": \"It works.\"}]", "6 /acceptance/1/criterion: is in the list twice"},
		{`[{"criterion": "it works", "verify": "echo {{dir}}"}]`, "5 /acceptance/0/verify: `echo ./api` can't fail, so it proves nothing"},
		{`[{"criterion": "it works", "verify": "test 1"}]`, "5 /acceptance/0/verify: `test 1` can't fail"},
		{`[{"criterion": "it works", "verify": "cargo test"}]`, "5 /acceptance/0/verify: `cargo test`: the program cargo is not installed"},
		{`[{"criterion": "it works", "verify": "go test {{item}}"}]`, "5 /acceptance/0/verify: {{item}} is not one of vars"},
	} {
		check(t, tt.acceptance, with(tt.acceptance), plan.Facts{Missing: missing}, strings.TrimSuffix(pre+"\n"+tt.want, "\n"))
	}
	p, _ := plan.Parse([]byte(strings.Replace(doc("", step), `"acceptance": [{"criterion": "it works"}]`, `"rollback": []`, 1)))
	same(t, "left out", told(p.Check(plan.Facts{})), "1 /acceptance: there is no criterion")
}

// T-B11: every acceptance item of the TaskSpec is covered or left out with a reason. T-C13: unknown items cause a warning.
func TestCheckCoverage(t *testing.T) {
	spec := &plan.TaskSpec{UserIntent: "x", Acceptance: []string{"limit=2 gives two items", "a bad limit gives 400"}}
	with := func(steps, acceptance, uncovered string) string {
		return "{\"schema_version\": 1, \"title\": \"T\", \"requirements\": [\"paging\"],\n\"steps\": [" + steps + "],\n\"acceptance\": [" + acceptance + "],\n\"uncovered\": [" + uncovered + "]}"
	}
	covering := func(items string) string {
		return `{"id": "a", "prompt": "p", "llm_as_judge": true, "covers": [` + items + `]}`
	}
	const crit = `{"criterion": "it works"}`
	for _, tt := range []struct{ name, doc, want string }{
		{"by a step", with(covering(`"limit=2 gives two items", "a bad limit gives 400"`), crit, ""), ""},
		{"by a step of a group", with(`{"id": "g", "steps": [`+covering(`"limit=2 gives two items", "a bad limit gives 400"`)+`]}`, crit, ""), ""},
		{"by criteria", with(step, `{"criterion": "it works", "covers": ["limit=2 gives two items"]}, {"criterion": "A bad limit gives 400."}`, ""), ""},
		{"left out", with(covering(`"limit=2 gives  two items"`), crit, `{"item": "a bad limit gives 400", "reason": "later"}`), ""},
		{"not at all", with(covering(`"limit=2 gives two items"`), crit, ""), `3 /acceptance: nothing covers "a bad limit gives 400"`},
		{"unknown", with(covering(`"limit=2 gives two items", "a bad limit gives 400", "paging", "it works", "it is fast"`), crit, ""), `~2 /steps/0/covers/4: "it is fast" is not an acceptance item of the TaskSpec`},
		{"nearly", with(covering(`"limit=2 gives two items", "bad limit gives 400"`), crit, ""), `~2 /steps/0/covers/1: "bad limit gives 400" is not an acceptance item` + "\n" + `3 /acceptance: nothing covers "a bad limit gives 400"`},
		{"unknown and left out", with(covering(`"limit=2 gives two items", "a bad limit gives 400"`), crit, `{"item": "it is fast", "reason": "later"}`), `~4 /uncovered/0/item: "it is fast" is not an acceptance item`},
		{"covered and left out", with(covering(`"limit=2 gives two items", "a bad limit gives 400"`), crit, `{"item": "a bad limit gives 400", "reason": "later"}`), `~4 /uncovered/0/item: "a bad limit gives 400" is covered all the same`},
	} {
		check(t, tt.name, tt.doc, plan.Facts{Spec: spec}, tt.want)
	}
	check(t, "no TaskSpec", with(covering(`"whatever"`), crit, `{"item": "else", "reason": "r"}`), plan.Facts{}, "")
}

func TestCheckSmells(t *testing.T) {
	prompt := func(s string) string {
		return `{"id": "a", "prompt": "` + strings.ReplaceAll(s, "\n", `\n`) + `", "llm_as_judge": true}`
	}
	for _, tt := range []struct{ name, steps, want string }{
		{"nothing tells", `{"id": "a", "prompt": "p"}`, "~3 /steps/0: step a: nothing tells whether it was done"},
		{"a later step tells", `{"id": "a", "prompt": "p", "covers": ["x"]},` + "\n" + `{"id": "b", "command": "go test", "proof": {"type": "test"}, "covers": ["x"]}`, ""},
		{"a later step tells something else", `{"id": "a", "prompt": "p", "covers": ["x"]},` + "\n" + `{"id": "b", "command": "go test", "proof": {"type": "test"}, "covers": ["y"]}`, "~3 /steps/0: step a: nothing tells"},
		{"an earlier step", `{"id": "b", "command": "go test", "proof": {"type": "test"}, "covers": ["x"]},` + "\n" + `{"id": "a", "prompt": "p", "covers": ["x"]}`, "~4 /steps/1: step a: nothing tells"},
		{"its group tells", `{"id": "g", "verify": "go vet", "steps": [` + "\n" + `{"id": "a", "prompt": "p"}]}`, ""},
		{"two things", `{"id": "a", "title": "Add the flag and update the page", "command": "ls"}`, "~3 /steps/0/title: step a: the title names two things"},
		{"one thing", `{"id": "a", "title": "Add the brand and its command", "command": "ls"}`, "~3 /steps/0/title: "},
		{"a hand", `{"id": "a", "title": "Handle android", "command": "ls"}`, ""},
		{"names", prompt("Change these:\n- api/list.go\n- api/page.go\n- api/sort.go"), "~3 /steps/0/prompt: step a: the prompt lists 3 items"},
		{"numbered names", prompt("Translate to:\n1. en\n2. de\n3) fr\n4. es"), "~3 /steps/0/prompt: step a: the prompt lists 4 items"},
		{"paths with remarks", prompt("* `a/b.go`: first\n* `a/c.go`: second\n* `a/d.go`: third"), "~3 /steps/0/prompt: step a: the prompt lists 3 items"},
		{"two names", prompt("- api/list.go\n- api/page.go"), ""},
		{"blank items", prompt("-  \n- \u00a0\n*   "), ""},
		{"sentences", prompt("- Cover the empty list.\n- Leave the order.\n- Follow api/list.go."), ""},
		{"names in a loop", `{"id": "a", "prompt": "In {{item}}:\n- a.go\n- b.go\n- c.go", "llm_as_judge": true, "repeat": 2}`, ""},
		{"what was printed before", prompt("Read the output of the previous step."), "~3 /steps/0/prompt: step a: it is told to use what an earlier step printed"},
		{"printed before, in other words", prompt("Use the preceding step's results."), "~3 /steps/0/prompt: step a: it is told"},
		{"the step before, loudly", prompt("USE THE OUTPUT OF THE LAST STEP."), "~3 /steps/0/prompt: step a: it is told"},
		{"the last step", prompt("The last step of the wizard has no output."), ""},
		{"of one machine", `{"id": "a", "command": "cp x.txt /tmp/x.txt"}`, "~3 /steps/0/command: step a: /tmp/x.txt is a path of one machine"},
		{"of one home", prompt("Look at ~/notes/x.md."), "~3 /steps/0/prompt: step a: ~/notes/x.md. is a path of one machine"},
		{"a route", prompt("GET /items and /home are routes."), ""},
		{"the same file twice", `{"id": "a", "command": "ls > build/x.txt"},` + "\n" + `{"id": "b", "prompt": "See build/x.txt.", "llm_as_judge": true}`, "~4 /steps/1: step b: build/x.txt is also named in step a"},
		{"the same file that is there", `{"id": "a", "command": "cat api/list.go"},` + "\n" + `{"id": "b", "prompt": "See api/list.go.", "llm_as_judge": true}`, ""},
		{"numbered steps", `{"id": "pass_1", "command": "ls"},` + "\n" + `{"id": "pass_2", "command": "ls"},` + "\n" + `{"id": "pass_3", "command": "ls"}`, "~3 /steps/0/id: steps pass_1 to pass_3 are numbered"},
		{"two numbered steps", `{"id": "pass_1", "command": "ls"},` + "\n" + `{"id": "pass_2", "command": "ls"}`, ""},
	} {
		check(t, tt.name, doc("", tt.steps), plan.Facts{Exists: there}, tt.want)
	}
}

// Paths below each root that differs from machine to machine cause a warning.
func TestCheckKnowsRoots(t *testing.T) {
	for _, path := range []string{"/tmp/x", "/home/ada/x", "/Users/ada/x", "/root/x", "/var/x", "/mnt/x", "/opt/x", "~/x"} {
		check(t, path, doc("", `{"id": "a", "command": "cp x '`+path+`'"}`), plan.Facts{Exists: there}, "~3 /steps/0/command: step a: "+path+" is a path of one machine")
	}
}

// A path in the files of the plan may be used by several steps without a warning.
func TestCheckKnowsItsFiles(t *testing.T) {
	steps := `{"id": "a", "command": "ls api/page.go"},` + "\n" + `{"id": "b", "prompt": "See api/page.go.", "llm_as_judge": true}`
	check(t, "named", doc("\"files\": [{\"path\": \"api/page.go\", \"change\": \"new\"}],\n", steps), plan.Facts{Exists: there}, "")
	check(t, "not named", doc("", steps), plan.Facts{Exists: there}, "~4 /steps/1: step b: api/page.go is also named in step a")
}

// A confirmed command causes no warning, whatever paths it names.
func TestCheckLeavesConfirmedCommandsAlone(t *testing.T) {
	steps := `{"id": "a", "command": "ls build/x.txt"},` + "\n" + `{"id": "b", "command": "go test build/x.txt", "proof": {"type": "test"}}`
	check(t, "confirmed", doc("", steps), plan.Facts{Confirmed: &[]string{"go test build/x.txt"}}, "")
	check(t, "not", doc("", steps), plan.Facts{}, "~4 /steps/1: step b: build/x.txt is also named")
}

func TestKind(t *testing.T) {
	for want, s := range map[string]plan.Step{
		plan.Prompt: {Prompt: "p", Message: "m"}, plan.Script: {Command: "c", Prompt: "p"}, plan.Log: {Message: "m"}, plan.Workflow: {Workflow: "w", Command: "c"},
		plan.Group: {Steps: []plan.Step{{}}}, plan.Approval: {Type: plan.Approval, Prompt: "p"}, "": {Title: "t"},
	} {
		if got := s.Kind(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestVerification(t *testing.T) {
	for steps, want := range map[string][]string{
		step: nil,
		`{"id": "t", "command": "go test {{dir}}", "proof": {"type": "test"}}, ` + step:                                                                 nil,
		step + `, {"id": "t", "command": "go test {{dir}}", "proof": {"type": "test"}}, {"id": "b", "command": "go build", "proof": {"type": "build"}}`: {"go test ./api", "go build"},
		step + `, {"id": "l", "command": "go vet", "proof": {"type": "script"}}, {"id": "b", "command": "go build", "proof": {"type": "build"}}`:        {"go build"},
	} {
		p, problems := plan.Parse([]byte(doc("\"vars\": {\"dir\": \"./api\"},\n", steps)))
		if p == nil {
			t.Fatal(told(problems))
		}
		if got := p.Verification(); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", steps, got, want)
		}
	}
}

func TestProtected(t *testing.T) {
	p, _ := plan.Parse([]byte(doc("\"files\": [{\"path\": \"./a/../secret/x\", \"change\": \"new\"}, {\"path\": \"b\", \"change\": \"new\"}],\n", step)))
	if got := p.Protected(func(path string) bool { return strings.HasPrefix(path, "secret/") }); !slices.Equal(got, []string{"secret/x"}) {
		t.Errorf("got %q", got)
	}
}

func TestProblemForPeople(t *testing.T) {
	p := plan.Problem{Pointer: "/steps/0", Line: 3, Message: "m", Hint: "h", Warning: true}
	if got := p.ForFile("plan.json"); got.Error() != "plan.json:3: /steps/0: m" || got.Hint != "h" || !got.Warning {
		t.Errorf("got %+v", got)
	}
	whole := plan.Problem{Line: 1, Column: 2, Message: "m"}
	if got := whole.ForFile("plan.json"); got.Error() != "plan.json:1:2: m" || whole.ForModel() != "/: m" {
		t.Errorf("got %q and %q", got.Error(), whole.ForModel())
	}
}
