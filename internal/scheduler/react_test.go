package scheduler_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A watcher reacts to pull requests by itself, with --once when it begins. --once does not wait for checks that still run.
func TestWatchReacts(t *testing.T) {
	t.Parallel()
	w, gh, dir := reviewed(t, runnertest.Mending)
	gh.Change(t, func(s *githubtest.State) {
		for name, v := range runnertest.Failing("ci") {
			s.PRs[0][name] = v
		}
	})
	all, err := scheduler.Watch(t.Context(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: 1e10})
	if err != nil || len(all) != 1 || all[0].Status != trellis.Review || w.Debugs() != 1 || w.Git("rev-list", "--count", "main..feature/bye") != "2" {
		t.Fatalf("got %+v, %v, %d debugs, %q", all, err, w.Debugs(), w.Said)
	}
	gh.Change(t, func(s *githubtest.State) {
		s.PRs[0]["statusCheckRollup"] = []any{runnertest.Fields{"name": "ci", "status": "IN_PROGRESS"}}
	})
	if all, err := scheduler.Watch(t.Context(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: 1e10}); err != nil || len(all) != 0 || w.Debugs() != 1 {
		t.Errorf("got %+v, %v", all, err)
	}
	gh.Change(t, func(s *githubtest.State) { s.SignedOut = true })
	if _, err := scheduler.Watch(t.Context(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: 1e10}); err != nil || !strings.Contains(strings.Join(w.Said, "\n"), "gh is not signed in") || w.Task(dir).Status != trellis.Review {
		t.Errorf("signed out: %v, %q", err, w.Said)
	}
}
