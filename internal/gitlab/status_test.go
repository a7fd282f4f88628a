package gitlab_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

func job(id int, name, status string, more ...m) any {
	j := m{"id": id, "name": name, "status": status, "web_url": fmt.Sprintf("https://gitlab.example/ann/shop/greet/-/jobs/%d", id)}
	for _, with := range more {
		maps.Copy(j, with)
	}
	return j
}

// The state of a commit sums up the jobs of its newest pipeline and outside checks, and names those that a change may repair.
func TestChecks(t *testing.T) {
	t.Parallel()
	before := m{"id": 6, "status": "failed", "jobs": []any{job(1, "test", "failed")}}
	made := strings.Repeat("b", 40)
	merged := m{"id": 7, "status": "failed", "sha": made, "ref": "refs/merge-requests/1/merge"}
	outside := job(90, "sonar", "failed", m{"target_url": "https://sonar.example/1"})
	for name, c := range map[string]struct {
		status   any // of the pipeline, or all its fields; nil: there is no pipeline
		jobs     []any
		statuses []any
		checks   string
		failing  string
		fixable  string
		waits    bool
		more     m // further fields of the merge request
	}{
		"nothing":            {nil, nil, nil, "", "", "", false, nil},
		"passed":             {"success", []any{job(1, "test", "success"), job(2, "deploy", "manual"), job(3, "docs", "skipped")}, nil, forge.Passed, "", "", false, nil},
		"may fail":           {"success", []any{job(1, "test", "success"), job(2, "lint", "failed", m{"allow_failure": true, "failure_reason": "script_failure"})}, nil, forge.Passed, "", "", false, nil},
		"running":            {"running", []any{job(1, "test", "running"), job(2, "lint", "success")}, nil, forge.Pending, "", "", true, nil},
		"not begun":          {"created", nil, nil, forge.Pending, "", "", true, nil},
		"failed":             {"failed", []any{job(1, "test", "failed", m{"failure_reason": "script_failure"}), job(2, "lint", "success")}, nil, forge.Failed, "test", "test", false, nil},
		"failed, runs":       {"running", []any{job(1, "test", "failed"), job(2, "lint", "running")}, nil, forge.Failed, "test", "test", true, nil},
		"no machine":         {"failed", []any{job(1, "test", "failed", m{"failure_reason": "stuck_or_timeout_failure"})}, nil, forge.Failed, "test", "", false, nil},
		"cancelled":          {"canceled", []any{job(1, "test", "canceled")}, nil, forge.Failed, "test", "", false, nil},
		"below":              {"failed", []any{job(1, "test", "success")}, nil, forge.Failed, "pipeline 7", "", false, nil},
		"outside":            {"success", []any{job(1, "test", "success")}, []any{outside}, forge.Failed, "sonar", "sonar", false, nil},
		"outside alone":      {nil, nil, []any{job(91, "sonar", "success")}, forge.Passed, "", "", false, nil},
		"outside, pending":   {"success", []any{job(1, "test", "success")}, []any{job(92, "sonar", "pending")}, forge.Pending, "", "", true, nil},
		"of a merge":         {m{"id": 7, "status": "failed", "sha": strings.Repeat("b", 40), "ref": "refs/merge-requests/1/merge"}, []any{job(1, "test", "failed")}, nil, forge.Failed, "test", "test", false, nil},
		"of what was before": {m{"id": 7, "status": "failed", "sha": strings.Repeat("b", 40), "ref": "feature/bye"}, nil, nil, "", "", "", false, nil},
		"of a head before":   {m{"id": 7, "status": "failed", "sha": strings.Repeat("b", 40), "ref": "refs/merge-requests/1/head"}, nil, nil, "", "", "", false, nil},
		"unknown word":       {"success", []any{job(1, "test", "exploded")}, nil, forge.Failed, "test", "", false, nil},
		"behind by hand":     {"manual", []any{job(1, "test", "success"), job(2, "deploy", "manual"), job(3, "smoke", "created")}, nil, forge.Passed, "", "", false, nil},
		"below, runs":        {"running", []any{job(1, "test", "failed")}, nil, forge.Failed, "test", "test", true, nil},
		"outside, in it":     {"failed", []any{job(1, "test", "success")}, []any{outside}, forge.Failed, "sonar", "sonar", false, nil},
		"outside, again":     {"success", []any{job(1, "test", "success")}, []any{outside, job(93, "sonar", "success")}, forge.Passed, "", "", false, nil},
		"one before":         {"success", []any{job(5, "test", "success")}, nil, forge.Passed, "", "", false, m{"earlier": []any{before}}},
		"one before, older":  {"success", []any{job(5, "test", "success")}, []any{outside}, forge.Failed, "sonar", "sonar", false, m{"earlier": []any{before}, "older": true}},
		"begins another":     {"failed", []any{job(1, "test", "success")}, nil, forge.Failed, "pipeline 7", "", false, m{"bridges": []any{job(2, "deploy", "failed")}}},
		"of a merge before":  {merged, []any{job(1, "test", "failed")}, nil, "", "", "", false, m{"commits": m{made: []any{strings.Repeat("c", 40), strings.Repeat("d", 40)}}}},
		"of this merge":      {merged, []any{job(1, "test", "failed")}, nil, forge.Failed, "test", "test", false, m{"commits": m{made: []any{strings.Repeat("c", 40), "HEAD"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, githubtest.State{})
			pr := w.create()
			w.Change(t, func(s *githubtest.State) {
				switch status := c.status.(type) {
				case string:
					s.PRs[0]["pipeline"] = m{"id": 7, "status": status}
				case m:
					s.PRs[0]["pipeline"] = status
				}
				s.PRs[0]["jobs"], s.PRs[0]["statuses"] = c.jobs, c.statuses
				maps.Copy(s.PRs[0], c.more)
				if commits, _ := c.more["commits"].(m); commits != nil {
					parents := commits[made].([]any)
					if i := slices.Index(parents, any("HEAD")); i >= 0 {
						parents[i] = s.PRs[0]["headRefOid"]
					}
				}
			})
			got, err := w.Status(t.Context(), pr)
			var fixable []string
			for _, f := range got.Failed {
				fixable = append(fixable, f.Name)
			}
			if err != nil || got.Checks != c.checks || strings.Join(got.Failing, " ") != c.failing || strings.Join(fixable, " ") != c.fixable || got.Waits != c.waits || got.Review != "" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// If somebody has pushed since the merge request was found, its status says to wait.
func TestPushedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, githubtest.State{})
	pr := w.create()
	w.Change(t, func(s *githubtest.State) {
		s.PRs[0]["pipeline"], s.PRs[0]["jobs"] = m{"id": 7, "status": "failed"}, []any{job(1, "test", "failed")}
	})
	if got, err := w.Status(t.Context(), pr); err != nil || got.Waits {
		t.Errorf("got %+v, %v", got, err)
	}
	pr.HeadSHA = w.git(w.bare, "rev-parse main") // as if it had been found before a push
	if got, err := w.Status(t.Context(), pr); err != nil || !got.Waits || got.Checks != forge.Failed {
		t.Errorf("got %+v, %v", got, err)
	}
}

// All jobs are read if there are more than one page has.
func TestManyJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, githubtest.State{})
	pr := w.create()
	var jobs []any
	for i := range 230 {
		jobs = append(jobs, job(i+1, fmt.Sprint("test ", i+1), "success"))
	}
	jobs = append(jobs, job(231, "the last", "failed"))
	w.Change(t, func(s *githubtest.State) {
		s.PRs[0]["pipeline"], s.PRs[0]["jobs"] = m{"id": 7, "status": "failed"}, jobs
	})
	if got, err := w.Status(t.Context(), pr); err != nil || strings.Join(got.Failing, " ") != "the last" {
		t.Errorf("got %+v, %v", got, err)
	}
}

// If some checks were not read, the state is never that all passed.
func TestTooManyChecks(t *testing.T) {
	t.Parallel()
	var many []any
	for i := range 2001 {
		many = append(many, job(i+10, fmt.Sprint("test ", i+10), "success"))
	}
	for name, of := range map[string]m{
		"jobs":    {"pipeline": m{"id": 7, "status": "success"}, "jobs": many},
		"outside": {"statuses": many},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, githubtest.State{})
			pr := w.create()
			w.Change(t, func(s *githubtest.State) { maps.Copy(s.PRs[0], of) })
			if got, err := w.Status(t.Context(), pr); err != nil || got.Checks != forge.Pending || !got.Waits || !strings.Contains(got.Unread, "more than 2000 checks") {
				t.Errorf("got %+v, %v", got, err)
			}
			w.Change(t, func(s *githubtest.State) {
				for kind, list := range of {
					if list, ok := list.([]any); ok {
						s.PRs[0][kind] = append([]any{job(9, "lint", "failed")}, list...)
					}
				}
			})
			if got, err := w.Status(t.Context(), pr); err != nil || got.Checks != forge.Failed || !got.Waits {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// Only reviewers who belong to the project count, each with the last review.
func TestReviews(t *testing.T) {
	t.Parallel()
	person := func(id int) m { return m{"id": id, "username": []string{"ann", "bob", "xavier"}[id-1]} }
	says := func(id int, state string) any { return m{"user": person(id), "state": state} }
	by := func(need int, yes bool, ids ...int) m {
		list := []any{}
		for _, id := range ids {
			list = append(list, m{"user": person(id)})
		}
		return m{"approved": yes, "approvals_required": need, "approved_by": list}
	}
	note := func(id, who int, kind, text string, system bool) any {
		return m{"id": id, "type": kind, "body": text, "system": system, "author": person(who)}
	}
	notes := []any{ // the newest first
		note(9, 1, "", "Thanks.", false), note(8, 2, "", "Say it louder.", false), note(7, 2, "", "requested changes", true), note(6, 2, "DiffNote", "On a line.", false), note(5, 2, "", "And twice.", false),
		note(4, 2, "", "requested changes", true), note(3, 2, "", "Old.", false),
	}
	for name, c := range map[string]struct {
		approvals m
		reviewers []any
		review    string
		wanted    string
	}{
		"nobody":          {nil, nil, "", ""},
		"needs one":       {by(1, false), nil, forge.ReviewRequired, ""},
		"approved":        {by(1, true, 2), []any{says(2, "approved")}, forge.Approved, ""},
		"by choice":       {by(0, true, 2), []any{says(2, "approved")}, forge.Approved, ""},
		"by a stranger":   {by(0, true, 3), nil, "", ""},
		"changes":         {by(1, true, 1), []any{says(1, "approved"), says(2, "requested_changes")}, forge.ChangesWanted, "7 bob true: And twice.\n\nSay it louder."},
		"of a stranger":   {by(0, true), []any{says(3, "requested_changes")}, "", "of 3 xavier false: "},
		"not looked at":   {by(0, true), []any{says(2, "unreviewed")}, "", ""},
		"one of two, yes": {by(2, false, 2), []any{says(2, "approved")}, forge.ReviewRequired, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, githubtest.State{Users: []string{"ann", "bob", "xavier"}})
			pr := w.create()
			w.Change(t, func(s *githubtest.State) {
				if c.approvals != nil {
					s.PRs[0]["approvals"] = c.approvals
				}
				s.PRs[0]["reviewers"], s.PRs[0]["notes"] = c.reviewers, notes
			})
			got, err := w.Status(t.Context(), pr)
			wanted := ""
			for _, r := range got.Wanted {
				wanted += fmt.Sprintf("%s %s %v: %s", r.ID, r.Author, r.Trusted, r.Text)
			}
			if err != nil || got.Review != c.review || wanted != c.wanted {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// Remarks are those on lines that nobody resolved, and logs come without the marks that the runner adds.
func TestDetailsAndLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t, githubtest.State{Users: []string{"ann", "xavier"}, Logs: map[string]string{
		"13": "2026-02-01T10:00:00.123456Z 00O section_start:1712345678:step_script\r\x1b[0K\x1b[0;m\n2026-02-01T10:00:00.123456Z 01O \x1b[32;1m$ go test\x1b[0;m\n2026-02-01T10:00:01.000001Z 01E --- FAIL: Test\n2026-02-01T10:00:01.000002Z 01E+Bye\nat 2026-02-01T10:00:01.000002Z 01E it was\n",
		"12": "\x1b[0Ksection_start:1712345678:step_script[collapsed=true]\r\x1b[0K\x1b[0;m\x1b[32;1m$ go test\x1b[0;m\n--- FAIL: TestBye\nsection_end:1712345679:step_script\r\x1b[0K"}})
	pr := w.create()
	at := func(path string, line int) m { return m{"new_path": path, "old_path": path, "new_line": line} }
	by := func(id, who int, text string, where m, resolved bool) any {
		return m{"id": id, "type": "DiffNote", "body": text, "resolved": resolved, "author": m{"id": who, "username": []string{"ann", "xavier"}[who-1]}, "position": where}
	}
	w.Change(t, func(s *githubtest.State) {
		s.PRs[0]["discussions"] = []any{
			m{"notes": []any{by(1, 1, "Louder.", at("greet.sh", 3), false), by(2, 2, "No.", at("greet.sh", 3), false)}},
			m{"notes": []any{by(3, 1, "Done.", at("greet.sh", 4), true)}},
			m{"notes": []any{m{"id": 4, "body": "Nice.", "author": m{"id": 1, "username": "ann"}}}},
			m{"notes": []any{by(5, 1, "Gone?", m{"old_path": "old.sh", "old_line": 7}, false)}},
		}
	})
	d, err := w.Details(t.Context(), pr.URL)
	if err != nil || len(d.Required) > 0 || fmt.Sprint(d.Remarks) != "[{1 ann greet.sh Louder. 3 true} {2 xavier greet.sh No. 3 false} {5 ann old.sh Gone? 7 true}]" {
		t.Errorf("got %+v, %v", d, err)
	}
	log, err := w.Log(t.Context(), forge.Check{Name: "test", URL: w.URL + "/ann/shop/greet/-/jobs/12"})
	if err != nil || log != "$ go test\n--- FAIL: TestBye\n" {
		t.Errorf("got %q, %v", log, err)
	}
	log, err = w.Log(t.Context(), forge.Check{Name: "test", URL: w.URL + "/ann/shop/greet/-/jobs/13"})
	if err != nil || log != "\n$ go test\n--- FAIL: TestBye\nat 2026-02-01T10:00:01.000002Z 01E it was\n" {
		t.Errorf("with times: got %q, %v", log, err)
	}
	calls := len(w.State(t).Calls)
	for _, url := range []string{"https://sonar.example/1", "https://evil.example/ann/shop/greet/-/jobs/12"} {
		if log, err := w.Log(t.Context(), forge.Check{URL: url}); log != "" || err != nil {
			t.Errorf("%s: %q, %v", url, log, err)
		}
	}
	if len(w.State(t).Calls) != calls {
		t.Error("somebody was asked for a log that is elsewhere")
	}
}
