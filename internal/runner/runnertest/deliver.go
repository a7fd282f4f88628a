package runnertest

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

const ByePRD = "# Say bye\n\nPeople leave, too.\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n"

// Hosted returns a world whose repository has a bare origin, and a fake gh.
func Hosted(t *testing.T, s githubtest.State) (*World, *githubtest.GH) {
	t.Helper()
	w := NewWorld(t, Counted())
	gh := githubtest.Install(t, s)
	w.Git("init", "-q", "--bare", "-b", "main", "../origin.git")
	w.Git("remote", "add", "origin", "../origin.git")
	w.Git("push", "-q", "origin", "main")
	w.Write("../origin.git/hooks/post-receive", "#!/bin/sh\ncat >> ../received\n")
	if err := os.Chmod(filepath.Join(w.Dir, "../origin.git/hooks/post-receive"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.Env = gh.Env
	w.Site.Environ = append(w.Site.Environ, gh.Env...)
	w.Site.Config.Delivery.PR = true
	w.Site.Config.Limits.Attempts = 1
	return w, gh
}
