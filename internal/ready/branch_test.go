package ready_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/ready"
)

// If git can't say which branch is checked out, the error is git's own, not that the task's branch is checked out.
func TestFailureOfGitIsNotABranchThatIsTaken(t *testing.T) {
	s, repo := repository(t)
	dir := task(t, s, "02-01-auth", map[string]string{"task.json": `{"status": "ready", "base_branch": "main"}`})
	if out, err := exec.Command("git", "-C", repo.Main, "branch", "feature/free").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	if err := os.WriteFile(filepath.Join(repo.Common, "HEAD"), []byte("ref: HEAD\n"), 0o666); err != nil { // only git can judge this HEAD
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	err := ready.CheckBranch(ended, ready.Input{Store: s, Dir: dir, Repo: repo, Begins: repo}, "feature/free")
	if !errors.Is(err, context.Canceled) || errors.As(err, new(*git.BranchError)) {
		t.Errorf("got %v, want only that git could not be asked", err)
	}
}
