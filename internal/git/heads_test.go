package git_test

import (
	"maps"
	"slices"
	"testing"
)

// Edge A3: while git moves a branch, a file with its name and .lock holds where it goes. That is no branch, and nobody moved
// it away when it is gone.
func TestLocksOfBranchesAreNoBranches(t *testing.T) {
	b := newBox(t)
	b.write(".git/refs/heads/feature/d.lock", b.git("rev-parse", "HEAD")+"\n")
	h, err := b.Repo.Heads(t.Context())
	if got := slices.Sorted(maps.Keys(h.Branches)); err != nil || !slices.Equal(got, []string{"main"}) {
		t.Errorf("got %q, want main alone; %v", got, err)
	}
	if err := b.Repo.BranchFree(t.Context(), "feature/d"); err != nil {
		t.Error(err)
	}
}
