package github_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

type m = map[string]any

const early, late = "2026-02-01T10:00:00Z", "2026-02-01T11:00:00Z"

// Status returns what has to be repaired: checks whose newest run failed at its work, and the last review of each reviewer.
func TestWhatIsWrong(t *testing.T) {
	t.Parallel()
	const url = "https://github.example/actions/runs/1/job/2"
	run := func(name, conclusion, at string) any {
		return m{"name": name, "workflowName": "ci", "status": "COMPLETED", "conclusion": conclusion, "startedAt": at, "detailsUrl": url}
	}
	review := func(id, who, as, state, at string) any {
		return m{"id": id, "author": m{"login": who}, "authorAssociation": as, "state": state, "body": id + "!", "submittedAt": at}
	}
	each(t, githubtest.State{}, func(w *world) {
		w.has(w.pr(7, m{
			"statusCheckRollup": []any{run("flaky", "SUCCESS", late), run("flaky", "FAILURE", early), run("test", "FAILURE", early), run("old", "CANCELLED", early), m{"name": "slow", "status": "QUEUED"}},
			"reviews": []any{review("R1", "ann", "OWNER", "CHANGES_REQUESTED", early), review("R2", "ann", "OWNER", "CHANGES_REQUESTED", late), review("R3", "ann", "OWNER", "COMMENTED", late),
				review("R4", "bob", "MEMBER", "CHANGES_REQUESTED", early), review("R5", "bob", "MEMBER", "APPROVED", late), review("R6", "", "NONE", "CHANGES_REQUESTED", early),
				review("R7", "joe", "MEMBER", "DISMISSED", early)},
		}))
		s, err := w.Status(w.Context(), &forge.PR{Number: 7})
		want := forge.PRStatus{Checks: forge.Failed, Failing: []string{"test", "old"}, Review: forge.ChangesWanted, Waits: true, Failed: []forge.Check{{Name: "test", URL: url}},
			Wanted: []forge.Review{{ID: "R6", Author: "ghost", Text: "R6!"}, {ID: "R2", Author: "ann", Text: "R2!", Trusted: true}}}
		if err != nil || !reflect.DeepEqual(s, want) {
			w.Errorf("got %+v, %v\nwant %+v", s, err, want)
		}
	})
}

// If somebody has pushed since the pull request was found, its status says to wait.
func TestPushedMeanwhile(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{}, func(w *world) {
		w.has(w.pr(7, m{"statusCheckRollup": []any{m{"name": "test", "status": "COMPLETED", "conclusion": "FAILURE"}}}))
		pr, err := w.Find(w.Context(), "work")
		if err != nil {
			w.Fatal(err)
		}
		if s, err := w.Status(w.Context(), pr); err != nil || s.Waits || s.Checks != forge.Failed {
			w.Errorf("got %+v, %v", s, err)
		}
		pr.HeadSHA = strings.Repeat("0", 40)
		if s, err := w.Status(w.Context(), pr); err != nil || !s.Waits || s.Checks != forge.Failed {
			w.Errorf("got %+v, %v", s, err)
		}
	})
}

// If there are several remotes, the repository in the address is asked.
func TestDetails(t *testing.T) {
	t.Parallel()
	comment := func(id, who, as string) any {
		return m{"id": id, "body": id + "?", "authorAssociation": as, "author": m{"login": who}}
	}
	each(t, githubtest.State{}, func(w *world) {
		w.has(w.pr(7, m{
			"statusCheckRollup": []any{m{"name": "test"}, m{"name": "lint"}, m{"context": "old"}}, "required": []any{"test", "old"},
			"reviewThreads": []any{
				m{"isResolved": true, "path": "a.go", "line": 1, "comments": m{"nodes": []any{comment("C1", "ann", "OWNER")}}},
				m{"path": "b.go", "line": nil, "originalLine": 4, "comments": m{"nodes": []any{comment("C2", "ann", "OWNER"), comment("C3", "eve", "NONE")}}},
			},
		}))
		run(t, w.Client.Dir, "remote add upstream "+w.Home+"-of-others.git") // gh api would use it in place of origin
		d, err := w.Details(w.Context(), w.Home+"/pull/7")
		want := forge.Details{Required: []string{"test", "old"}, Remarks: []forge.Remark{{ID: "C2", Author: "ann", Path: "b.go", Text: "C2?", Line: 4, Trusted: true}, {ID: "C3", Author: "eve", Path: "b.go", Text: "C3?", Line: 4}}}
		slices.Sort(d.Required)
		slices.Sort(want.Required)
		if err != nil || !reflect.DeepEqual(d, want) {
			w.Errorf("got %+v, %v\nwant %+v", d, err, want)
		}
	})
}

// More checks may be required than GitHub returns at once.
func TestManyRequired(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{}, func(w *world) {
		var checks []any
		for i := range 230 {
			checks = append(checks, m{"name": fmt.Sprint("test ", i+1)})
		}
		w.has(w.pr(7, m{"statusCheckRollup": checks, "required": []any{"test 101", "test 230"}}))
		d, err := w.Details(w.Context(), w.Home+"/pull/7")
		if err != nil || strings.Join(d.Required, ", ") != "test 101, test 230" {
			w.Errorf("got %+v, %v", d, err)
		}
	})
}

// Log returns what the failed step of a check printed, and nothing for a check that does not run on GitHub.
func TestLog(t *testing.T) {
	t.Parallel()
	const printed = "2026-02-01T10:00:01Z go test\n2026-02-01T10:00:02Z it is broken\n"
	each(t, githubtest.State{Logs: map[string]string{"2": printed, "4": printed}}, func(w *world) {
		log, err := w.Log(w.Context(), forge.Check{URL: "https://github.example/o/r/actions/runs/2/job/2"})
		if want := "test\tRun\t2026-02-01T10:00:01Z go test\ntest\tRun\t2026-02-01T10:00:02Z it is broken\n"; err != nil || log != want {
			w.Errorf("got %q, %v, want %q", log, err, want)
		}
		w.Change(w.T, func(s *githubtest.State) { s.Stepless = true })
		if log, err := w.Log(w.Context(), forge.Check{URL: "https://github.example/o/r/actions/runs/4/job/4"}); err != nil || !strings.Contains(log, "it is broken\n") {
			w.Errorf("got %q, %v of a job without steps", log, err)
		}
		if log, err := w.Log(w.Context(), forge.Check{URL: "https://ci.example/2"}); err != nil || log != "" {
			w.Errorf("got %q, %v of a check elsewhere", log, err)
		}
		if log, err := w.Log(w.Context(), forge.Check{URL: "https://github.example/o/r/actions/runs/2/job/3"}); err == nil {
			w.Errorf("got %q of a job that is gone", log)
		}
	})
}
