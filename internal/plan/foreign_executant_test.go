package plan_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// goal returns a file of executant with these lines below steps, the first of them in line 3.
func goal(lines ...string) string { return "goal: G\nsteps:\n" + strings.Join(lines, "\n") + "\n" }

// What executant's own tests assert of its loader, in their order.
func TestExecutantLoads(t *testing.T) {
	for _, tt := range []struct{ name, doc, want string }{
		{"1 no goal", "steps:\n- name: a\n  command: ls\n", "~e.yaml:1: schema_version is missing\ne.yaml:1: /title: is missing\ne.yaml:2: /steps/0/id: is missing\ne.yaml:2: /steps/0/name: is not a known key"},
		{"1 goal without value", "goal:\nsteps:\n- name: a\n  command: ls\n", "e.yaml:1: /goal: must be a string, not null"},
		{"1 goal is not text", "goal: 7\nsteps:\n- name: a\n  command: ls\n", "e.yaml:1: /goal: must be a string, not 7"},
		{"1 no steps", "goal: G\n", "e.yaml:1: /steps: is missing"},
		{"1 null steps", "goal: G\nsteps:\n", "e.yaml:2: /steps: must be a list, not null"},
		{"1 an empty list, which executant ran", "goal: G\nsteps: []\n", "e.yaml:2: /steps: has 0 items, must have at least 1"},
		{"1 vars is a list", "goal: G\nvars: [a]\nsteps:\n- name: a\n  command: ls\n", "e.yaml:2: /vars: must be an object, not a list"},
		{"1 a command that is not text", goal("- name: a", "  command: 42"), "e.yaml:4: /steps/0/command: must be a string, not 42"},
		{"1 a name that is not text", goal("- name: 7", "  command: ls"), "e.yaml:3: /steps/0/name: must be a string, not 7"},
		{"1 no name", goal("- command: ls"), "e.yaml:3: /steps/0/name: is missing"},
		{"1 a value that is not text", "goal: G\nvars:\n  port: 8080\nsteps:\n- name: a\n  command: ls\n", "e.yaml:3: /vars/port: must be a string or null, not 8080"},
		{"1 a step that is not an object", goal("- ls"), "e.yaml:3: /steps/0: must be an object, not a string"},
		{"2 unknown type", goal("- name: a", "  type: shell", "  command: ls"), `e.yaml:4: /steps/0/type: must be one of prompt, script, command, log, workflow, not "shell"`},
		{"2 a type that is not text", goal("- name: a", "  type: [x]", "  command: ls"), "e.yaml:4: /steps/0/type: must be a string"},
		{"3 prompt without prompt", goal("- name: a", "  type: prompt"), "e.yaml:3: /steps/0: step a: a prompt step needs prompt\n~e.yaml:3: /steps/0: step a: nothing tells"},
		{"3 script without command", goal("- name: a", "  type: script"), "e.yaml:3: /steps/0: step a: a script step needs command"},
		{"3 command without command", goal("- name: a", "  type: command", "  prompt: p"), "e.yaml:3: /steps/0: step a: a script step needs command\n~e.yaml:5: /steps/0/prompt: prompt does not apply to a script step, and is ignored"},
		{"3 workflow without workflow", goal("- name: a", "  type: workflow"), "e.yaml:3: /steps/0: step a: a workflow step needs workflow"},
		{"5 names that are the same", goal("- name: b", "  command: ls", "- name: b", "  command: ls"), "e.yaml:5: /steps/1/name: b is the name of another step too, in line 3"},
		{"10 unknown placeholder", goal("- name: say it", "  command: echo {{wolrd}}"), "e.yaml:4: /steps/0/command: step say_it: {{wolrd}} in command is neither one of vars"},
		{"10 in other fields", goal("- name: a", "  message: '{{m}}'", "- name: b", "  workflow: x/{{w}}.yaml", "  vars: {k: '{{v}}'}", "- name: c", "  prompt: '{{p}}'", "  llm_as_judge: true"),
			"e.yaml:4: /steps/0/message: step a: {{m}} in message\ne.yaml:6: /steps/1/workflow: step b: {{w}} in workflow\ne.yaml:7: /steps/1/vars/k: step b: {{v}} in vars\ne.yaml:9: /steps/2/prompt: step c: {{p}} in prompt"},
		{"10 what is none", goal("- name: a", "  command: docker ps --format '{{.Names}} {{ x }}' ${{ x }} ${{x}}"), ""},
		{"10 in a name, where executant replaces none", goal("- name: do {{it}}", "  command: ls"), "~e.yaml:3: /steps/0/name: step do_it: {{it}} in title"},
		{"11 item outside of a loop", goal("- name: a", "  command: echo {{item}}"), "e.yaml:4: /steps/0/command: step a: {{item}} in command is neither"},
		{"12 repeat 0", goal("- name: a", "  command: ls", "  repeat: 0"), "e.yaml:5: /steps/0/repeat: must be at least 1, not 0"},
		{"12 repeat -1", goal("- name: a", "  command: ls", "  repeat: -1"), "e.yaml:5: /steps/0/repeat: must be at least 1, not -1"},
		{"12 two loops", goal("- name: a", "  command: ls", "  repeat: 2", "  forEach: [a]"), "e.yaml:5: /steps/0/repeat: step a: has for_each and repeat"},
		{"13 steps and a command", goal("- name: a", "  repeat: 2", "  command: ls", "  steps: [{name: b, command: ls}]"), "e.yaml:5: /steps/0/command: step a: command does not apply to a group step"},
		{"13 steps and a prompt", goal("- name: a", "  repeat: 2", "  prompt: p", "  steps: [{name: b, command: ls}]"), "e.yaml:5: /steps/0/prompt: step a: prompt does not apply to a group step"},
		{"13 steps and a message", goal("- name: a", "  repeat: 2", "  message: m", "  steps: [{name: b, command: ls}]"), "e.yaml:5: /steps/0/message: step a: message does not apply to a group step"},
		{"13 steps without a loop", goal("- name: a", "  steps: [{name: b, command: ls}]"), "e.yaml:3: /steps/0/steps: steps need a loop in files of executant"},
		{"13 no steps", goal("- name: a", "  repeat: 2", "  steps: []"), "e.yaml:5: /steps/0/steps: has 0 items, must have at least 1"},
		{"14 undeclared output", goal("- name: a", "  command: ls", "  output: list"), "e.yaml:5: /steps/0/output: step a: output names list, which is not one of vars"},
		{"14 undeclared context", goal("- name: a", "  prompt: p", "  llm_as_judge: true", "  context: [list]"), "e.yaml:6: /steps/0/context/0: step a: context names list, which is not one of vars"},
		{"14 output of a log", "goal: G\nvars: {v: x}\nsteps:\n- name: a\n  message: m\n  output: v\n", "e.yaml:6: /steps/0/output: step a: output does not apply to a log step"},
		{"16 timeout 0", goal("- name: a", "  command: ls", "  timeout_seconds: 0"), "e.yaml:5: /steps/0/timeout_seconds: must be more than 0, not 0"},

		{"19 unknown keys", "goal: G\nself_improve: true\nextra: 1\nsteps:\n- name: a\n  command: ls\n  foreach: [a]\n  retry: 3\n",
			"~e.yaml:2: keys of executant that mean nothing here, ignored: self_improve\n~e.yaml:3: /extra: is not known as a key of executant, and ignored\n~e.yaml:7: /steps/0/foreach: is not known\n~e.yaml:8: /steps/0/retry: is not known"},
		{"19 keys that do not apply", goal("- name: a", "  command: ls", "  llm_as_judge: true", "  context: [x]", "  allowed_tools: [Read]", "  model: m", "- name: b", "  prompt: p", "  llm_as_judge: true", "  self_healing: true",
			"- name: c", "  message: m", "  timeout_seconds: 3", "  continue_on_error: true", "  concurrency: 2", "  agent: x"),
			"~e.yaml:5: /steps/0/llm_as_judge: llm_as_judge does not apply to a script step, and is ignored\n~e.yaml:6: /steps/0/context: context does not\n~e.yaml:7: /steps/0/allowed_tools: allowed_tools does not\n~e.yaml:8: /steps/0/model: model does not\n" +
				"~e.yaml:12: /steps/1/self_healing: self_healing does not apply to a prompt step\n~e.yaml:15: /steps/2/timeout_seconds: timeout_seconds does not apply to a log step\n~e.yaml:16: /steps/2/continue_on_error: continue_on_error does not apply to a log step\n" +
				"~e.yaml:17: /steps/2/concurrency: concurrency is for a loop\n~e.yaml:18: /steps/2/agent: agent, a persona"},
		{"19 false says nothing", goal("- name: a", "  command: ls", "  llm_as_judge: false"), ""},
		{"19 unknown keys that say nothing", "owner: null\n" + goal("- name: a", "  command: ls", "  retry:", "  parallel: false"), ""},
	} {
		loads(t, tt.name, plan.LoadOptions{}, tt.want, "e.yaml", tt.doc)
	}
	_, problems := load(plan.LoadOptions{}, "e.yaml", goal("- name: a", "  command: ls", "  foreach: [a]", "  self_heal: true"))
	if problems[0].Hint != "did you mean forEach?" || problems[1].Hint != "did you mean self_healing?" {
		t.Errorf("got hints %q and %q", problems[0].Hint, problems[1].Hint)
	}
}

// The plan made of a file of executant says all that the file says.
func TestExecutantBecomesAPlan(t *testing.T) {
	const doc = `goal: |
  Release it

  with care
vars:
  list: build/{{item}}.txt
  all: build/all.txt
  region:
steps:
  - name: Prepare "it" (all)
    type: command
    command: make prepare
    self_healing: true
    max_healing_attempts: 3
    timeout_seconds: 1.5
    output: all
  - name: 2nd look
    prompt: Look at {{region}}.
    provider: opencode
    model: haiku
    allowed_tools: []
    context: [all]
    llm_as_judge: true
    continue_on_error: true
  - name: per file
    forEach: git ls-files '{{region}}'
    concurrency: 3
    steps:
      - name: check {{item}}
        command: test -s {{item}}
        output: list
      - name: check {{item}}
        repeat: 2
        command: echo {{item}} {{item_2}}
      - name: say
        type: log
        prompt: done with {{item}}
  - name: each
    forEach: [a, "", "b c"]
    prompt: Do {{item}}.
    message: not said
  - name: 完了
    type: log
  - name: over
    message: over
  - name: more
    workflow: ./more.yaml
    vars: {x: "{{region}}"}
`
	const want = `{"schema_version": 1, "title": "Release it", "summary": "Release it\n\nwith care", "vars": {"list": "build/{{item}}.txt", "all": "build/all.txt", "region": null}, "steps": [
		{"id": "prepare_it_all", "title": "Prepare \"it\" (all)", "type": "script", "command": "make prepare", "self_healing": true, "max_healing_attempts": 3, "timeout_seconds": 1.5, "output": "all"},
		{"id": "step_2nd_look", "title": "2nd look", "type": "prompt", "prompt": "Look at {{region}}.", "agent": "opencode", "model": "haiku", "allowed_tools": [], "context": ["all"], "llm_as_judge": true, "continue_on_error": true},
		{"id": "per_file", "title": "per file", "type": "group", "for_each": "git ls-files '{{region}}'", "concurrency": 3, "steps": [
			{"id": "check_item", "title": "check {{item}}", "type": "script", "command": "test -s {{item}}", "output": "list"},
			{"id": "check_item_2", "title": "check {{item}}", "type": "script", "repeat": 2, "as": "item_2", "command": "echo {{item}} {{item_2}}"},
			{"id": "say", "title": "say", "type": "log", "message": "done with {{item}}"}]},
		{"id": "each", "title": "each", "type": "prompt", "for_each": ["a", "b c"], "prompt": "Do {{item}}."},
		{"id": "step_5", "title": "完了", "type": "log", "message": "完了"},
		{"id": "over", "title": "over", "type": "log", "message": "over"},
		{"id": "more", "title": "more", "type": "workflow", "workflow": "./more.yaml", "vars": {"x": "{{region}}"}}]}`
	const more = "goal: More\nvars:\n  x:\nsteps:\n- name: a\n  command: echo {{x}}\n"
	given := plan.LoadOptions{Given: map[string]string{"region": "eu"}}
	const warnings = "~f.yaml:33: /steps/2/steps/1/repeat: {{item}} in this loop is the item of the loop around it\n~f.yaml:38: /steps/3: step each: nothing tells\n~f.yaml:41: /steps/3/message: message does not apply"
	a := loads(t, "executant", given, warnings, "f.yaml", doc, "more.yaml", more)
	b := loads(t, "ours", given, "~f.json", "f.json", want, "more.yaml", more)
	if got, want := marshal(t, a.Plan("")), marshal(t, b.Plan("")); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Values are inserted literally and in one pass, in whatever order they are declared.
func TestExecutantValues(t *testing.T) {
	doc := func(vars string) string {
		return "goal: G\nvars:\n" + vars + "steps:\n- name: a\n  forEach: cat {{list}}\n  command: echo '{{one}} {{two}} {{item}}'\n"
	}
	const first, second = "  one: $1 $& $$ {{two}}\n", "  two: \"2\\n3\"\n  list: l.txt\n"
	for _, vars := range []string{first + second, second + first} {
		b, problems := load(plan.LoadOptions{}, "e.yaml", doc(vars))
		if b == nil {
			t.Fatal(lines(problems))
		}
		p := b.Plan("")
		values := map[string]string{"item": "{{one}}"}
		for name, v := range p.Vars {
			values[name] = *v
		}
		if got := plan.Fill(p.Steps[0].Command, values); got != "echo '$1 $& $$ {{two}} 2\n3 {{one}}'" {
			t.Errorf("got %q", got)
		}
		if got := plan.Fill(p.Steps[0].ForEach.Command, values); got != "cat l.txt" {
			t.Errorf("got %q", got)
		}
	}
	b := loads(t, "no vars", plan.LoadOptions{}, "", "e.yaml", goal("- name: a", "  command: ls"))
	if p := b.Plan(""); len(p.Vars) != 0 || p.Steps[0].SelfHealing || p.Steps[0].TimeoutSeconds != 0 || p.Steps[0].Output != "" || p.Steps[0].Context != nil || p.Steps[0].Model != "" {
		t.Errorf("got %+v", p)
	}
}

// The variable of a loop of executant gets a name that no var has.
func TestExecutantVariables(t *testing.T) {
	doc := "goal: G\nvars: {item_2: x}\nsteps:\n- name: a\n  repeat: 2\n  steps:\n  - name: b\n    repeat: 3\n    steps:\n    - name: c\n      repeat: 4\n      command: ls {{item}} {{item_2}} {{item_2_}} {{item_3}}\n"
	b := loads(t, "three loops", plan.LoadOptions{}, "~e.yaml:8: /steps/0/steps/0/repeat: {{item}}\n~e.yaml:11: /steps/0/steps/0/steps/0/repeat: {{item}}", "e.yaml", doc)
	s := b.Plan("").Steps[0]
	if s.As != "" || s.Steps[0].As != "item_2_" || s.Steps[0].Steps[0].As != "item_3" {
		t.Errorf("got %q, %q and %q", s.As, s.Steps[0].As, s.Steps[0].Steps[0].As)
	}
	loads(t, "item is a var", plan.LoadOptions{}, "e.yaml:4: /steps/0: step a: the loop's variable item is one of vars too", "e.yaml", "goal: G\nvars: {item: x}\nsteps:\n- name: a\n  repeat: 2\n  command: ls {{item}}\n")
}

// Steps whose names give the same id, or none, get ids that differ and have at most 60 characters.
func TestExecutantIDs(t *testing.T) {
	long := strings.Repeat("long ", 20)
	var steps []string
	for _, name := range []string{"x 2", "x", "x!", "(x)", long, long + "!", "9", "!", "?"} {
		steps = append(steps, "- name: '"+name+"'", "  command: ls")
	}
	b := loads(t, "ids", plan.LoadOptions{}, "", "e.yaml", goal(steps...))
	want := "x_2 x x_3 x_4 " + strings.Repeat("long_", 11) + "long " + strings.Repeat("long_", 11) + "lon_2 step_9 step_8 step_9_2"
	if got := strings.Join(b.Plan("").IDs(), " "); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// In files of other tools only errors are reported, not matters of style.
func TestExecutantMayBeItself(t *testing.T) {
	loads(t, "smells", plan.LoadOptions{}, "", "e.yaml", goal("- name: build and test", "  command: ls > /tmp/x/y.txt", "- name: a_1", "  command: ls b/c.d", "- name: a_2", "  command: ls b/c.d", "- name: a_3",
		"  prompt: |", "    Read the output of the previous step.", "    - a", "    - b", "    - c", "  llm_as_judge: true"))
}

// In a task, the goal is the acceptance criterion, and the file has to give all values, since nobody else can.
func TestExecutantInATask(t *testing.T) {
	b := loads(t, "task", plan.LoadOptions{Task: true}, "", "plan.json", `{"goal": "Do it.\nAll of it.", "steps": [{"name": "a", "command": "ls"}]}`)
	if a := b.Plan("").Acceptance; len(a) != 1 || a[0].Criterion != "Do it." {
		t.Errorf("got %+v", a)
	}
	loads(t, "value", plan.LoadOptions{Task: true}, "plan.json:2: /vars/x: x has no value: a task's plan has to set every value", "plan.json", "{\"goal\": \"Do it.\",\n\"vars\": {\"x\": null}, \"steps\": [{\"name\": \"a\", \"command\": \"ls\"}]}")
	loads(t, "key twice", plan.LoadOptions{Task: true}, "plan.json:2: /goal: appears twice, also in line 1", "plan.json", "{\"goal\": \"Do it.\",\n\"goal\": \"x\", \"steps\": [{\"name\": \"a\", \"command\": \"ls\"}]}")
}
