package plan_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/templates"
)

// list returns a JSON list of n different sentences.
func list(n int) string {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`"s%d"`, i+1))
	}
	return "[" + strings.Join(items, ", ") + "]"
}

// actions returns a JSON list of n actions.
func actions(n int) string {
	return "[" + strings.Join(slices.Repeat([]string{`{"tool": "edit"}`}, n), ", ") + "]"
}

const everything = `{"user_intent": "page the list", "goals": ["g"], "constraints": ["c"], "artifacts": ["a"], "contexts": ["x"],
"actions": [{"tool": "edit", "params": {"path": "api/list.go", "n": 1.50}, "description": "take limit", "reason": "paging"}, {"tool": "run"}], "acceptance": ["limit=2 gives two"], "priority": "high"}`

// T-B1 and T-B12: what a TaskSpec may contain, and the exact place of each error.
func TestParseTaskSpec(t *testing.T) {
	with := func(s string) string { return `{"user_intent": "x", ` + s + `}` }
	for _, tt := range []struct{ doc, want string }{
		{everything, ""},
		{`{"user_intent": "x"}`, ""},
		{"\ufeff{\"user_intent\": \"x\"}\r\n", ""},
		{`{}`, "/user_intent: is missing"},
		{`{"user_intent": ""}`, "/user_intent: is blank"},
		{`{"user_intent": " \n"}`, "/user_intent: is blank"},
		{`{"user_intent": null}`, "/user_intent: must be a string, not null"},
		{`{"user_intent": ["x"]}`, "/user_intent: must be a string, not a list"},
		{with(`"goals": ` + list(12)), ""},
		{with(`"goals": ` + list(13)), "/goals: has 13 items, may have at most 12"},
		{with(`"constraints": ` + list(13)), "/constraints: has 13 items"},
		{with(`"artifacts": ` + list(13)), "/artifacts: has 13 items"},
		{with(`"contexts": ` + list(13)), "/contexts: has 13 items"},
		{with(`"acceptance": ` + list(12)), ""},
		{with(`"acceptance": ` + list(13)), "/acceptance: has 13 items"},
		{with(`"actions": ` + actions(16)), ""},
		{with(`"actions": ` + actions(17)), "/actions: has 17 items, may have at most 16"},
		{with(`"goals": null`), "/goals: must be a list, not null"},
		{with(`"goals": "one"`), "/goals: must be a list, not a string"},
		{with(`"goals": ["a", ""]`), "/goals/1: is blank"},
		{with(`"goals": [null, 1]`), "/goals/0: must be a string, not null\n/goals/1: must be a string, not 1"},
		{with(`"summary": "x"`), "/summary: is not a known key"},
		{with(`"goal": ["x"]`), `/goal: is not a known key; did you mean "goals"?`},
		{with(`"userIntent": "x"`), `/userIntent: is not a known key; did you mean "user_intent"?`},
		{with(`"actions": [{"tool": "edit", "path": "x"}]`), "/actions/0/path: is not a known key"},
		{with(`"actions": [{"description": "x"}]`), "/actions/0/tool: is missing"},
		{with(`"actions": [{"tool": ""}, {"tool": null}]`), "/actions/0/tool: is blank\n/actions/1/tool: must be a string, not null"},
		{with(`"actions": [{"tool": "x", "params": []}]`), "/actions/0/params: must be an object, not a list"},
		{with(`"actions": [{"tool": "x", "params": {"any": {"thing": [null]}}}]`), ""},
		{with(`"actions": [{"tool": "x", "description": "", "reason": null}]`), "/actions/0/description: is blank\n/actions/0/reason: must be a string, not null"},
		{with(`"actions": ["edit"]`), "/actions/0: must be an object, not a string"},
		{with(`"priority": "normal"`), ""},
		{with(`"priority": "HIGH"`), `/priority: must be one of low, normal, high, not "HIGH"`},
		{with(`"priority": "medium"`), `/priority: must be one of low, normal, high, not "medium"`},
		{with(`"priority": null`), "/priority: must be a string, not null"},
		{with(`"goals": ["a"], "goals": ["b"]`), "/goals: appears twice"},
		{`{"taskspec": {"user_intent": "x"}}`, "/user_intent: is missing\n/taskspec: is not a known key"},
		{"I can't help with that.", "/: not valid JSON"},
		{`{"user_intent": "x",}`, "/: not valid JSON"},
		{"", "/: the file is empty"},
		{"[]", "/: must be an object, not a list"},
	} {
		spec, problems := plan.ParseTaskSpec([]byte(tt.doc))
		same(t, tt.doc, strings.Join(problems, "\n"), tt.want)
		if (spec == nil) != (tt.want != "") {
			t.Errorf("%s: got a TaskSpec: %v", tt.doc, spec != nil)
		}
	}
}

// A TaskSpec that has nothing but its intent is still written with all eight fields.
func TestTaskSpecIsWhole(t *testing.T) {
	spec, _ := plan.ParseTaskSpec([]byte(`{"user_intent": "x", "actions": [{"tool": "t", "params": {"n": 1.50}}]}`))
	const want = `{"user_intent":"x","goals":[],"constraints":[],"artifacts":[],"contexts":[],"actions":[{"tool":"t","params":{"n":1.50}}],"acceptance":[],"priority":"normal"}`
	if got := marshal(t, spec); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStub(t *testing.T) {
	for requirement, want := range map[string]string{"page the list": "page the list", "": "(the requirement is blank)", " \n\u00a0": "(the requirement is blank)"} {
		stub := plan.MinimalTaskSpec(requirement)
		if stub.UserIntent != want || stub.Priority != "normal" {
			t.Errorf("got %+v", stub)
		}
		if spec, problems := plan.ParseTaskSpec([]byte(marshal(t, stub))); spec == nil {
			t.Errorf("%q: the stub is none: %q", requirement, problems)
		}
	}
}

func TestTaskPriority(t *testing.T) {
	for priority, want := range map[string]string{"high": "P1", "low": "P3", "normal": "", "": ""} {
		if got := (plan.TaskSpec{Priority: priority}).TaskPriority(); got != want {
			t.Errorf("%s: got %q, want %q", priority, got, want)
		}
	}
}

func TestHint(t *testing.T) {
	spec, _ := plan.ParseTaskSpec([]byte(everything))
	const want = `page the list

## Goals

- g

## Constraints

- c

## Artifacts

- a

## Contexts

- x

## Actions

- edit: take limit {"path": "api/list.go", "n": 1.50} (paging)
- run

## Acceptance

- limit=2 gives two

Priority: high
`
	if got := spec.Hint(); got != want {
		t.Errorf("got\n%s", got)
	}
	if got := plan.MinimalTaskSpec("x").Hint(); got != "x\n" {
		t.Errorf("got %q", got)
	}
}

func TestSalvage(t *testing.T) {
	with := func(s string) string { return `{"user_intent": "x", ` + s + `}` }
	for _, tt := range []struct{ doc, want, warnings string }{
		{everything, everything, ""},
		{with(`"goals":   ["a"]`), with(`"goals":   ["a"]`), ""},
		{with(`"goals": ` + list(14)), with(`"goals": ` + list(12)), "/goals: has 14 items, those after the first 12 are left out"},
		{with(`"actions": ` + actions(18)), with(`"actions": ` + actions(16)), "/actions: has 18 items, those after the first 16 are left out"},
		{with(`"goals": ["a", " ", null, "b"]`), with(`"goals": ["a", "b"]`), "/goals/1: is blank, left out\n/goals/2: is blank, left out"},
		{with(`"goals": ` + strings.Replace(list(13), `"s2"`, "null", 1)), with(`"goals": ` + strings.Replace(list(13), `"s2", `, "", 1)), "/goals/1: is blank, left out"},
		{with(`"goals": null, "actions": null`), with(`"goals": [], "actions": []`), "/goals: is null, taken for an empty list\n/actions: is null"},
		{with(`"priority": null`), `{"user_intent": "x"}`, "/priority: is blank, left out"},
		{with(`"priority": ""`), `{"user_intent": "x"}`, "/priority: is blank, left out"},
		{with(`"actions": [null, {"tool": "t", "params": null, "description": "", "reason": "r"}]`), with(`"actions": [{"tool": "t", "reason": "r"}]`),
			"/actions/0: is blank, left out\n/actions/1/params: is blank, left out\n/actions/1/description: is blank, left out"},
		// values that can't be repaired are kept, also beside others that can
		{with(`"more": null, "goals": null`), with(`"more": null, "goals": []`), "/goals: is null"},
		{with(`"goals": "a", "priority": "HIGH"`), with(`"goals": "a", "priority": "HIGH"`), ""},
		{with(`"actions": [{"tool": ""}, {"tool": null}]`), with(`"actions": [{"tool": ""}, {"tool": null}]`), ""},
		{with(`"goals": [1, ["a"]]`), with(`"goals": [1, ["a"]]`), ""},
		{`{"user_intent": "", "goals": null}`, `{"user_intent": "", "goals": []}`, "/goals: is null"},
		{`{"user_intent": null}`, `{"user_intent": null}`, ""},
		{with(`"goals": null, "goals": ["a"]`), with(`"goals": null, "goals": ["a"]`), ""},
		{"I can't help", "I can't help", ""},
		{"[null]", "[null]", ""},
	} {
		got, warnings := plan.RepairTaskSpec([]byte(tt.doc))
		if string(got) != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.doc, got, tt.want)
		}
		same(t, tt.doc, strings.Join(warnings, "\n"), tt.warnings)
	}
}

func FuzzTaskSpec(f *testing.F) {
	for _, doc := range []string{everything, `{"user_intent": "x", "goals": null, "actions": [null, {"tool": "", "params": null}], "priority": ""}`, `{"user_intent": " ", "goals": ` + list(14) + `}`, `[{`} {
		f.Add([]byte(doc))
	}
	schema, err := templates.Schema("taskspec")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before, problems := plan.ParseTaskSpec(data)
		if (before == nil) != (len(problems) > 0) {
			t.Fatalf("a TaskSpec: %v, problems: %q", before != nil, problems)
		}
		mended, warnings := plan.RepairTaskSpec(data)
		if bytes.Equal(mended, data) != (len(warnings) == 0) {
			t.Fatalf("changed to %s, told %q", mended, warnings)
		}
		after, left := plan.ParseTaskSpec(mended)
		if len(problems) < 20 && len(left) > len(problems) {
			t.Fatalf("more is wrong than before: %q, %q", left, problems)
		}
		if again, more := plan.RepairTaskSpec(mended); !bytes.Equal(again, mended) || more != nil {
			t.Fatalf("mended twice: %q", more)
		}
		if after == nil {
			return
		}
		_, _ = after.Hint(), after.TaskPriority()
		if wrong, err := templates.Violations(schema, json.RawMessage(marshal(t, after))); err != nil || wrong != nil {
			t.Fatalf("what was read is none: %q, %v", wrong, err)
		}
	})
}
