package git_test

import (
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Callers that ask at the same time get the same id, and another clone has another id.
func TestCloneID(t *testing.T) {
	ids := map[string]bool{}
	for range 2 {
		r := gittest.New(t).Repo
		var mu sync.Mutex
		var wait sync.WaitGroup
		seen := map[string]bool{}
		for range 8 {
			wait.Go(func() {
				again, err := git.Open(r.Main)
				if err != nil {
					t.Error(err)
					return
				}
				id, err := again.CloneID()
				mu.Lock()
				defer mu.Unlock()
				if seen[id] = true; err != nil || len(id) != 32 {
					t.Errorf("got %q, %v", id, err)
				}
			})
		}
		wait.Wait()
		for id := range seen {
			ids[id] = true
		}
		if len(seen) != 1 {
			t.Errorf("one clone has %d names", len(seen))
		}
	}
	if len(ids) != 2 {
		t.Errorf("two clones have %d names", len(ids))
	}
}
