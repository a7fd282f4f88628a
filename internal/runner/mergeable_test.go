package runner_test

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"

	"github.com/trellis-tasks/trellis/taskdir"
)

// Site.Mergeable is called for a pull request that is approved and whose checks all passed, and for no other.
func TestSaysMergeable(t *testing.T) {
	t.Parallel()
	w, gh, _ := reviewed(t, runnertest.Mending)
	var shown []string
	w.Site.Mergeable = func(t *taskdir.Task, commit string) { shown = append(shown, t.ID+" "+commit) }
	check := func(status, conclusion string) any {
		return runnertest.Fields{"name": "ci " + status + conclusion, "status": status, "conclusion": conclusion}
	}
	good := []any{check("COMPLETED", "SUCCESS")}
	for _, says := range []runnertest.Fields{
		{"reviewDecision": "REVIEW_REQUIRED", "statusCheckRollup": good},
		{"reviewDecision": "APPROVED", "statusCheckRollup": nil},
		{"reviewDecision": "APPROVED", "statusCheckRollup": append(good[:1:1], check("QUEUED", ""))},
		{"reviewDecision": "APPROVED", "statusCheckRollup": append(good[:1:1], check("COMPLETED", "CANCELLED"))},
		{"reviewDecision": "", "statusCheckRollup": good, "reviews": []any{runnertest.Fields{"id": "1", "author": runnertest.Fields{"login": "eve"}, "authorAssociation": "NONE", "state": "APPROVED"}}},
	} {
		if w.say(gh, says); len(shown) > 0 {
			t.Fatalf("%v: got %q", says, shown)
		}
	}
	w.say(gh, runnertest.Fields{"reviewDecision": "APPROVED", "statusCheckRollup": good})
	w.say(gh, runnertest.Fields{"reviewDecision": "", "reviews": []any{runnertest.Fields{"id": "1", "author": runnertest.Fields{"login": "ann"}, "authorAssociation": "MEMBER", "state": "APPROVED"}}})
	if want := "02-01-bye " + w.pushed(); !slices.Equal(shown, []string{want, want}) {
		t.Errorf("got %q, want %q twice", shown, want)
	}
}
