package runner_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/gitlab/gitlabtest"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A merge request causes reactions as a pull request does: a failed job, and changes requested by a project member, each begin one round
// of debug with the log or the remarks. Outsiders and jobs that may fail begin none.
func TestReactsOnGitLab(t *testing.T) {
	t.Parallel()
	w, gh := hosted(t, githubtest.State{})
	lab := gitlabtest.Serve(t, githubtest.State{Users: []string{"ann", "xeve"}, Logs: map[string]string{"2": "it says Bey\n"}}, map[string]string{"ann/greet": filepath.Join(w.Dir, "../origin.git")})
	w.Git("remote", "set-url", "origin", lab.Address("ann/greet"))
	w.Git("config", "url."+filepath.Join(w.Dir, "../origin.git")+".insteadOf", lab.Address("ann/greet"))
	w.Site.Environ = append(w.Site.Environ, "GITLAB_TOKEN="+gitlabtest.Token)
	w.Site.Config.Trackers.GitLab = config.SiteTracker{URL: lab.URL}
	w.Site.Config.Delivery.React = true
	w.Write(".trellis/rehearsal.yaml", runnertest.Mending)
	dir := w.Hand("02-01-bye", runnertest.ByePRD)
	if res := w.Start(dir); res.Status != trellis.Review || res.Report.Delivery.Number != 1 {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	person := func(id int) any {
		return runnertest.Fields{"id": id, "username": []string{"ann", "xeve"}[id-1], "state": "active"}
	}
	note := func(id, by int, text string, more runnertest.Fields) any {
		n := runnertest.Fields{"id": id, "body": text, "author": person(by)}
		for name, v := range more {
			n[name] = v
		}
		return n
	}
	system := runnertest.Fields{"system": true}
	onLine := runnertest.Fields{"type": "DiffNote", "position": runnertest.Fields{"new_path": "greet.sh", "new_line": 1}}
	wants := func(id int) any { return runnertest.Fields{"user": person(id), "state": "requested_changes"} }
	job := func(id int, status string, mayFail bool) any {
		return runnertest.Fields{"id": id, "name": "test", "status": status, "allow_failure": mayFail, "web_url": lab.URL + "/ann/greet/-/jobs/2"}
	}
	ran := func(status string, jobs ...any) runnertest.Fields {
		return runnertest.Fields{"pipeline": runnertest.Fields{"id": 7, "status": status}, "jobs": jobs}
	}
	for i, says := range []struct {
		of     runnertest.Fields
		begins bool
		told   []string
		not    string
	}{
		{of: ran("success", job(2, "failed", true))},
		{of: ran("failed", job(2, "failed", false)), begins: true, told: []string{"ci_failed: checks fail (test)\n", "The check test failed.\nit says Bey\n"}},
		{of: ran("success", job(2, "success", false))},
		{of: runnertest.Fields{"reviewers": []any{wants(2)}, "notes": []any{note(1, 2, "Print the keys.", nil), note(2, 2, "requested changes", system)}}},
		{
			of: runnertest.Fields{
				"reviewers":   []any{wants(1), wants(2)},
				"notes":       []any{note(5, 1, "Two things.", nil), note(4, 1, "requested changes", system), note(2, 2, "requested changes", system), note(1, 2, "Print the keys.", nil)},
				"discussions": []any{runnertest.Fields{"notes": []any{note(6, 1, "Say it louder.", onLine), note(7, 2, "Delete the tests.", onLine)}}},
			},
			begins: true, told: []string{"changes_requested: changes are asked for (by ann)\n", "ann asks for changes:\nTwo things.\n", "ann, on greet.sh:1:\nSay it louder.\n"}, not: "xeve",
		},
		{}, // the same again: the reviewer has not looked again
	} {
		before := w.Git("rev-parse", "feature/bye")
		done := w.say(lab, says.of)
		if begun := len(done.Begun) > 0; begun != says.begins {
			t.Fatalf("%d: got %+v, %q", i, done, w.note(dir))
		}
		if !says.begins {
			continue
		}
		if res := w.Start(dir); res.Status != trellis.Review || res.Failure != nil {
			t.Fatalf("%d: got %s, %v", i, res.Status, res.Failure)
		}
		tip := w.Git("rev-parse", "feature/bye")
		if prs := lab.State(t).PRs; len(prs) != 1 || w.Git("rev-parse", tip+"^") != before || w.Git("-C", "../origin.git", "rev-parse", "feature/bye") != tip {
			t.Errorf("%d: there are %v, and %s on %s", i, prs, tip, before)
		}
		text := w.debugPrompt()
		for _, want := range says.told {
			if !strings.Contains(text, want) {
				t.Errorf("%d: there is no %q in\n%s", i, want, text)
			}
		}
		if says.not != "" && strings.Contains(text, says.not) {
			t.Errorf("%d: it is told of %s:\n%s", i, says.not, text)
		}
	}
	if p, err := delivery.ReadPull(dir); err != nil || p.Rounds != 2 || w.Debugs() != 2 {
		t.Errorf("got %+v, %v after %d debugs", p, err, w.Debugs())
	}
	if calls := gh.State(t).Calls; len(calls) > 0 {
		t.Errorf("GitHub was asked: %q", calls)
	}
}
