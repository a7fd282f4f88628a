package plan_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/plan"
)

// untold are the fields that an outline leaves out, since they tell nothing to the agent that carries out the plan.
var untold = []string{"schema_version"}

// fill sets every field below v, and calls see with each value that the outline must have. It also covers fields added later.
func fill(v reflect.Value, path string, depth int, see func(path, value string)) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), strings.TrimPrefix(path+"."+tag, "."), depth, see)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), path, depth, see)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Struct && depth > 1 || v.Type().Elem().Kind() == reflect.Uint8 {
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), path, depth+1, see)
	case reflect.Map:
		value := "V" + path
		v.Set(reflect.ValueOf(map[string]*string{"K" + path: &value}))
		see(path, "K"+path)
		see(path, value)
	case reflect.String:
		v.SetString("V" + path)
		see(path, "V"+path)
	}
}

// Basis and Course together, the outline of a plan, have every field that says something.
func TestOutlineTellsEveryField(t *testing.T) {
	var p plan.Plan
	want := map[string]string{}
	fill(reflect.ValueOf(&p).Elem(), "", 0, func(path, value string) { want[value] = path })
	p.Preconditions = []plan.Precondition{{Text: "Vsentence"}, {Command: "Vcommand"}}
	s := &p.Steps[0]
	s.Type, s.Steps[0].Type = plan.Group, plan.Prompt
	s.ForEach.Command = ""
	s.Proof = &plan.Proof{Type: "composite", All: []plan.Proof{{Type: "file", Path: "Vpath", Contains: "Vcontains", SHA256: "Vsum"}, {Type: "manual"}}, Any: []plan.Proof{{Type: "build"}}}
	s.TimeoutSeconds, s.Concurrency, s.LLMAsJudge, s.MaxJudgeAttempts, s.SelfHealing, s.MaxHealingAttempts, s.ContinueOnError, s.Parallel = 77, 66, true, 55, true, 44, true, true
	p.Acceptance[0].Level = "should"
	p.Steps = append(p.Steps, plan.Step{ID: "z", Command: "Vloop", Repeat: 33, Risk: "high", Proof: &plan.Proof{Type: "lint"}},
		plan.Step{ID: "y", Command: "c", ForEach: &plan.ForEach{Command: "Vls"}, DependsOn: &[]string{}, Proof: &plan.Proof{Type: "test"}}, plan.Step{ID: "z", Command: "c", Proof: &plan.Proof{Type: "test"}})
	got := p.Basis() + p.Course()
	for _, part := range []string{"Vsentence", "`Vcommand` succeeds", "77 seconds", "up to 66 at a time", "an agent judges the outcome, at most 55 times", "at most 44 times; else continue", "any order",
		"Vpath", "Vcontains", "Vsum", "a person says so", "build", "(should)", "from 1 to 33", "`Vls` prints", "after: nothing", "high: people are asked", "it is run when all is done"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is not told", part)
		}
	}
	for value, path := range want {
		head, _, _ := strings.Cut(path, ".")
		ours := path == "steps.type" || path == "steps.steps.type" || strings.Contains(path, "proof") || strings.HasPrefix(path, "preconditions") || path == "acceptance.level"
		if !ours && !slices.Contains(untold, head) && !strings.Contains(got, value) {
			t.Errorf("%s is not told: %q", path, value)
		}
	}
	if t.Failed() {
		t.Log(got)
	}
}

func TestOutline(t *testing.T) {
	p, problems := plan.Parse([]byte(full))
	if p == nil {
		t.Fatal(told(problems))
	}
	const basis = `# Add pagination

Page the list

## Design decisions

- offset

## Assumptions

- few clients

## Left out on purpose

- fast: no data

## Out of scope

- cursors
`
	if got := p.Basis(); got != basis {
		t.Errorf("got\n%s", got)
	}
	const want = `## Requirements

- limit

## Before the work

- the database runs
- ` + "`test -d build/todo`" + ` succeeds

## Files

- edit api/list.go

## It may touch

- api/**

## Values

- {{cost}} is $$5 $& {{x
- {{todo}} is build/todo

## Steps

Steps that wait for nothing may be done in any order.

1. each_file: Take {{file}} (group)
   - why: One by one.
   - after: nothing
   - for: each {{file}} that ` + "`ls`" + ` prints, up to 2 at a time
   - outcome: all done
   - verify: ` + "`test -s {{file}}`" + `
   - risk: medium
   - order: its steps that wait for nothing may be done in any order
   1.1. other_file (workflow)
        - for: each {{item}} of a, b
        - steps of the file: ` + "`more.json`" + `
        - values: x = 1
        - on failure: continue
   1.2. tell (log)
        - for: {{item}} from 1 to 2
        - say: {{file}} is done
2. write_it (prompt)
   - do: Write it to {{todo}}.
   - read first: {{todo}}
   - result goes to: {{todo}}
   - proof: (the file {{todo}} is there, its SHA-256 sum is e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855), one of (a person says so), (the file b.txt is there, it has "<ok> & done")
   - judged: an agent judges the outcome, at most 2 times
   - at most: 1.5 seconds
   - covers: paging works
   - meant for: agent claude, model haiku, session fresh, tools: none
3. agree: Go on? (approval)
4. generate (script)
   - run: ` + "`go generate`" + `
   - verify: ` + "`git diff --exit-code`" + `
   - on failure: fix the cause, then run it again, at most 3 times
   - risk: high: people are asked before this step
5. run_tests (script)
   - after: generate
   - run: ` + "`go test ./...`" + `
   - proof: test
   - it is run when all is done, whoever did the work

## Done when

- two items
  verify: ` + "`grep -q x build/todo`" + `
  covers: paging works

## To undo it

- git revert
`
	if got := p.Course(); got != want {
		t.Errorf("got\n%s", got)
	}
}
