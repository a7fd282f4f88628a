package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

// With the real gh and git over HTTP, a delivery pushes the branch and opens one draft, and a second one opens no other. The state of
// checks and the merge are noticed.
func TestRealPullRequest(t *testing.T) {
	t.Parallel()
	h := &hosted{gitWorld: newGitWorld(t, realTrellis(t)), gh: githubtest.Real(t, githubtest.State{Labels: []string{"trellis"}, Users: []string{"bob"}})}
	h.host(nil, func(h *hosted) {
		h.write(".trellis/config.yaml", strings.Replace(plainConfig, "{pr: true}", "{labels: [trellis, nope], reviewers: [bob]}", 1))
	})
	h.gh.Host(t, h.Dir, filepath.Join(h.Dir, "../origin.git"))
	h.does(0, "start", "02-01-bye")
	for range 2 {
		h.does(0, "deliver", "02-01-bye")
		tip, prs := h.git("rev-parse", "feature/bye"), h.gh.State(t).PRs
		if len(prs) != 1 || prs[0]["headRefOid"] != tip || h.remote("feature/bye") != tip || prs[0]["isDraft"] != true || prs[0]["state"] != "OPEN" || !strings.Contains(h.said, h.gh.Home+"/pull/1") {
			t.Fatalf("there are %v\n%s", prs, h.said)
		}
		if got := prs[0]; !slices.Equal(got["labels"].([]any), []any{"trellis"}) || !slices.Equal(got["reviewRequests"].([]any), []any{"bob"}) || !strings.Contains(got["body"].(string), tip) || !strings.Contains(h.said, "no label nope") {
			t.Errorf("got %v\n%s", got, h.said)
		}
	}
	h.gh.Change(t, func(s *githubtest.State) {
		s.PRs[0]["statusCheckRollup"] = []any{map[string]any{"name": "lint", "status": "COMPLETED", "conclusion": "FAILURE", "startedAt": "2026-02-01T10:00:00Z"}}
	})
	h.does(0, "status", "--refresh")
	h.does(0, "status", "02-01-bye")
	if want := "/pull/1 (draft, checks failed (lint)"; !strings.Contains(h.said, want) {
		t.Errorf("there is no %q in\n%s", want, h.said)
	}
	h.merge()
	h.does(0, "status", "--refresh")
	if got := h.task(); got.Status != "completed" || got.Pipeline.Outcome != "merged" {
		t.Errorf("after the merge it is %s, %s\n%s", got.Status, got.Pipeline.Outcome, h.said)
	}
}

// What doctor says about pull requests matches the answers that the real gh gets.
func TestDoctorAsksTheRealGH(t *testing.T) {
	t.Parallel()
	h := &hosted{gitWorld: newGitWorld(t, realTrellis(t)), gh: githubtest.Real(t, githubtest.State{})}
	h.host(nil, func(*hosted) {})
	h.gh.Host(t, h.Dir, filepath.Join(h.Dir, "../origin.git"))
	for fault, want := range map[string]string{"": "pull requests are opened with gh", "401": "no pull request is opened", "502": "no pull request can be opened now"} {
		h.gh.Change(t, func(s *githubtest.State) { s.Fault = fault })
		h.said = ""
		h.trellis("doctor") // the exit code depends on other checks too
		if !strings.Contains(h.said, want) {
			t.Errorf("%s: there is no %q in\n%s", fault, want, h.said)
		}
	}
}
