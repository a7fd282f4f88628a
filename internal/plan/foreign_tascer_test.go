package plan_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// tascs returns a file of tascer with these tascs, one a line from line 2 on.
func tascs(list ...string) string {
	return "{\"title\": \"T\", \"tascs\": [\n" + strings.Join(list, ",\n") + "]}"
}

const tasc = `{"id": "one", "title": "One", "testing_instructions": "go test"}`

// What is checked before anything runs, T-C2 and T-C7.
func TestTascerLoads(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"fine", tascs(tasc, `{"title": "Two", "command": "go vet", "dependencies": ["one"]}`), ""},
		{"no tascs", tascs(), "t.json:1: /tascs: has 0 items, must have at least 1"},
		{"null", `{"title": "T", "tascs": null}`, "t.json:1: /tascs: must be a list, not null"},
		{"no title", `{"tascs": [` + tasc + `]}`, "t.json:1: /title: is missing"},
		{"a tasc that is not an object", tascs(`"x"`), "t.json:2: /tascs/0: must be an object, not a string"},

		{"id twice", tascs(tasc, tasc), "t.json:3: /tascs/1/id: one is the id of another step too, in line 2"},
		{"blank id", tascs(`{"id": " ", "title": "One", "testing_instructions": "go test"}`), "t.json:2: /tascs/0/id: is blank"},
		{"id is not text", tascs(`{"id": 1, "title": "One", "testing_instructions": "go test"}`), "t.json:2: /tascs/0/id: must be a string, not 1"},
		{"id is a path", tascs(`{"id": "../../etc/x", "title": "One", "testing_instructions": "go test"}`), `~t.json:2: /tascs/0/id: "../../etc/x" is the step etc_x here`},
		{"ids that become the same", tascs(`{"id": "a-b", "title": "One", "testing_instructions": "go test"}`, `{"id": "a_b", "title": "Two", "testing_instructions": "go vet", "dependencies": ["a-b", "a_b"]}`),
			"~t.json:2: /tascs/0/id: \"a-b\" is the step a_b_2 here\nt.json:3: /tascs/1/dependencies/1: step a_b depends on itself"},
		{"unknown dependency", tascs(tasc, `{"title": "Two", "command": "go vet", "dependencies": ["won", 7]}`), "t.json:3: /tascs/1/dependencies/0: depends on \"won\", which is not a tasc\nt.json:3: /tascs/1/dependencies/1: must be a string, not 7"},
		{"itself", tascs(`{"id": "one", "title": "One", "testing_instructions": "go test", "dependencies": ["one"]}`), "t.json:2: /tascs/0/dependencies/0: step one depends on itself"},
		{"a circle", tascs(`{"id": "a", "title": "A", "testing_instructions": "go test", "dependencies": ["b"]}`, `{"id": "b", "title": "B", "testing_instructions": "go vet", "dependencies": ["a"]}`),
			"t.json:2: /tascs/0/dependencies: these steps wait for each other: a → b → a"},

		{"no command", tascs(`{"id": "one", "title": "One"}`), "t.json:2: /tascs/0/testing_instructions: is missing, and the proof is not manual"},
		{"blank command", tascs(`{"id": "one", "title": "One", "testing_instructions": " ", "proof_required": {"proof_type": "file", "criteria": {"path": "x"}}}`), "t.json:2: /tascs/0/testing_instructions: is missing"},
		{"commands that can't fail", tascs(`{"id": "a", "title": "A", "testing_instructions": "echo 'no test'"}`, `{"id": "b", "title": "B", "testing_instructions": "true", "proof_required": {"proof_type": "test"}}`, `{"id": "c", "title": "C", "command": "pytest || true"}`),
			"t.json:2: /tascs/0/testing_instructions: step a: `echo 'no test'` can't fail, so it proves nothing\nt.json:3: /tascs/1/testing_instructions: step b: `true` can't\nt.json:4: /tascs/2/command: step c: `pytest || true` can't"},
		{"bad type", tascs(`{"id": "a", "title": "A", "testing_instructions": "ls", "proof_required": {"proof_type": "tests"}}`), "t.json:2: /tascs/0/proof_required/proof_type: must be one of script, test, lint, file, manual, composite"},
		{"bad type in a word", tascs(`{"id": "a", "title": "A", "testing_instructions": "ls", "proof_required": "hand"}`), "t.json:2: /tascs/0/proof_required: must be one of"},
		{"a proof of another shape", tascs(`{"id": "a", "title": "A", "testing_instructions": "ls", "proof_required": ["manual"]}`), "t.json:2: /tascs/0/proof_required: must be a type of proof, or an object"},
		{"timeout 0", tascs(`{"id": "a", "title": "A", "testing_instructions": "ls", "proof_required": {"timeout_seconds": 0}}`), "t.json:2: /tascs/0/proof_required/timeout_seconds: must be more than 0, not 0"},
		{"timeout of a manual one", tascs(`{"id": "a", "title": "A", "proof_required": {"proof_type": "manual", "timeout_seconds": -1}}`), "t.json:2: /tascs/0/proof_required/timeout_seconds: must be more than 0, not -1"},
		{"no approvals", tascs(`{"id": "a", "title": "A", "proof_required": {"proof_type": "manual", "criteria": {"required_approvals": 0}}}`), "t.json:2: /tascs/0/proof_required/criteria/required_approvals: must be at least 1, not 0"},
		{"three approvals", tascs(`{"id": "a", "title": "A", "proof_required": {"proof_type": "manual", "criteria": {"required_approvals": 3}}}`), "~t.json:2: /tascs/0/proof_required/criteria/required_approvals: how many people have to approve"},
		{"exit codes", tascs(`{"id": "a", "title": "A", "testing_instructions": "ls", "proof_required": {"criteria": {"expected_exit_codes": [0, "1"]}}}`), "t.json:2: /tascs/0/proof_required/criteria/expected_exit_codes/1: must be an exit code, 0 to 255"},

		{"criteria that nobody looks at", tascs(`{"id": "a", "title": "A", "testing_instructions": "ls", "proof_required": {"proof_type": "experiment", "criteria": {"error_patterns": ["x"], "contains": "y"}}}`),
			"~t.json:2: /tascs/0/proof_required/proof_type: a proof of type experiment is one of its command\n~t.json:2: /tascs/0/proof_required/criteria/error_patterns: Trellis does not check\n~t.json:2: /tascs/0/proof_required/criteria/contains: there is no file"},
		{"keys that say nothing", "{\"title\": \"T\", \"id\": \"p\", \"status\": \"pending\", \"validations\": {}, \"extra\": 1, \"owner\": null, \"tascs\": [\n" + `{"id": "a", "title": "A", "testing_instructions": "ls", "status": "proven", "proof_hash": "x", "depends": ["b"], "owner": "", "proof_required": {"max_retries": 3, "timeout": 5, "owner": []}}]}`,
			"~t.json:1: /extra: is not known as a key of tascer\n~t.json:1: keys of tascer that mean nothing here, ignored: id, status, max_retries, proof_hash\n~t.json:2: /tascs/0/proof_required/timeout: is not known\n~t.json:2: /tascs/0/depends: is not known"},
		{"braces", tascs(`{"id": "a", "title": "{{x}}", "testing_instructions": "grep '{{x}}' a"}`), "~t.json:2: /tascs/0/title: step a: {{x}} in title\n~t.json:2: /tascs/0/testing_instructions: step a: {{x}} in command"},
	} {
		loads(t, tt.name, plan.LoadOptions{}, tt.want, "t.json", tt.doc)
	}
}

const tascer = `{"title": "Fetch\nall", "description": "Fetch and keep.", "tascs": [
  {"id": "fetch", "title": "Fetch it", "additional_notes": "Slowly.\nTwice.", "testing_instructions": "test -s a\ntest -s b", "desired_outcome": "Both are there."},
  {"title": "Test it", "description": "All of it.", "command": "pytest", "dependencies": ["fetch"], "proof_required": {"proof_type": "test", "timeout_seconds": 12.5}},
  {"id": "codes", "testing_instructions": "grep x a", "dependencies": [], "desired_outcome": "both are there", "proof_required": {"proof_type": "script", "criteria": {"expected_exit_codes": [1, 2]}}},
  {"id": "either", "title": "E", "testing_instructions": "ls", "proof_required": {"criteria": {"expected_exit_codes": [0, 3]}}},
  {"id": "files", "title": "F", "testing_instructions": "make", "proof_required": {"proof_type": "file", "criteria": {"path": "out/a", "contains": "x", "expected_output_files": ["b", "c"]}}},
  {"id": "gate", "title": "Look at it", "additional_notes": "All of it.", "testing_instructions": "", "proof_required": "manual", "dependencies": ["fetch", "tasc_2"]},
  {"id": "sure", "title": "Send it", "testing_instructions": "make send", "proof_required": {"proof_type": "manual"}},
  {"id": "Kept", "title": "K", "testing_instructions": "make lint"}],
 "proof_requirements": {"Kept": {"proof_type": "lint", "criteria": {}, "timeout_seconds": 300}}}`

// For trellis run, a tasc is the script that tells whether it was done.
func TestTascerIsRun(t *testing.T) {
	const want = `{"schema_version": 1, "title": "Fetch", "summary": "Fetch and keep.", "steps": [
  {"id": "fetch", "title": "Fetch it", "description": "Slowly.\nTwice.", "desired_outcome": "Both are there.", "depends_on": [], "command": "test -s a\ntest -s b", "proof": {"type": "script"}},
  {"id": "tasc_2", "title": "Test it", "description": "All of it.", "depends_on": ["fetch"], "command": "pytest", "timeout_seconds": 12.5, "proof": {"type": "test"}},
  {"id": "codes", "title": "codes", "desired_outcome": "both are there", "depends_on": [], "command": "(grep x a\n); code=$?; case $code in 1|2) exit 0;; 0) exit 1;; esac; exit $code", "proof": {"type": "script"}},
  {"id": "either", "title": "E", "depends_on": [], "command": "(ls\n); code=$?; case $code in 0|3) exit 0;; esac; exit $code", "proof": {"type": "script"}},
  {"id": "files", "title": "F", "depends_on": [], "command": "make", "proof": {"type": "composite", "all": [{"type": "script"}, {"type": "file", "path": "b"}, {"type": "file", "path": "c"}, {"type": "file", "path": "out/a", "contains": "x"}]}},
  {"id": "gate", "title": "Look at it", "description": "All of it.", "depends_on": ["fetch", "tasc_2"], "type": "approval"},
  {"id": "sure", "title": "Send it", "depends_on": [], "command": "make send", "proof": {"type": "manual"}},
  {"id": "kept", "title": "K", "depends_on": [], "command": "make lint", "timeout_seconds": 300, "proof": {"type": "lint"}}]}`
	b := loads(t, "run", plan.LoadOptions{}, "~t.json:9: /tascs/7/id: \"Kept\" is the step kept", "t.json", tascer)
	p, problems := plan.Parse([]byte(want))
	if p == nil {
		t.Fatal(told(problems))
	}
	if got, want := marshal(t, b.Plan("")), marshal(t, p); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// In a task, an agent does the tasc, and the script that tells whether it was done is the step's verify.
func TestTascerInATask(t *testing.T) {
	b := loads(t, "task", plan.LoadOptions{Task: true}, "~plan.json:9: /tascs/7/id\n~plan.json:10: keys of tascer that mean nothing here, ignored: timeout_seconds", "plan.json", strings.Replace(tascer, `"timeout_seconds": 12.5`, `"timeout_seconds": null`, 1))
	p := b.Plan("")
	for i, want := range []struct{ kind, prompt, verify, proof string }{
		{plan.Prompt, "Fetch it\n\nSlowly.\nTwice.", "test -s a\ntest -s b", ""},
		{plan.Prompt, "Test it\n\nAll of it.", "pytest", "test"},
		{plan.Prompt, "codes", "(grep x a\n); code=$?; case $code in 1|2) exit 0;; 0) exit 1;; esac; exit $code", ""},
		{plan.Prompt, "E", "(ls\n); code=$?; case $code in 0|3) exit 0;; esac; exit $code", ""},
		{plan.Prompt, "F", "make", "composite"},
		{plan.Approval, "", "", ""},
		{plan.Prompt, "Send it", "make send", "manual"},
		{plan.Prompt, "K", "make lint", "lint"},
	} {
		s, proof := p.Steps[i], ""
		if s.Proof != nil {
			proof = s.Proof.Type
		}
		if s.Kind() != want.kind || s.Prompt != want.prompt || s.Verify != want.verify || proof != want.proof || s.Command != "" || s.TimeoutSeconds != 0 {
			t.Errorf("got %+v with proof %q, want %+v", s, proof, want)
		}
	}
	var criteria []string
	for _, a := range p.Acceptance {
		criteria = append(criteria, a.Criterion)
	}
	if got := strings.Join(criteria, "; "); got != "Both are there.; Test it; E; F; Look at it; Send it; K" {
		t.Errorf("got criteria %q", got)
	}
	loads(t, "vacuous", plan.LoadOptions{Task: true}, "plan.json:2: /tascs/0/testing_instructions: step a: `echo ok` can't fail", "plan.json", tascs(`{"id": "a", "title": "A", "testing_instructions": "echo ok"}`))
	loads(t, "nothing to meet", plan.LoadOptions{Task: true}, "", "plan.json", tascs(`{"id": "a", "title": "", "testing_instructions": "ls a"}`))
}

// Files of tascer in YAML, where numbers and words such as on have their own traps.
func TestTascerInYAML(t *testing.T) {
	loads(t, "fine", plan.LoadOptions{}, "", "t.yaml", "title: T\ntascs:\n- title: A\n  testing_instructions: |\n    ls a\n")
	loads(t, "traps", plan.LoadOptions{}, "t.yaml:3: /tascs/0/id: must be a string, not 1\n~t.yaml:4: /tascs/0/title: on is text here", "t.yaml", "title: T\ntascs:\n- id: 1\n  title: on\n  testing_instructions: ls a\n")
}
