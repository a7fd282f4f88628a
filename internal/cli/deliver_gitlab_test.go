package cli

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/gitlab/gitlabtest"
)

// The program opens one merge request at the GitLab of the settings, and notices its pipeline and its merge. The token is in no file and
// no output.
func TestMergeRequest(t *testing.T) {
	t.Parallel()
	h := &hosted{gitWorld: newGitWorld(t, realTrellis(t)), gh: githubtest.Install(t, githubtest.State{})}
	bare := filepath.Join(h.Dir, "../origin.git")
	lab := gitlabtest.Serve(t, githubtest.State{Labels: []string{"trellis"}, Users: []string{"bob"}}, map[string]string{"ann/shop/greet": bare})
	h.host(nil, func(h *hosted) {
		h.write(".trellis/config.yaml", strings.Replace(plainConfig, "{pr: true}", "{pr: true, labels: [trellis, nope], reviewers: [bob]}\ntrackers: {gitlab: {url: "+lab.URL+"}}", 1))
		h.git("remote", "set-url", "origin", lab.Address("ann/shop/greet"))
		h.git("config", "url."+bare+".insteadOf", lab.Address("ann/shop/greet"))
	})
	h.does(0, "start", "02-01-bye")
	if prs := lab.State(t).PRs; len(prs) != 0 || !strings.Contains(h.said, "there is no token: neither in GITLAB_TOKEN") || !strings.Contains(h.said, "glab mr create --draft --target-branch main") {
		t.Fatalf("without a token there are %v\n%s", prs, h.said)
	}
	h.Env = append(h.Env, "GITLAB_TOKEN="+gitlabtest.Token)
	h.said = ""
	h.trellis("doctor") // the exit code depends on other checks too
	if !strings.Contains(h.said, "pull requests are opened as merge requests of "+lab.URL) {
		t.Errorf("doctor says\n%s", h.said)
	}
	for range 2 {
		h.does(0, "deliver", "02-01-bye")
		tip, prs := h.git("rev-parse", "feature/bye"), lab.State(t).PRs
		if len(prs) != 1 || prs[0]["headRefOid"] != tip || h.remote("feature/bye") != tip || prs[0]["isDraft"] != true || !strings.Contains(h.said, lab.URL+"/ann/shop/greet/-/merge_requests/1") || !strings.Contains(h.said, "no label nope") {
			t.Fatalf("there are %v\n%s", prs, h.said)
		}
	}
	if got := lab.State(t).PRs[0]; len(got["labels"].([]any)) != 1 || len(got["reviewRequests"].([]any)) != 1 {
		t.Errorf("got %v", got)
	}
	lab.Change(t, func(s *githubtest.State) {
		s.PRs[0]["pipeline"] = map[string]any{"id": 7, "status": "failed"}
		s.PRs[0]["jobs"] = []any{map[string]any{"id": 1, "name": "lint", "status": "failed", "web_url": lab.URL + "/ann/shop/greet/-/jobs/1"}}
	})
	h.does(0, "status", "--refresh")
	h.does(0, "status", "02-01-bye")
	if want := "/merge_requests/1 (draft, checks failed (lint)"; !strings.Contains(h.said, want) {
		t.Errorf("there is no %q in\n%s", want, h.said)
	}
	sha := h.git("commit-tree", "feature/bye^{tree}", "-p", "origin/main", "-m", "feat: bye (!1)")
	h.git("push", "-q", "--no-verify", "origin", sha+":refs/heads/main")
	h.git("update-ref", "refs/remotes/origin/main", "main") // the clone does not know of the merge
	lab.Change(t, func(s *githubtest.State) { s.PRs[0]["state"] = "MERGED" })
	h.does(0, "status", "--refresh")
	if got := h.task(); got.Status != "completed" || got.Pipeline.Outcome != "merged" {
		t.Errorf("after the merge it is %s, %s\n%s", got.Status, got.Pipeline.Outcome, h.said)
	}
	if strings.Contains(h.said, gitlabtest.Token) {
		t.Error("the token is said")
	}
	if found, _ := exec.Command("grep", "-rlF", gitlabtest.Token, filepath.Dir(h.Dir)).Output(); len(found) > 0 { // exits with 1 if it finds nothing
		t.Errorf("the token stands in %s", found)
	}
}
