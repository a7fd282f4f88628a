package forge_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/forge/forgetest"
)

type m = map[string]any

// pull is a pull request 7 that has these fields besides, and the gh that knows it.
func pull(t *testing.T, s forgetest.State, fields m) *forge.Forge {
	t.Helper()
	pr := m{"number": 7, "url": "https://github.example/pull/7", "state": "OPEN", "headRefName": "work"}
	for k, v := range fields {
		pr[k] = v
	}
	s.PRs = []map[string]any{pr}
	return &forge.Forge{Dir: t.TempDir(), Env: forgetest.Install(t, s).Env}
}

// What is to be mended: checks whose newest run failed at its work, and the last word of each reviewer.
func TestWhatIsWrong(t *testing.T) {
	run := func(name, conclusion, at string) any {
		return m{"name": name, "workflowName": "ci", "status": "COMPLETED", "conclusion": conclusion, "startedAt": at, "detailsUrl": "https://github.example/actions/runs/1/job/2"}
	}
	review := func(id, who, as, state, at string) any {
		return m{"id": id, "author": m{"login": who}, "authorAssociation": as, "state": state, "body": id + "!", "submittedAt": at}
	}
	const early, late = "2026-02-01T10:00:00Z", "2026-02-01T11:00:00Z"
	f := pull(t, forgetest.State{}, m{
		"statusCheckRollup": []any{run("flaky", "SUCCESS", late), run("flaky", "FAILURE", early), run("test", "FAILURE", early), run("old", "CANCELLED", early), m{"name": "slow", "status": "QUEUED"}},
		"reviews": []any{review("R1", "ann", "OWNER", "CHANGES_REQUESTED", early), review("R2", "ann", "OWNER", "CHANGES_REQUESTED", late), review("R3", "ann", "OWNER", "COMMENTED", late),
			review("R4", "bob", "MEMBER", "CHANGES_REQUESTED", early), review("R5", "bob", "MEMBER", "APPROVED", late), review("R6", "eve", "NONE", "CHANGES_REQUESTED", early),
			review("R7", "joe", "MEMBER", "DISMISSED", early)},
	})
	s, err := f.Standing(context.Background(), 7)
	want := forge.Standing{Checks: forge.Failed, Failing: []string{"test", "old"}, Review: forge.ChangesWanted, Waits: true, Failed: []forge.Check{{Name: "test", URL: "https://github.example/actions/runs/1/job/2"}},
		Wanted: []forge.Review{{ID: "R6", Author: "eve", Text: "R6!"}, {ID: "R2", Author: "ann", Text: "R2!", Trusted: true}}}
	if err != nil || !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v, %v\nwant %+v", s, err, want)
	}
}

func TestDetails(t *testing.T) {
	comment := func(id, who, as string) any {
		return m{"id": id, "body": id + "?", "authorAssociation": as, "author": m{"login": who}}
	}
	f := pull(t, forgetest.State{Logs: map[string]string{"2": "test\tRun\tit is broken\n"}}, m{
		"statusCheckRollup": []any{m{"name": "test"}, m{"name": "lint"}}, "required": []any{"test"},
		"reviewThreads": []any{
			m{"isResolved": true, "path": "a.go", "line": 1, "comments": m{"nodes": []any{comment("C1", "ann", "OWNER")}}},
			m{"path": "b.go", "line": nil, "originalLine": 4, "comments": m{"nodes": []any{comment("C2", "ann", "OWNER"), comment("C3", "eve", "NONE")}}},
		},
	})
	d, err := f.Details(context.Background(), 7)
	want := forge.Details{Required: []string{"test"}, Remarks: []forge.Remark{{ID: "C2", Author: "ann", Path: "b.go", Text: "C2?", Line: 4, Trusted: true}, {ID: "C3", Author: "eve", Path: "b.go", Text: "C3?", Line: 4}}}
	if err != nil || !reflect.DeepEqual(d, want) {
		t.Errorf("got %+v, %v\nwant %+v", d, err, want)
	}
	if log, err := f.Log(context.Background(), forge.Check{URL: "https://github.example/o/r/actions/runs/1/job/2"}); err != nil || log != "test\tRun\tit is broken\n" {
		t.Errorf("got %q, %v", log, err)
	}
	if log, err := f.Log(context.Background(), forge.Check{URL: "https://ci.example/2"}); err != nil || log != "" {
		t.Errorf("got %q, %v of a check elsewhere", log, err)
	}
}
