package runnertest

import (
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/trust"
)

// NewTrustWorld returns a world in which files that came by git are judged.
func NewTrustWorld(t *testing.T, script string) *World {
	w := NewWorld(t, script)
	w.Site.Trust = &trust.Judge{Repo: w.Site.Repo, Ledger: &trust.Ledger{Path: filepath.Join(t.TempDir(), "trellis", "trust.jsonl")}}
	w.Site.Account = "1@here"
	return w
}

// Brings has a stranger commit a file in a clone of theirs, and checks that commit out here.
func (w *World) Brings(name, text string) {
	w.Helper()
	theirs := filepath.Join(w.TempDir(), "theirs")
	w.Git("clone", "-q", w.Dir, theirs)
	in := func(args ...string) {
		w.Helper()
		cmd := exec.Command("git", append([]string{"-C", theirs, "-c", "user.name=Mallory", "-c", "user.email=m@example.org"}, args...)...)
		cmd.Env = append(cmd.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			w.Fatalf("git %v: %v\n%s", args, err, out)
		}
	}
	write := &World{T: w.T, Dir: theirs}
	write.Write(name, text)
	in("checkout", "-q", "-b", "theirs")
	in("add", "-f", name)
	in("commit", "-q", "-m", "more")
	w.Git("fetch", "-q", theirs, "theirs")
	w.Git("checkout", "-q", "-b", "looked-at", "FETCH_HEAD")
}
