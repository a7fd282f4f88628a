package app_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/git"
)

// In a bare repository, and in its worktrees, the hint is a command that makes a checkout that Trellis can work in.
func TestBareRepository(t *testing.T) {
	t.Parallel()
	p, _ := configured(t, "")
	root := t.TempDir()
	bare, tree := filepath.Join(root, "x.git"), filepath.Join(root, "bw")
	sh := func(line string, args ...string) {
		t.Helper()
		cmd := exec.Command("sh", append([]string{"-c", line, "sh"}, args...)...)
		cmd.Dir, cmd.Env = p.Root, p.Env.Vars
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
	sh(`git -c user.name=Ann -c user.email=ann@example.org commit -q --allow-empty -m first && git clone -q --bare . "$1" && git -C "$1" worktree add -q "$2" HEAD`, bare, tree)
	for _, dir := range []string{bare, tree} {
		_, err := (&app.Env{Vars: p.Env.Vars, Dir: dir, Now: time.Now}).OpenRepository()
		hints := app.HintsOf(err)
		if !errors.Is(err, git.ErrBare) || !errors.Is(err, app.ErrUsage) || len(hints) != 1 {
			t.Fatalf("%s: got %v, hints %q", dir, err, hints)
		}
		if dir == bare {
			sh(hints[0])
		}
	}
	if _, err := (&app.Env{Vars: p.Env.Vars, Dir: filepath.Join(root, "x-checkout"), Now: time.Now}).OpenRepository(); err != nil {
		t.Error(err)
	}
}
