package plan_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// yamlSteps returns a plan in YAML with these lines below steps, the first of them in line 4.
func yamlSteps(lines ...string) string {
	return "schema_version: 1\ntitle: T\nsteps:\n" + strings.Join(lines, "\n") + "\n"
}

func TestYAML(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"fine", yamlSteps("  - id: a", "    command: ls"), ""},
		{"unknown key", yamlSteps("  - id: a", "    comand: ls"), "f.yaml:5: /steps/0/comand: is not a known key; did you mean \"command\"?"},
		{"no version", "title: T\nsteps: [{id: a, command: ls}]\n", "~f.yaml:1: schema_version is missing: taken for 1"},

		{"number", yamlSteps("  - id: a", "    command: 42"), "f.yaml:5: /steps/0/command: must be a string, not 42"},
		{"version", yamlSteps("  - id: a", "    model: 4.10", "    prompt: p", "    verify: ls"), "f.yaml:5: /steps/0/model: must be a string, not 4.10"},
		{"number in a list", yamlSteps("  - id: a", "    command: ls", "    for_each:", "      - 1", "      - b"), "f.yaml:7: /steps/0/for_each/0: must be a string, not 1"},
		{"date", yamlSteps("  - id: a", "    command: ls", "    for_each: [2024-01-02]"), ""},
		{"octal", yamlSteps("  - id: a", "    command: ls", "    repeat: 010"), "f.yaml:6: 010 is not the same number to every reader of YAML"},
		{"other numbers", yamlSteps("  - {id: a, command: 0x1F}", "  - {id: b, command: 1_000}", "  - {id: c, command: .inf}", "  - {id: d, command: +1}"),
			"f.yaml:4: 0x1F is not\nf.yaml:5: 1_000 is not\nf.yaml:6: .inf is not\nf.yaml:7: +1 is not"},
		{"clock", yamlSteps("  - id: a", "    command: 12:30"), ""},
		{"nothing", yamlSteps("  - id: a", "    command:"), "f.yaml:5: /steps/0/command: must be a string, not null"},

		{"yes for true", yamlSteps("  - id: a", "    prompt: p", "    llm_as_judge: yes"), "f.yaml:6: /steps/0/llm_as_judge: must be true or false, not a string"},
		{"no for false", yamlSteps("  - id: a", "    command: ls", "    self_healing: No"), "f.yaml:6: /steps/0/self_healing: must be true or false"},
		{"True", yamlSteps("  - id: a", "    prompt: p", "    llm_as_judge: True"), ""},
		{"true as text", yamlSteps("  - id: a", "    command: true"), "f.yaml:5: /steps/0/command: must be a string, not true"},
		{"yes as text", yamlSteps("  - id: a", "    command: yes", "    for_each: [de, no, 'no', \"off\", se]"), "~f.yaml:5: /steps/0/command: yes is text here, and true to other readers of YAML\n~f.yaml:6: /steps/0/for_each/1: no is text here, and false"},
		{"on as a key", "schema_version: 1\ntitle: T\nvars:\n  on: x\n  'off': y\nsteps: [{id: a, command: 'ls {{on}} {{off}}'}]\n", "~f.yaml:4: the key on is text here, and true to other readers"},
		{"true as a key", "schema_version: 1\ntitle: T\nvars:\n  true: x\nsteps: [{id: a, command: ls}]\n", "f.yaml:4: the key true is not text"},
		{"a number as a key", "schema_version: 1\ntitle: T\nvars:\n  1: x\nsteps: [{id: a, command: ls}]\n", "f.yaml:4: the key 1 is not text"},
		{"nothing as a key", "schema_version: 1\ntitle: T\n~: x\nsteps: [{id: a, command: ls}]\n", "f.yaml:3: the key ~ is not text"},
		{"braces without quotes", yamlSteps("  - id: a", "    command: {{x}}"), "f.yaml:5: a key has to be text"},
		{"braces and more", yamlSteps("  - id: a", "    command: {{x}}.txt"), "f.yaml:5: not valid YAML: "},

		{"key twice", yamlSteps("  - id: a", "    command: ls", "    command: cat"), "f.yaml:6: /steps/0/command: appears twice, also in line 5"},
		{"a tab", yamlSteps("  - id: a", "\tcommand: ls"), "f.yaml:5: not valid YAML: there is a tab before the text"},
		{"a tab inside", yamlSteps("  - id: a", "    command: \"a\tb\""), ""},
		{"a colon", yamlSteps("  - id: a", "    prompt: Fix this: now"), "f.yaml:5: not valid YAML: mapping values"},
		{"not closed", yamlSteps("  - id: a", "    command: \"ls"), "f.yaml:5: not valid YAML: "},
		{"a conflict", yamlSteps("<<<<<<< HEAD", "  - id: a", "=======", "  - id: b", ">>>>>>> other"), "f.yaml:4: not valid YAML: git left a merge conflict here"},
		{"two documents", yamlSteps("  - {id: a, command: ls}", "---", "title: U"), "f.yaml:5: more than one YAML document"},
		{"an end", yamlSteps("  - {id: a, command: ls}", "..."), ""},
		{"tags", yamlSteps("  - id: !!str a", "    command: !!str 42"), ""},
		{"other tags", yamlSteps("  - id: a", "    command: !!binary aGk=", "    title: !own x", "    for_each: !!set {a}"), "f.yaml:5: the tag !!binary means nothing\nf.yaml:6: the tag !own means nothing\nf.yaml:7: the tag !!set means nothing"},
		{"a list", "- a\n- b\n", "f.yaml:1: must be an object, not a list"},
		{"a block for a line", yamlSteps("  - id: a", "    title: |", "      Do it", "    command: ls"), `f.yaml:5: /steps/0/title: "Do it\n" must be one line of text`},
		{"a block without its end", yamlSteps("  - id: a", "    title: >-", "      Do", "      it", "    command: ls"), ""},
		{"a check of two lines", yamlSteps("  - id: a", "    prompt: p", "    verify: |", "      set -e", "      go vet"), ""},
	} {
		loads(t, tt.name, plan.LoadOptions{}, tt.want, "f.yaml", tt.doc)
	}
}

// Anchors, aliases and merge keys are replaced by what they name: a step's own keys win, then the first of a merged list.
func TestYAMLAnchors(t *testing.T) {
	const doc = `schema_version: 1
title: T
vars: &vars
  a: &a one
  b: *a
steps:
  - &first
    id: first
    command: &cmd |
      echo {{a}}
    timeout_seconds: 5
  - <<: *first
    id: second
  - id: third
    <<: [{timeout_seconds: 7, title: Third}, *first]
    command: *cmd
  - id: fourth
    workflow: other.yaml
    vars: *vars
  - id: fifth
    !!merge <<: {command: ls}
`
	b := loads(t, "anchors", plan.LoadOptions{}, "", "f.yaml", doc, "other.yaml", "schema_version: 1\ntitle: O\nvars: {a: , b: }\nsteps: [{id: s, command: 'ls {{a}} {{b}}'}]\n")
	want := loads(t, "the same", plan.LoadOptions{}, "", "f.json", `{"schema_version": 1, "title": "T", "vars": {"a": "one", "b": "one"}, "steps": [
		{"id": "first", "command": "echo {{a}}\n", "timeout_seconds": 5}, {"id": "second", "command": "echo {{a}}\n", "timeout_seconds": 5},
		{"id": "third", "command": "echo {{a}}\n", "timeout_seconds": 7, "title": "Third"}, {"id": "fourth", "workflow": "other.yaml", "vars": {"a": "one", "b": "one"}},
		{"id": "fifth", "command": "ls"}]}`, "other.yaml", "schema_version: 1\ntitle: O\nvars: {a: , b: }\nsteps: [{id: s, command: 'ls {{a}} {{b}}'}]\n")
	if got, want := marshal(t, b.Plan("")), marshal(t, want.Plan("")); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for name, tt := range map[string]struct{ step, want string }{
		"a list":         {"{id: a, command: ls, <<: [[x]]}", "f.yaml:4: << takes in keys and values"},
		"a text":         {"{id: a, command: ls, <<: x}", "f.yaml:4: << takes in keys and values"},
		"a mistake":      {"{id: a, <<: {comand: ls}}", "f.yaml:4: /steps/0/comand: is not a known key; did"},
		"no such anchor": {"{id: a, command: *b}", "f.yaml:4: not valid YAML: unknown anchor 'b' referenced"},
	} {
		loads(t, name, plan.LoadOptions{}, tt.want, "f.yaml", yamlSteps("  - "+tt.step))
	}
}

// A small file that expands to a very large one is refused.
func TestYAMLBombs(t *testing.T) {
	bomb := "a: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 12 {
		bomb += strings.ReplaceAll("b#: &a# [*a@, *a@, *a@, *a@, *a@, *a@, *a@, *a@, *a@, *a@]\n", "#", string(rune('a'+i)))
		bomb = strings.ReplaceAll(bomb, "@", map[bool]string{true: "0", false: string(rune('a' + i - 1))}[i == 0])
	}
	merges := "a0: &a0 {k: v}\n" + strings.Repeat("a: &a0 {<<: [*a0, *a0, *a0, *a0]}\n", 40)
	for _, tt := range []struct{ name, doc, want string }{
		{"aliases of aliases", bomb, "f.yaml:1: its aliases make more than 4 MB of it"},
		{"itself", "a: &a [*a]\n", "f.yaml:1: lists and objects are nested too deep"},
		{"itself, often", "a: &a [*a, *a, *a]\n", "f.yaml:1: lists and objects are nested too deep"},
		{"itself merged", "a: &a {<<: *a}\n", "f.yaml:1: lists and objects are nested too deep"},
		{"merges of merges", merges, "f.yaml:2: lists and objects are nested too deep"},
		{"deep", "a: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), "f.yaml:1: lists and objects are nested too deep"},
		{"deeper than the parser", strings.Repeat("[", 20000), "f.yaml:1: not valid YAML: exceeded max depth"},
		{"a long text, often", "a: &a " + strings.Repeat("x", 1000) + "\nb: [" + strings.Repeat("*a, ", 5000) + "]\n", "f.yaml:2: its aliases make more than 4 MB of it"},
		{"broken at its end", strings.Repeat("a: b\n", 150_000) + "\tc", "f.yaml:150000: not valid YAML: found a tab"},
	} {
		loads(t, tt.name, plan.LoadOptions{}, tt.want, "f.yaml", tt.doc)
	}
}

func TestYAMLHints(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"command: 42", `quote it, if it is text: "42"`},
		{"command: 1.10", `quote it, if it is text: "1.10"`},
		{"command: true", `quote it, if it is text: "true"`},
		{"command: 0o17", `quote it where text is meant: "0o17"; else write it in decimal digits`},
		{"command: {{x}}", "quote text that begins with {{, [ or {"},
		{"command: {{x}} y", "quote text that begins with {{"},
		{"command: a: b", `quote text that has ": " in it, or write it below a |`},
		{"self_healing: on", "write true"},
		{"self_healing: OFF", "write false"},
		{"self_healing: 'on'", ""},
		{"title: |\n      x", "a text below | or > ends with a line break: use |- or >-, and keep it to one line"},
		{"message: no", `quote it: "no"`},
		{"repeat: '3'", ""},
	} {
		_, problems := load(plan.LoadOptions{}, "f.yaml", yamlSteps("  - id: a", "    "+tt.line))
		if problems[0].Hint != tt.want {
			t.Errorf("%s: got %v with hint %q, want %q", tt.line, problems[0].Error(), problems[0].Hint, tt.want)
		}
	}
}
