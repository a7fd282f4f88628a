package runner_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (w *world) retry(dir string) error {
	w.Helper()
	return w.Site.Orders().Retry(w.T.Context(), dir, false, runner.RunOptions{})
}

// A retry works on what is wrong with a pull request, also with delivery.react off.
func TestRetryMendsAPullRequest(t *testing.T) {
	t.Parallel()
	w, gh, dir := reviewed(t, runnertest.Mending)
	w.Site.Config.Delivery.React = false
	var refused *runner.RefusedError
	if err := w.retry(dir); !errors.As(err, &refused) || !strings.Contains(refused.Why, "no check and no reviewer finds anything wrong with https://") {
		t.Fatalf("nothing is wrong: got %v", err)
	}
	first := w.Git("rev-parse", "feature/bye")
	w.say(gh, runnertest.Failing("ci"))
	if err := w.retry(dir); err != nil || w.Task(dir).Status != trellis.InProgress {
		t.Fatalf("got %v, it is %s", err, w.Task(dir).Status)
	}
	if res := w.Start(dir); res.Status != trellis.Review || res.Failure != nil || w.Git("rev-parse", "feature/bye^") != first || w.pushed() != w.Git("rev-parse", "feature/bye") {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	gh.Change(t, func(s *githubtest.State) { s.PRs[0]["state"] = "MERGED" })
	if err := w.retry(dir); !errors.As(err, &refused) || !strings.Contains(refused.Why, "is completed now") {
		t.Errorf("merged: got %v", err)
	}
}

// When the rounds are used up, the task has the failure with a hint. A retry grants as many again.
func TestRoundsAreGranted(t *testing.T) {
	t.Parallel()
	w, gh, dir := reviewed(t, runnertest.Mending)
	w.Site.Config.Limits.Rounds = 1
	w.say(gh, runnertest.Failing("ci"))
	w.Start(dir)
	if done := w.say(gh, runnertest.Failing("ci")); len(done.Begun) > 0 {
		t.Fatalf("got %+v", done)
	}
	const want = "checks fail (ci): 1 round was used for its pull request (limits.rounds: 1), so it is up to you: push to its branch, or trellis retry 02-01-bye grants as many again"
	if fail := w.Task(dir).Pipeline.Failure; fail.Code != trellis.CIFailed || fail.Detail != want || w.note(dir) != want {
		t.Fatalf("it says %+v, %q", fail, w.note(dir))
	}
	if err := w.retry(dir); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review || res.Failure != nil || w.Debugs() != 2 {
		t.Errorf("got %s, %v after %d debugs", res.Status, res.Failure, w.Debugs())
	}
	if done := w.say(gh, runnertest.Failing("ci")); len(done.Begun) > 0 || w.Task(dir).Pipeline.Failure.Code != trellis.CIFailed {
		t.Errorf("got %+v", done)
	}
}

// If a person retries a failure that a run already failed to fix, it is recorded once, and its rounds count from zero.
func TestRetryOfWhatIsKnown(t *testing.T) {
	soak.Only(t, "TestRoundsAreGranted")
	t.Parallel()
	w, gh, dir := reviewed(t, runnertest.Mending)
	w.say(gh, runnertest.Failing("ci"))
	w.Start(dir)
	first := w.Task(dir).Commit
	w.say(gh, runnertest.Failing("ci"))
	if w.Task(dir).Status != trellis.InProgress {
		t.Fatalf("it is %s", w.Task(dir).Status)
	}
	w.Write(".trellis/rehearsal.yaml", strings.Replace(runnertest.Mending, "echo fixed >> more.txt", "echo false > greet.sh", 1))
	if res := w.Start(dir); res.Failure == nil {
		t.Fatal("it was mended")
	}
	w.say(gh, runnertest.Fields{"statusCheckRollup": []any{runnertest.Fields{"name": "ci", "status": "COMPLETED", "conclusion": "SUCCESS"}}})
	w.say(gh, runnertest.Failing("ci"))
	if err := w.retry(dir); err != nil {
		t.Fatal(err)
	}
	if p, err := delivery.ReadPull(dir); err != nil || len(p.Reacted) != 2 || !strings.Contains(p.Reacted[1], first) || p.Rounds != 0 {
		t.Errorf("kept is %+v, %v", p, err)
	}
}
