package pipeline_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/pipeline"
)

// Final verify need not repeat checks that passed in a fresh checkout of the same work. Runs of older code, which did not check
// there, continue as they began.
func TestFlowVerifiesOnce(t *testing.T) {
	t.Parallel()
	const (
		fresh    = `{"results": [{"command": "make", "code": 0}], "tree": "t1", "fresh": true, "environment": "e1", "judged": [{"id": "A1", "text": "it says bye", "verify": "sh greet.sh", "verdict": "met", "proven": true}]}`
		asks     = `{"hash": "h1", "criteria": [{"id": "A1", "text": "it says bye", "verify": "sh greet.sh"}], "approved": true, "markers": ["DONE"]}`
		judged   = `[{"id": "A1", "text": "it says bye", "verify": "sh greet.sh", "verdict": "met", "proven": true}]`
		passes   = `"passed":{"environment":"e1"`
		followed = `{"base": "newer", "checks": {"tree": "t9"}}`
	)
	moves := with(`"commit_type"`, `"delivery": {"update": "rebase"}, "commit_type"`)
	for name, c := range map[string]struct {
		code          int
		change        map[string][]any
		verify, final string // part of the input of that activity
		notInFinal    string
	}{
		"the same work":                 {verify: `"criteria":[{"id":"A1"`, final: passes},
		"the base went on":              {change: map[string][]any{"claim": {moves}, "update": {followed}, "probe": {`[]`}}, verify: `"fresh":true`, final: `"tree":"t9"`, notInFinal: `"passed"`},
		"nothing says in which world":   {change: map[string][]any{"verify": {strings.Replace(fresh, "e1", "", 1)}}, verify: `"fresh":true`, final: `"tree":"t1"`, notInFinal: `"passed"`},
		"in the worktree":               {change: map[string][]any{"claim": {with(`"commit_type"`, `"in_place": true, "commit_type"`)}, "verify": {green}}, verify: `"content":"h1"`, final: `"tree":"t1"`, notInFinal: `"passed"`},
		"with submodules":               {change: map[string][]any{"claim": {with(`"commit_type"`, `"modules": ["cli"], "commit_type"`)}, "verify": {green}}, verify: `"content":"h1"`, final: `"tree":"t1"`, notInFinal: `"passed"`},
		"a run that an older one began": {code: 6, change: map[string][]any{"verify": {green}}, verify: `"content":"h1"`, final: `"tree":"t1"`, notInFinal: `"passed"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &scripted{T: t, Results: well()}
			maps.Copy(p.Results, map[string][]any{"observe": {asks}, "verify": {fresh}, "criteria": {judged}})
			maps.Copy(p.Results, c.change)
			in := pipeline.Input{Code: pipeline.Code, Task: "02-01-bye"}
			if c.code > 0 {
				in.Code = c.code
			}
			if _, err := pipeline.Run(nil)(p.Flow(), in); err != nil {
				t.Fatal(err)
			}
			asked := func(activity string) string {
				var in any
				p.Last(activity, &in)
				return compact(t, in)
			}
			if got := asked("verify"); !strings.Contains(got, c.verify) || strings.Contains(got, `"fresh"`) != strings.Contains(p.Results["verify"][0].(string), `"fresh"`) {
				t.Errorf("verify is asked %s, want %s", got, c.verify)
			}
			if got := asked("final-verify"); !strings.Contains(got, c.final) || c.notInFinal != "" && strings.Contains(got, c.notInFinal) {
				t.Errorf("final verify is asked %s, want %s and not %s", got, c.final, c.notInFinal)
			}
		})
	}
}

// Once a command has failed, commands that are not known to be quick are no longer run.
func TestFlowStopsChecksThatAreSlow(t *testing.T) {
	t.Parallel()
	two := with(`["make"]`, `["make", "make lint"]`)
	for name, c := range map[string]struct {
		job, base, want string
		code            int
	}{
		"one is quick at base":          {job: two, base: `{"results": [{"command": "make", "code": 0, "seconds": 61}, {"command": "make lint", "code": 0, "seconds": 2}]}`, want: `"later":["make"]`},
		"nothing is known":              {job: two, base: `{}`, want: `"later":["make","make lint"]`},
		"all are wanted":                {job: strings.Replace(two, `"commit_type"`, `"verify_all": true, "commit_type"`, 1), base: `{}`},
		"a run that an older one began": {job: two, base: `{}`, code: 6},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &scripted{T: t, Results: well()}
			p.Results["claim"], p.Results["baseline"] = []any{c.job}, []any{c.base}
			in := pipeline.Input{Code: pipeline.Code, Task: "02-01-bye"}
			if c.code > 0 {
				in.Code = c.code
			}
			if _, err := pipeline.Run(nil)(p.Flow(), in); err != nil {
				t.Fatal(err)
			}
			var asked any
			p.Last("verify", &asked)
			if got := compact(t, asked); c.want != "" && !strings.Contains(got, c.want) || c.want == "" && strings.Contains(got, `"later"`) {
				t.Errorf("verify is asked %s, want %s", got, c.want)
			}
		})
	}
}
