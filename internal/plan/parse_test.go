package plan_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// told returns problems, one a line: "12:3 /steps/0: message", with ~ before warnings, and with the column only if it is known.
func told(problems []plan.Problem) string {
	var b strings.Builder
	for _, p := range problems {
		if p.Warning {
			b.WriteByte('~')
		}
		fmt.Fprint(&b, p.Line)
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
		fmt.Fprintf(&b, " %s: %s\n", p.Pointer, p.Message)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// same compares got with want line by line: each line of got has to begin with that of want.
func same(t *testing.T, name, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	ok := len(g) == len(w)
	for i := 0; ok && i < len(g); i++ {
		ok = strings.HasPrefix(g[i], w[i]) && (w[i] != "" || g[i] == "")
	}
	if !ok {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// doc returns a plan. top has lines with its first keys, each ending with a comma; steps begin in the line after them.
func doc(top, steps string) string {
	return "{\"schema_version\": 1, \"title\": \"T\",\n" + top + "\"steps\": [\n" + steps + "],\n\"acceptance\": [{\"criterion\": \"it works\"}]}"
}

const step = `{"id": "a", "prompt": "p", "llm_as_judge": true}`

func TestParse(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"fine", doc("", step), ""},
		{"byte order mark", "\ufeff" + doc("", step), ""},
		{"CRLF", strings.ReplaceAll(doc("", `{"id": "a", "prompt": "p", "x": 1}`), "\n", "\r\n"), "3 /steps/0/x: is not a known key"},
		{"empty", " \n", "1 : the file is empty"},
		{"not UTF-8", "{\n\"title\": \"caf\xe9\"}", "2 : is not UTF-8 text"},
		{"no JSON", "{\n \"title\": \"T\"\n \"steps\": []}", "3:2 : not valid JSON: a comma is missing before this"},
		{"comment", "{\n  // note\n}", "2:3 : not valid JSON: JSON has no comments"},
		{"torn", doc("", `{"id": "a"`), "3:11 : not valid JSON: "},
		{"prose", "I can't help with that.", "1:1 : not valid JSON: "},
		{"prose and JSON", "Here it is: " + doc("", step), "1:1 : not valid JSON: "},
		{"two documents", doc("", step) + "\n{}", "5:1 : not valid JSON: text follows the end of the object"},
		{"list", "[]", "1 : must be an object, not a list"},
		{"text", `"a plan"`, "1 : must be an object, not a string"},
		{"null", "null", "1 : must be an object, not null"},
		{"too deep", strings.Repeat("[", 100) + strings.Repeat("]", 100), "1 : lists and objects are nested too deep"},
		{"too large", doc("", `{"id": "a", "prompt": "`+strings.Repeat("x", plan.MaxBytes)+`"}`), "1 : is larger than the 1 MB"},
		{"duplicate key", doc("", "{\"id\": \"a\", \"prompt\": \"p\",\n\"prompt\": \"q\"}"), "4 /steps/0/prompt: appears twice, also in line 3"},
		{"duplicate key at the top", "{\"title\": \"T\",\n\"title\": \"U\", \"steps\": [" + step + "]}", "~1 : schema_version is missing\n2 /title: appears twice, also in line 1"},
		{"no version", `{"title": "T", "steps": [` + step + `]}`, "~1 : schema_version is missing: taken for 1"},
		{"later version", "{\n\"schema_version\": 2, \"phases\": []}", "2 /schema_version: is 2, a later version than 1, which this trellis reads"},
		{"version 0", `{"schema_version": 0, "title": "T", "steps": [` + step + `]}`, "1 /schema_version: must be 1, not 0"},
		{"version as text", `{"schema_version": "1", "title": "T", "steps": [` + step + `]}`, `1 /schema_version: must be a whole number, not a string`},
		{"executant", "{\n\"goal\": \"G\", \"steps\": []}", "2 /goal: this is a file of executant, not a plan.json"},
		{"tascer", "{\"title\": \"T\",\n\"tascs\": []}", "2 /tascs: this is a file of tascer, not a plan.json"},
		{"goal beside our steps", "{\"title\": \"T\",\n\"goal\": \"G\", \"steps\": [" + step + "]}", "~1 : schema_version is missing: taken for 1\n2 /goal: is not a known key (known: $schema, acceptance"},
		{"goal beside steps of both kinds", "{\n\"goal\": \"G\", \"steps\": [" + step + ", {\"name\": \"b\"}]}", "2 /goal: this is a file of executant"},
		{"goal in one of ours", "{\"schema_version\": 1, \"title\": \"T\",\n\"goal\": \"G\", \"steps\": [" + step + "]}", "2 /goal: is not a known key"},
		{"no title, no steps", `{"schema_version": 1}`, "1 /title: is missing\n1 /steps: is missing"},
		{"blank title", "{\"schema_version\": 1,\n\"title\": \" \", \"steps\": [" + step + "]}", "2 /title: is blank"},
		{"title of two lines", `{"schema_version": 1, "title": "a\nb", "steps": [` + step + `]}`, `1 /title: "a\nb" must be one line of text`},
		{"no steps", doc("", ""), "2 /steps: has 0 items, must have at least 1"},
		{"null steps", `{"schema_version": 1, "title": "T", "steps": null}`, "1 /steps: must be a list, not null"},
		{"step without id", doc("", step+",\n{\"prompt\": \"p\"}"), "4 /steps/1/id: is missing"},
		{"blank id", doc("", `{"id": "", "prompt": "p"}`), "3 /steps/0/id: is blank"},
		{"id with path characters", doc("", `{"id": "../a", "prompt": "p"}`), `3 /steps/0/id: "../a" must be snake_case`},
		{"id in another case", doc("", `{"id": "addPaging", "prompt": "p"}`), `3 /steps/0/id: "addPaging" must be snake_case`},
		{"long id", doc("", `{"id": "a`+strings.Repeat("b", 60)+`", "prompt": "p"}`), `3 /steps/0/id: `},
		{"unknown key with a neighbour", doc("", `{"id": "a", "prompt": "p", "dependsOn": []}`), `3 /steps/0/dependsOn: is not a known key; did you mean "depends_on"?`},
		{"unknown key of another tool", doc("", `{"id": "a", "prompt": "p", "forEach": ["x"]}`), `3 /steps/0/forEach: is not a known key; did you mean "for_each"?`},
		{"key with a colon", doc("", `{"id": "a", "prompt": "p", "a: b": 1}`), `3 /steps/0/a: b: is not a known key`},
		{"key with a slash", doc("", `{"id": "a", "prompt": "p", "a/b~c": 1}`), `3 /steps/0/a~1b~0c: is not a known key`},
		{"unknown type", doc("", `{"id": "a", "type": "command", "command": "ls"}`), `3 /steps/0/type: must be one of prompt, script, approval, log, workflow, group, not "command"`},
		{"command as number", doc("", `{"id": "a", "command": 42}`), "3 /steps/0/command: must be a string, not 42"},
		{"null prompt", doc("", `{"id": "a", "prompt": null}`), "3 /steps/0/prompt: must be a string, not null"},
		{"vars as list", doc("\"vars\": [],\n", step), "2 /vars: must be an object, not a list"},
		{"var as number", doc("\"vars\": {\"port\": 8080},\n", step), "2 /vars/port: must be a string or null, not 8080"},
		{"var with a dash", doc("\"vars\": {\"to-do\": \"x\"},\n", step), `2 /vars/to-do: "to-do" can't be a key here: it must be the name of a var`},
		{"for_each of numbers", doc("", `{"id": "a", "prompt": "p", "for_each": [1, "2"]}`), "3 /steps/0/for_each/0: must be a string, not 1"},
		{"for_each of another shape", doc("", `{"id": "a", "prompt": "p", "for_each": {"in": []}}`), "3 /steps/0/for_each: must be a list or a string, not an object"},
		{"repeat 0", doc("", `{"id": "a", "prompt": "p", "repeat": 0}`), "3 /steps/0/repeat: must be at least 1, not 0"},
		{"repeat -1", doc("", `{"id": "a", "prompt": "p", "repeat": -1}`), "3 /steps/0/repeat: must be at least 1, not -1"},
		{"repeat 1.5", doc("", `{"id": "a", "prompt": "p", "repeat": 1.5}`), "3 /steps/0/repeat: must be a whole number, not 1.5"},
		{"repeat without end", doc("", `{"id": "a", "prompt": "p", "repeat": 99999999999999999999}`), "3 /steps/0/repeat: must be a whole number"},
		{"timeout 0", doc("", `{"id": "a", "prompt": "p", "timeout_seconds": 0}`), "3 /steps/0/timeout_seconds: must be more than 0, not 0"},
		{"timeout as text", doc("", `{"id": "a", "prompt": "p", "timeout_seconds": "5m"}`), "3 /steps/0/timeout_seconds: must be a number, not a string"},
		{"timeout without end", doc("", `{"id": "a", "prompt": "p", "timeout_seconds": 1e999}`), "3 /steps/0/timeout_seconds: 1e999 is too large"},
		{"attempts 0", doc("", `{"id": "a", "prompt": "p", "max_judge_attempts": 0, "max_healing_attempts": 0}`), "3 /steps/0/max_healing_attempts: must be at least 1, not 0\n3 /steps/0/max_judge_attempts: must be at least 1, not 0"},
		{"empty group", doc("", `{"id": "a", "steps": []}`), "3 /steps/0/steps: has 0 items, must have at least 1"},
		{"nested step", doc("", "{\"id\": \"a\", \"steps\": [\n{\"id\": \"b\", \"steps\": [\n{\"id\": \"C\", \"promt\": \"p\"}]}]}"),
			`5 /steps/0/steps/0/steps/0/id: "C" must be snake_case` + "\n" + `5 /steps/0/steps/0/steps/0/promt: is not a known key; did you mean "prompt"?`},
		{"dependency twice", doc("", step+",\n"+`{"id": "b", "prompt": "p", "depends_on": ["a", "a"]}`), `4 /steps/1/depends_on/1: "a" is in the list twice`},
		{"precondition", doc("\"preconditions\": [\"x\", {\"command\": \"ls\"}, {\"comand\": \"ls\"}],\n", step), `2 /preconditions/2/command: is missing` + "\n" + `2 /preconditions/2/comand: is not a known key; did you mean "command"?`},
		{"file without change", doc("\"files\": [{\"path\": \"a\"}],\n", step), "2 /files/0/change: is missing"},
		{"change in another case", doc("\"files\": [{\"path\": \"a\", \"change\": \"Edit\"}],\n", step), `2 /files/0/change: must be one of edit, new, delete, not "Edit"`},
		{"uncovered without reason", doc("\"uncovered\": [{\"item\": \"x\", \"reason\": \" \"}, \"y\"],\n", step), "2 /uncovered/0/reason: is blank\n2 /uncovered/1: must be an object, not a string"},
		{"criterion of two lines", strings.Replace(doc("", step), "it works", `it\nworks`, 1), `4 /acceptance/0/criterion: "it\nworks" must be one line of text`},
		{"level", strings.Replace(doc("", step), `"it works"`, `"it works", "level": "MUST"`, 1), `4 /acceptance/0/level: must be one of must, should, not "MUST"`},
		{"proof", doc("", `{"id": "a", "command": "ls", "proof": {"type": "tests"}}`), `3 /steps/0/proof/type: must be one of script, test,`},
		{"proof in a proof", doc("", `{"id": "a", "command": "ls", "proof": {"type": "composite", "all": [{"typ": "test"}]}}`),
			"3 /steps/0/proof/all/0/type: is missing\n" + `3 /steps/0/proof/all/0/typ: is not a known key; did you mean "type"?`},
		{"sum", doc("", `{"id": "a", "command": "ls", "proof": {"type": "file", "path": "a", "sha256": "abc"}}`), `3 /steps/0/proof/sha256: "abc" must be a SHA-256 sum`},
		{"schema for editors", `{"$schema": "plan.json", "schema_version": 1, "title": "T", "steps": [` + step + `]}`, ""},
	} {
		p, problems := plan.Parse([]byte(tt.doc))
		same(t, tt.name, told(problems), tt.want)
		if bad := strings.Trim(tt.want, "~") == tt.want && tt.want != "" || strings.Contains(tt.want, "\n"); (p == nil) != bad {
			t.Errorf("%s: got a plan: %v", tt.name, p != nil)
		}
	}
}

// Parse reports all problems at once, in the order of the file.
func TestParseTellsAll(t *testing.T) {
	_, problems := plan.Parse([]byte(doc("\"vars\": {\"a\": 1},\n\"files\": [{\"path\": \"\", \"change\": \"new\"}],\n", `{"id": "A"},`+"\n"+`{"prompt": "p", "repeat": 0}`)))
	same(t, "all", told(problems), "2 /vars/a: must\n3 /files/0/path: is blank\n5 /steps/0/id: \n6 /steps/1/id: is missing\n6 /steps/1/repeat: must")
}

func TestParseReadsEveryField(t *testing.T) {
	p, problems := plan.Parse([]byte(full))
	if p == nil || len(problems) > 0 {
		t.Fatalf("got %s", told(problems))
	}
	if p.Preconditions[0].Text != "the database runs" || p.Preconditions[1].Command != "test -d build/todo" {
		t.Errorf("got preconditions %+v", p.Preconditions)
	}
	if a := p.Acceptance[0]; a.Verify != "grep -q x build/todo" || a.Level != "must" || a.Covers[0] != "paging works" {
		t.Errorf("got criterion %+v", a)
	}
	s := p.Steps[0]
	if s.ForEach.Command != "ls" || s.ForEach.Items != nil || s.As != "file" || s.Verify != "test -s {{file}}" || s.DependsOn == nil || len(*s.DependsOn) != 0 {
		t.Errorf("got step %+v", s)
	}
	inner := s.Steps[0]
	if inner.ForEach.Command != "" || len(inner.ForEach.Items) != 2 || inner.DependsOn != nil || *inner.Vars["x"] != "1" || !inner.ContinueOnError {
		t.Errorf("got step %+v", inner)
	}
	if s := p.Steps[1]; s.TimeoutSeconds != 1.5 || s.AllowedTools == nil || len(*s.AllowedTools) != 0 || s.Proof.Any[1].Contains != "<ok> & done" {
		t.Errorf("got step %+v", s)
	}
	same(t, "checks", told(p.Check(plan.Facts{})), "")
}

// full is a plan that has every field.
const full = `{"schema_version": 1, "title": "Add pagination", "summary": "Page the list", "requirements": ["limit"], "design_decisions": ["offset"],
"assumptions": ["few clients"], "preconditions": ["the database runs", {"command": "test -d {{todo}}"}],
"files": [{"path": "api/list.go", "change": "edit"}], "vars": {"todo": "build/todo", "cost": "$$5 $& {{x"}, "parallel": true,
"steps": [
  {"id": "each_file", "title": "Take {{file}}", "type": "group", "description": "One by one.", "desired_outcome": "all done", "verify": "test -s {{file}}",
   "for_each": "ls", "as": "file", "concurrency": 2, "depends_on": [], "parallel": true, "risk": "medium",
   "steps": [{"id": "other_file", "workflow": "more.json", "vars": {"x": "1"}, "for_each": ["a", "b"], "continue_on_error": true},
             {"id": "tell", "message": "{{file}} is done", "repeat": 2}]},
  {"id": "write_it", "prompt": "Write it to {{todo}}.", "output": "todo", "context": ["todo"], "agent": "claude", "model": "haiku", "session": "fresh",
   "allowed_tools": [], "timeout_seconds": 1.5, "llm_as_judge": true, "max_judge_attempts": 2, "covers": ["paging works"],
   "proof": {"type": "composite", "all": [{"type": "file", "path": "{{todo}}", "sha256": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}],
             "any": [{"type": "manual"}, {"type": "file", "path": "b.txt", "contains": "<ok> & done"}]}},
  {"id": "agree", "type": "approval", "title": "Go on?"},
  {"id": "generate", "command": "go generate", "self_healing": true, "max_healing_attempts": 3, "risk": "high", "verify": "git diff --exit-code"},
  {"id": "run_tests", "command": "go test ./...", "depends_on": ["generate"], "proof": {"type": "test"}}],
"acceptance": [{"criterion": "two items", "verify": "grep -q x {{todo}}", "level": "must", "covers": ["paging works"]}],
"uncovered": [{"item": "fast", "reason": "no data"}], "out_of_scope": ["cursors"], "rollback": ["git revert"], "touches": ["api/**"]}`
