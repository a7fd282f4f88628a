package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// If git can't say which branch a worktree is on, that is the error. It does not say that a branch is gone.
func TestFailureOfGitIsNotALostBranch(t *testing.T) {
	b := gittest.New(t)
	dir := b.Add("feature/x")
	b.Git("config", "extensions.worktreeConfig", "true") // so that git is asked
	b.Git("update-ref", "-d", "refs/heads/feature/x")
	var lost *git.LostBranchError
	if _, err := b.Repo.Refs().Head(t.Context(), dir); !errors.As(err, &lost) || lost.Branch != "feature/x" {
		t.Fatalf("got %v, want that the branch is gone", err)
	}
	bin := filepath.Join(b.Home, "bin")
	b.Write(filepath.Join(bin, "git"), "#!/bin/sh\ncase \"$*\" in *symbolic-ref*) echo fatal: cannot fork >&2; exit 129 ;; esac\nPATH=\"$REAL\" exec git \"$@\"\n")
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Repo.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "REAL=" + os.Getenv("PATH")}, b.Env[1:]...)
	b.Repo.Allow = []string{"REAL"}
	if _, err := b.Repo.Refs().Head(t.Context(), dir); err == nil || errors.As(err, &lost) {
		t.Errorf("got %v, want only that git failed", err)
	}
}

// A branch comes before a tag of the same name, also when its commit is in a pack.
func TestTreeOfABranchWithATag(t *testing.T) {
	b := gittest.New(t)
	b.Git("commit", "-q", "--allow-empty", "-m", "empty")
	b.Write("new.txt", "new\n")
	b.Git("add", "new.txt")
	b.Git("commit", "-q", "-m", "new")
	b.Git("tag", "main", "HEAD^")
	b.Git("gc", "-q")
	if got, err := b.Repo.Refs().TreeAt(t.Context(), "main"); err != nil || got != b.Git("rev-parse", "HEAD^{tree}") {
		t.Errorf("got %s, %v", got, err)
	}
}
