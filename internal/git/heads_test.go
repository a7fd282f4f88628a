package git_test

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Edge A3: while git moves a branch, a file with the branch's name and .lock holds the new commit. That file is not a branch,
// and when it is gone, no branch was removed.
func TestLocksOfBranchesAreNoBranches(t *testing.T) {
	b := gittest.New(t)
	b.Write(".git/refs/heads/feature/d.lock", b.Git("rev-parse", "HEAD")+"\n")
	h, err := b.Repo.Refs().Heads(t.Context())
	if got := slices.Sorted(maps.Keys(h.Branches)); err != nil || !slices.Equal(got, []string{"main"}) {
		t.Errorf("got %q, want main alone; %v", got, err)
	}
	if err := b.Repo.Refs().BranchFree(t.Context(), "feature/d"); err != nil {
		t.Error(err)
	}
}

// Refs are read as git reads them even if a link leads out of the repository, as git's contrib/workdir creates it.
func TestRefsBehindALink(t *testing.T) {
	b := gittest.New(t)
	b.Git("checkout", "-q", "-b", "feature/x")
	away := filepath.Join(t.TempDir(), "refs")
	if err := errors.Join(os.Rename(b.Path(".git/refs"), away), os.Symlink(away, b.Path(".git/refs"))); err != nil {
		t.Fatal(err)
	}
	b.Git("commit", "-q", "--allow-empty", "-m", "x")
	if got, want := gittest.Must(b.Repo.Refs().Head(t.Context(), b.Dir))(t), b.Git("rev-parse", "HEAD"); got != want {
		t.Errorf("HEAD: got %s, want %s", got, want)
	}
	if got, want := gittest.Must(b.Repo.Refs().Resolve(t.Context(), "main"))(t), b.Git("rev-parse", "main"); got != want {
		t.Errorf("main: got %s, want %s", got, want)
	}
	h, err := b.Repo.Refs().Heads(t.Context())
	if got := slices.Sorted(maps.Keys(h.Branches)); err != nil || !slices.Equal(got, []string{"feature/x", "main"}) {
		t.Errorf("got %q, %v", got, err)
	}
}
