package pipeline

import (
	"errors"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// A base that git can't read is not a conflict of submodules.
func TestUnreadableBaseIsNotAConflict(t *testing.T) {
	b := gittest.New(t)
	first := b.Git("rev-parse", "HEAD")
	b.Git("update-index", "--add", "--cacheinfo", "160000,"+first+",sub")
	b.Git("commit", "-q", "-m", "a submodule")
	ms, j := &modules{repo: b.Repo, task: &taskDir{dir: "02-01-x"}}, Job{BaseCommit: b.Git("rev-parse", "HEAD"), Modules: []string{"sub"}}
	var conflict *flow.Failure
	if err := ms.checkUnmoved(t.Context(), j, first); !errors.As(err, &conflict) {
		t.Fatalf("got %v, want a conflict with a base that lacks the submodule", err)
	}
	if err := ms.checkUnmoved(t.Context(), j, strings.Repeat("12", 20)); err == nil || errors.As(err, &conflict) {
		t.Errorf("got %v, want only that git can't read the base", err)
	}
}
