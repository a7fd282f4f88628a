package subject_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
)

const dir = ".trellis/tasks/11-22-x"

// says returns the items of a file as text, and the files that it names.
func says(t *testing.T, s trust.Subject, file, data string) (list, more []string) {
	t.Helper()
	var bytes []byte
	if data != "" {
		bytes = []byte(data)
	}
	items, more := s.Read(file, bytes)
	for _, i := range items {
		if i.File != file {
			t.Errorf("%q is in %s, not in %s", i.Text, i.File, file)
		}
		list = append(list, string(i.Kind)+" "+i.Shown())
	}
	return list, more
}

func has(t *testing.T, list []string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !slices.Contains(list, want) {
			t.Errorf("there is no %q in:\n%s", want, strings.Join(list, "\n"))
		}
	}
}

func task(t *testing.T) trust.Subject {
	t.Helper()
	root := t.TempDir()
	path := filepath.Join(root, filepath.FromSlash(dir))
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"implement.jsonl", "approvals.jsonl"} {
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := subject.Task(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.Name != "11-22-x" || !slices.Contains(s.Files, dir+"/implement.jsonl") || slices.Contains(s.Files, dir+"/approvals.jsonl") {
		t.Errorf("the subject is %s of %v", s.Name, s.Files)
	}
	return s
}

func TestSettings(t *testing.T) {
	const file = ".trellis/config.yaml"
	list, more := says(t, subject.Settings(), file, `
sandbox: require
verify: [make test]
worktree:
  setup: ["npm ci"]
hooks:
  after_create: ["sh scripts/told.sh now"]
notify:
  - on: [failed]
    command: [./bin/notify, --all]
agents:
  roles:
    implement: {agent: mine}
  commands:
    mine: {command: [python3, tools/agent.py]}
  apis:
    far: {api: openai, model: m, base_url: "https://far.example"}
`)
	has(t, list, "command verify: make test", "command setup: npm ci", "hook after_create: sh scripts/told.sh now", "protection sandbox: require",
		`protection verify: ["make test"]`, "protection limits.cost_usd: 20", "protection planning.approval: none")
	for _, want := range []string{"notify notify: {", "agent commands.mine: {", "agent apis.far: {", "agent roles.implement: {"} {
		if !slices.ContainsFunc(list, func(s string) bool { return strings.HasPrefix(s, want) }) {
			t.Errorf("there is no %s", want)
		}
	}
	for said, want := range map[string]string{"sandbox_hosts: [a.example.org]": `["a.example.org"]`, "sandbox_hosts: []": "[]", "": "with sandbox: auto agents have the whole network"} {
		list, _ := says(t, subject.Settings(), file, said) // removing [] allows more
		has(t, list, "protection sandbox_hosts: "+want)
	}
	has(t, more, "scripts/told.sh", "bin/notify", "tools/agent.py")
	bare, _ := says(t, subject.Settings(), file, "")
	has(t, bare, "protection sandbox: off", "protection verify: []", `protection protected: [".trellis/**"]`) // a missing file shows these values
	program, _ := says(t, subject.Settings(), "bin/notify", "#!/bin/sh\n")
	if len(program) != 1 || !strings.HasPrefix(program[0], "program bin/notify sha256:") {
		t.Errorf("a program is %q", program)
	}
	old, _ := says(t, subject.Settings(), ".trellis/worktree.yaml", "verify:\n  - make\npost_create:\n  - make deps\ncopy:\n  - .env\n")
	has(t, old, "command verify: make", "command setup: make deps", `setting worktree.copy: [".env"]`)
}

func TestTask(t *testing.T) {
	s := task(t)
	list, _ := says(t, s, dir+"/task.json", `{"id":"x","name":"x","title":"Do it","status":"ready","base_branch":"evil","pipeline":{"verify":["make it"],"agent":"mine","protected":["Makefile"]}}`)
	has(t, list, "verify make it", "base base: evil", "agent agent: mine", "setting may change: Makefile", "requirement title: Do it")
	later, _ := says(t, s, dir+"/task.json", `{"id":"x","name":"x","title":"Do it","status":"in_progress","base_branch":"evil","commit":"abc","pipeline":{"verify":["make it"],"agent":"mine","protected":["Makefile"],"revision":7,"phase":"check"}}`)
	if !slices.Equal(list, later) {
		t.Errorf("what Trellis writes of a run changes what the task says:\n%q\n%q", list, later)
	}
	has(t, list, "start it is ready to run", "start start: at once")
	waits, _ := says(t, s, dir+"/task.json", `{"status":"planning","pipeline":{"depends_on":["b","a"],"not_before":"2026-11-22T10:00:00Z","approval":{"required":true,"approvers":2}}}`)
	has(t, waits, "start start: after a, after b, not before 2026-11-22T10:00:00Z, approved by 2, required true")
	if slices.Contains(waits, "start it is ready to run") {
		t.Error("a task that is being planned is ready to run")
	}
	list, _ = says(t, s, dir+"/prd.md", "# X\n\n## Acceptance Criteria\n\n- it works (verify: `make check`)\n")
	has(t, list, "criterion make check")
	if !strings.HasPrefix(list[0], "requirement prd.md sha256:") {
		t.Errorf("the text of prd.md does not count: %q", list)
	}
	list, _ = says(t, s, dir+"/implement.jsonl", `{"file": "docs/a.md", "reason": "why"}`+"\n"+`{"file": "docs/b.md"}`+"\n")
	has(t, list, "context implement.jsonl: docs/a.md why", "context implement.jsonl: docs/b.md")
	list, _ = says(t, s, dir+"/info.md", "text")
	if len(list) != 1 || !strings.HasPrefix(list[0], "requirement info.md sha256:") {
		t.Errorf("info.md says %q", list)
	}
}

func TestPlan(t *testing.T) {
	s := task(t)
	list, _ := says(t, s, dir+"/plan.json", `{"schema_version":1,"title":"T","vars":{"a":"b"},
"preconditions":[{"command":"test -f x"},"somebody is there"],
"rollback":["git stash"],
"acceptance":[{"criterion":"c","verify":"make ok"}],
"steps":[{"id":"one","command":"curl x\nrm y","self_healing":true},{"id":"two","prompt":"write it"},{"id":"three","prompt":"and it","verify":"make three"},
 {"id":"four","workflow":"flows/a.yaml"},{"id":"five","steps":[{"id":"in","command":"make in"}]}]}`)
	has(t, list, "precondition test -f x", "prompt precondition: somebody is there", "rollback git stash", "criterion make ok",
		"step step one: curl x\nrm y", "prompt step two: write it", "step step three: make three", "step step four: the steps of flows/a.yaml", "step step in: make in",
		`step values that are put into commands: {"a":"b"}`)
	list, _ = says(t, s, "flows/a.yaml", "title: A\nsteps:\n  - id: q\n    command: make q\n")
	if len(list) == 0 || !strings.HasPrefix(list[0], "step ") {
		t.Errorf("a file of steps says %q", list)
	}
	a, _ := s.Read(dir+"/plan.json", []byte(`{"title":"T","steps":[{"id":"one","command":"make"}]}`))
	b, _ := s.Read(dir+"/plan.json", []byte(`{"title":"T","steps":[{"id":"one","command":"make","continue_on_error":true}]}`))
	if a[0].ID() == b[0].ID() {
		t.Error("a step that goes on after errors is the same as one that does not")
	}
	whole := `{"title":"T","preconditions":[{"command":"test -f x"}],"steps":[{"id":"one","command":"make"},{"id":"two","command":"rm x"}]}`
	for _, weaker := range []string{
		`{"title":"T","preconditions":[{"command":"test -f x"}],"steps":[{"id":"two","command":"rm x"},{"id":"one","command":"make"}]}`,
		`{"title":"T","preconditions":[{"command":"test -f x"}],"steps":[{"id":"two","command":"rm x"}]}`,
		`{"title":"T","steps":[{"id":"one","command":"make"},{"id":"two","command":"rm x"}]}`,
	} {
		said, _ := says(t, s, dir+"/plan.json", whole)
		now, _ := says(t, s, dir+"/plan.json", weaker)
		if !slices.ContainsFunc(now, func(i string) bool { return !slices.Contains(said, i) }) {
			t.Errorf("%s says nothing new", weaker)
		}
	}
}

// A file of steps names other files relative to its own folder, also with values in their paths (edge S2).
func TestCalledFiles(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		dir + "/plan.json": `{"title":"T","vars":{"which":"c"},"steps":[{"id":"all","workflow":"flows/a.yaml","vars":{"which":"{{which}}"}}]}`,
		"flows/a.yaml":     "title: A\nvars: {which: none}\nsteps:\n  - {id: b, workflow: sub/b.yaml}\n  - {id: c, workflow: \"sub/{{which}}.yaml\"}\n",
		"flows/sub/b.yaml": "title: B\nsteps: [{id: b, command: echo b}]\n",
		"flows/sub/c.yaml": "title: C\nsteps: [{id: c, command: echo c, workflow: ../../../out.yaml}]\n",
		"sub/b.yaml":       "title: another\n",
	} {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	s, err := subject.Task(root, dir)
	if err != nil {
		t.Fatal(err)
	}
	has(t, s.Files, "flows/a.yaml", "flows/sub/b.yaml", "flows/sub/c.yaml")
	if slices.Contains(s.Files, "sub/b.yaml") || slices.Contains(s.Files, "../out.yaml") {
		t.Errorf("it is of %q", s.Files)
	}
}

func TestObjective(t *testing.T) {
	s := subject.Objective("big")
	const file = ".trellis/objectives/big.md"
	text := func(status string) string {
		return "---\nauto_advance: true\n---\n# Objective: Big\n\nProse.\n\n| Step | Description | Status | PR |\n| --- | --- | --- | --- |\n| 1 | Do it | " + status + " | - |\n"
	}
	list, _ := says(t, s, file, text("pending"))
	has(t, list, "auto_advance auto_advance: steps are planned without a person's asking", "requirement title: Big")
	if !slices.ContainsFunc(list, func(i string) bool {
		return strings.HasPrefix(i, "requirement step 1: ") && strings.Contains(i, "Do it")
	}) {
		t.Errorf("no step in %q", list)
	}
	later, _ := says(t, s, file, text("in_progress"))
	if !slices.Equal(list, later) {
		t.Errorf("what Trellis writes into a row changes what the objective says:\n%q\n%q", list, later)
	}
	if other, _ := says(t, s, file, strings.Replace(text("pending"), "Prose.", "Lies.", 1)); slices.Equal(list, other) {
		t.Error("its prose does not count")
	}
}
