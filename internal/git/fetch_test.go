package git_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Several fetches at once all succeed, and bring the remote's commits.
func TestFetchAtOnce(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	there := filepath.Join(filepath.Dir(b.Dir), "there")
	b.Git("clone", "-q", b.Dir, there)
	b.Git("remote", "add", "origin", there)
	for range 5 {
		for i := range 5 {
			b.GitIn(there, "branch", "-f", fmt.Sprintf("b%d", i))
		}
		b.GitIn(there, "commit", "-q", "--allow-empty", "-m", "more")
		errs := make(chan error)
		const many = 6
		for range many {
			go func() { errs <- b.Repo.Remotes().Fetch(t.Context(), "origin", 15*time.Minute) }()
		}
		for range many {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if got, want := b.Git("rev-parse", "origin/main"), b.GitIn(there, "rev-parse", "main"); got != want {
			t.Errorf("it is at %s, want %s", got, want)
		}
	}
}
