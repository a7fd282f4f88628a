package plan_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// calls returns a plan in YAML whose steps, one a line from line 4 on, call other files.
func calls(steps ...string) string {
	return "schema_version: 1\ntitle: T\nsteps:\n" + strings.Join(steps, "\n") + "\n"
}

func TestWorkflowsAreFound(t *testing.T) {
	d := &disk{files: map[string]string{
		"main.yaml":      "schema_version: 1\ntitle: T\nvars: {dir: sub, file: '../more'}\nsteps:\n- {id: a, workflow: '{{dir}}/a.yaml'}\n- {id: b, workflow: ./sub/../more.json}\n- {id: c, workflow: /opt/x.yaml}\n- {id: d, for_each: ['a', '{{dir}}'], workflow: 'sub/{{item}}.yaml', vars: {}}\n",
		"sub/a.yaml":     "schema_version: 1\ntitle: T\nvars: {file: '../more'}\nsteps:\n- {id: a, workflow: '{{file}}.json'}\n- {id: b, repeat: 2, as: n, steps: [{id: c, workflow: 'n{{n}}.yaml'}]}\n",
		"sub/sub.yaml":   calls("- {id: a, command: ls}"),
		"sub/n1.yaml":    calls("- {id: a, command: ls}"),
		"sub/n2.yaml":    "goal: G\nsteps:\n- name: x\n  command: ls\n",
		"more.json":      `{"schema_version": 1, "title": "T", "steps": [{"id": "a", "command": "ls"}]}`,
		"/opt/x.yaml":    calls("- {id: a, command: ls}"),
		"not/asked.yaml": "",
	}}
	b, problems := plan.Load(plan.LoadOptions{File: "ci/main.yaml", Read: d.Read})
	if b == nil {
		t.Fatal(lines(problems))
	}
	want := []string{"/opt/x.yaml", "main.yaml", "more.json", "sub/a.yaml", "sub/n1.yaml", "sub/n2.yaml", "sub/sub.yaml"}
	if got := slices.Sorted(maps.Keys(b.Plans)); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	slices.Sort(d.read)
	if !slices.Equal(d.read, want) {
		t.Errorf("read %q, want each once", d.read)
	}
	for _, tt := range []struct{ file, name, want string }{
		{"", "sub/a.yaml", "sub/a.yaml"}, {"sub/a.yaml", "../more.json", "more.json"}, {"sub/a.yaml", "n1.yaml", "sub/n1.yaml"}, {"", "/opt/x.yaml", "/opt/x.yaml"},
	} {
		if got := b.FileKey(tt.file, tt.name); got != tt.want || b.Plan(got) == nil {
			t.Errorf("got %q, want %q, and that in the bundle", got, tt.want)
		}
	}
}

func TestWorkflowsThatAreWrong(t *testing.T) {
	with := func(vars string, steps ...string) string {
		return "schema_version: 1\ntitle: T\nvars: {" + vars + "}\nsteps:\n" + strings.Join(steps, "\n") + "\n"
	}
	child := with("x: , y: z", "- {id: a, command: 'ls {{x}} {{y}}'}")
	for _, tt := range []struct {
		name string
		o    plan.LoadOptions
		want string
		docs []string
	}{
		{"missing", plan.LoadOptions{}, "ci/m.yaml:5: /steps/1/workflow: step b: there is no file ci/x/gone.yaml", []string{"m.yaml", calls("- {id: a, command: ls}", "- {id: b, workflow: x/gone.yaml}")}},
		{"missing below", plan.LoadOptions{}, "ci/x/a.yaml:4: /steps/0/workflow: step a: there is no file ci/x/gone.yaml", []string{"m.yaml", calls("- {id: b, workflow: x/a.yaml}"), "x/a.yaml", calls("- {id: a, workflow: gone.yaml}")}},
		{"missing for a task", plan.LoadOptions{File: ".trellis/tasks/t/plan.json", Task: true}, ".trellis/tasks/t/plan.json:3: /steps/0/workflow: step a: there is no file x/gone.yaml", []string{"plan.json", doc("", `{"id": "a", "workflow": "x/gone.yaml"}`)}},
		{"from elsewhere", plan.LoadOptions{}, "ci/m.yaml:4: /steps/0/workflow: step a: https://example.com/a.yaml is not here: Trellis runs no file from elsewhere", []string{"m.yaml", calls("- {id: a, workflow: 'https://example.com/a.yaml'}")}},
		{"from elsewhere by a value", plan.LoadOptions{}, "ci/m.yaml:5: /steps/0/workflow: step a: ssh://x/a.yaml is not here", []string{"m.yaml", with("at: 'ssh://x'", "- {id: a, workflow: '{{at}}/a.yaml'}")}},
		{"itself", plan.LoadOptions{}, "ci/m.yaml:4: /steps/0/workflow: step a: these files call each other without end: ci/m.yaml → ci/m.yaml", []string{"m.yaml", calls("- {id: a, workflow: ./m.yaml}")}},
		{"each other", plan.LoadOptions{}, "ci/x/b.yaml:4: /steps/0/workflow: step c: these files call each other without end: ci/m.yaml → ci/x/b.yaml → ci/m.yaml",
			[]string{"m.yaml", calls("- {id: a, workflow: x/b.yaml}", "- {id: b, workflow: x/b.yaml}"), "x/b.yaml", calls("- {id: c, workflow: ../m.yaml}")}},
		{"the run says which", plan.LoadOptions{}, "ci/m.yaml:4: /steps/0/workflow: step a: its file has to be known before the run, and {{item}} is not\nci/m.yaml:5: /steps/1/steps/0/workflow: step c: its file has to be known before the run, and {{f}} is not",
			[]string{"m.yaml", calls("- {id: a, for_each: ls, workflow: '{{item}}'}", "- {id: b, for_each: ls, steps: [{id: c, as: f, for_each: ['{{item}}'], workflow: '{{f}}'}]}")}},
		{"the run says which, further down", plan.LoadOptions{}, "ci/x.yaml:5: /steps/0/workflow: step c: its file has to be known before the run, and {{f}} is not",
			[]string{"m.yaml", calls("- {id: a, for_each: ls, workflow: x.yaml, vars: {f: '{{item}}'}}"), "x.yaml", with("f: a.yaml", "- {id: c, workflow: '{{f}}'}")}},
		{"unknown placeholder", plan.LoadOptions{}, "ci/m.yaml:4: /steps/0/workflow: step a: {{f}} in workflow is neither", []string{"m.yaml", calls("- {id: a, workflow: '{{f}}'}")}},
		{"17 a value is missing", plan.LoadOptions{}, "ci/m.yaml:4: /steps/0/workflow: step a: ci/x.yaml needs a value for x", []string{"m.yaml", calls("- {id: a, workflow: x.yaml, vars: {y: '1'}}"), "x.yaml", child}},
		{"17 undeclared, before missing", plan.LoadOptions{}, "ci/m.yaml:4: /steps/0/vars/xx: step a: ci/x.yaml declares no var xx", []string{"m.yaml", calls("- {id: a, workflow: x.yaml, vars: {xx: '1'}}"), "x.yaml", child}},
		{"17 all given", plan.LoadOptions{}, "", []string{"m.yaml", calls("- {id: a, workflow: x.yaml, vars: {x: '1'}}", "- {id: b, workflow: x.yaml, vars: {x: '2', y: '3'}}"), "x.yaml", child}},
		{"17 by a person", plan.LoadOptions{Given: map[string]string{"v": "1"}}, "", []string{"m.yaml", with("v: ", "- {id: a, workflow: x.yaml, vars: {x: '{{v}}'}}"), "x.yaml", child}},
		{"null", plan.LoadOptions{}, "ci/m.yaml:4: /steps/0/vars/x: x has no value\nci/m.yaml:4: /steps/0/workflow: step a: ci/x.yaml needs a value for x", []string{"m.yaml", calls("- {id: a, workflow: x.yaml, vars: {x: }}"), "x.yaml", child}},
		{"broken below", plan.LoadOptions{}, "ci/x.yaml:1: /steps: is missing", []string{"m.yaml", calls("- {id: a, workflow: x.yaml}", "- {id: b, workflow: x.yaml}"), "x.yaml", "schema_version: 1\ntitle: T\n"}},
		{"wrong below, said once", plan.LoadOptions{}, "ci/x.yaml:4: /steps/0: step a: has nothing to do\nci/x.yaml:5: /steps/1/workflow: step b: there is no file ci/y.yaml",
			[]string{"m.yaml", calls("- {id: a, workflow: x.yaml}", "- {id: b, workflow: x.yaml}"), "x.yaml", calls("- {id: a}", "- {id: b, workflow: y.yaml}")}},
		{"a value that is missing here, nothing more", plan.LoadOptions{}, "ci/m.yaml:3: /vars/f: f has no value", []string{"m.yaml", with("f: ", "- {id: a, workflow: '{{f}}'}")}},
		{"no criterion below a task", plan.LoadOptions{File: "plan.json", Task: true}, "", []string{"plan.json", doc("", `{"id": "a", "workflow": "x.yaml", "vars": {"x": "1"}}`), "x.yaml", child}},
	} {
		if tt.o.File == "" {
			tt.o.File = "ci/m.yaml"
		}
		loads(t, tt.name, tt.o, tt.want, tt.docs...)
	}
}

// 19: if a workflow is at a URL, no local file is read in its place.
func TestWorkflowFromElsewhereIsNotRead(t *testing.T) {
	d := &disk{files: map[string]string{"m.yaml": calls("- {id: a, workflow: 'http://host/../x.yaml'}"), "x.yaml": calls("- {id: a, command: ls}")}}
	if b, _ := plan.Load(plan.LoadOptions{File: "m.yaml", Read: d.Read}); b != nil || len(d.read) != 1 {
		t.Errorf("read %q", d.read)
	}
}

// 18: files may call each other at most ten deep.
func TestWorkflowDepth(t *testing.T) {
	chain := func(n int) (docs []string) {
		for i := range n {
			docs = append(docs, fmt.Sprintf("f%d.yaml", i), calls(fmt.Sprintf("- {id: a, workflow: f%d.yaml}", i+1)))
		}
		return append(docs, fmt.Sprintf("f%d.yaml", n), calls("- {id: a, command: ls}"))
	}
	loads(t, "ten", plan.LoadOptions{}, "", chain(10)...)
	loads(t, "eleven", plan.LoadOptions{}, "f10.yaml:4: /steps/0/workflow: step a: files call each other more than 10 deep: f0.yaml → f1.yaml → f2.yaml → f3.yaml → f4.yaml → f5.yaml → f6.yaml → f7.yaml → f8.yaml → f9.yaml → f10.yaml → f11.yaml", chain(11)...)
}

// A small tree of files that amounts to a huge number of calls is checked quickly, and refused.
func TestWorkflowTreeIsBounded(t *testing.T) {
	var docs []string
	for i := range 10 {
		var steps []string
		for j := range 26 {
			steps = append(steps, fmt.Sprintf("- {id: a%c, workflow: f%d.yaml}", 'a'+j, i+1))
		}
		docs = append(docs, fmt.Sprintf("f%d.yaml", i), calls(steps...))
	}
	docs = append(docs, "f10.yaml", calls("- {id: a, command: ls}"))
	loads(t, "26 to the 10", plan.LoadOptions{}, "f0.yaml:3: /steps: a run takes more than 1000000 activities, 5000 are allowed", docs...)
	loads(t, "a loop of loops", plan.LoadOptions{}, "f0.yaml:3: /steps: its loops make more than 5000 steps of it\nf0.yaml:3: /steps: a run takes more than 1000000 activities\nf0.yaml:4: /steps/0/steps/0/workflow: step b: its file has to be known before the run, and {{item}} is not",
		"f0.yaml", calls("- {id: a, repeat: 5000, as: x, steps: [{id: b, repeat: 5000, workflow: '{{x}}{{item}}.yaml'}]}"))
	loads(t, "large files", plan.LoadOptions{}, "f0.yaml:12: /steps/8/workflow: step ai: f9.yaml: reading it: the files are larger than 8 MB together", large()...)
}

func large() (docs []string) {
	var steps []string
	for i := range 9 {
		steps = append(steps, fmt.Sprintf("- {id: a%c, workflow: f%d.yaml}", 'a'+i, i+1))
		docs = append(docs, fmt.Sprintf("f%d.yaml", i+1), calls("- {id: a, command: ls}")+"#"+strings.Repeat("x", 1_000_000))
	}
	return append([]string{"f0.yaml", calls(steps...)}, docs...)
}

// The number of activities includes every attempt, and every round that is known beforehand.
func TestActivities(t *testing.T) {
	for _, tt := range []struct{ name, steps, other, want string }{
		{"1600 scripts", scripts(1600, ""), "", ""},
		{"1700 scripts", scripts(1700, ""), "", "up to 5100"},
		{"1000 scripts with proof", scripts(1000, ", proof: {type: build}"), "", ""},
		{"a loop", "- {id: a, command: ls, repeat: 1666}", "", ""},
		{"a longer loop", "- {id: a, command: ls, repeat: 1667}", "", "up to 5003"},
		{"loops in loops", "- {id: a, repeat: 40, as: x, steps: [{id: b, command: ls, repeat: 41}]}", "", "up to 5082"},
		{"a list", "- {id: a, command: ls, for_each: [" + strings.Repeat("a, ", 1700) + "]}", "", "up to 5102"},
		{"a command", "- {id: a, command: ls, for_each: seq 9000}", "", ""},
		{"healing", "- {id: a, command: ls, self_healing: true, repeat: 455}", "", "up to 5007"},
		{"healing once", "- {id: a, command: ls, self_healing: true, max_healing_attempts: 1, repeat: 455}", "", ""},
		{"judging", "- {id: a, prompt: p, llm_as_judge: true, verify: go vet, repeat: 358}", "", "up to 5014"},
		{"judging often", "- {id: a, prompt: p, llm_as_judge: true, max_judge_attempts: 9000000000, repeat: 2}", "", "more than 1000000"},
		{"another file", "- {id: a, repeat: 1000, workflow: o.yaml}", calls("- {id: a, message: m}", "- {id: b, type: approval, title: t}"), "up to 8002"},
		{"nothing to go through", "- {id: a, for_each: [], workflow: o.yaml}", calls(strings.Split(scripts(1600, ""), "\n")...), ""},
	} {
		_, problems := load(plan.LoadOptions{}, "m.yaml", calls(strings.Split(tt.steps, "\n")...), "o.yaml", tt.other)
		got := lines(problems)
		if tt.want == "" && strings.Contains(got, "activities") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %s, want %q", tt.name, got, tt.want)
		}
	}
}

func scripts(n int, more string) string {
	var steps []string
	for i := range n {
		steps = append(steps, fmt.Sprintf("- {id: s%d, command: make x%s}", i, more))
	}
	return strings.Join(steps, "\n")
}
