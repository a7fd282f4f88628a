package pipeline

import (
	"errors"
	"path/filepath"
	"slices"
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
	ms, j := &modules{place{repo: b.Repo, task: &taskDir{dir: "02-01-x"}}}, Job{BaseCommit: b.Git("rev-parse", "HEAD"), Modules: []string{"sub"}}
	var conflict *flow.Failure
	if err := ms.checkUnmoved(t.Context(), j, first); !errors.As(err, &conflict) {
		t.Fatalf("got %v, want a conflict with a base that lacks the submodule", err)
	}
	if err := ms.checkUnmoved(t.Context(), j, strings.Repeat("12", 20)); err == nil || errors.As(err, &conflict) {
		t.Errorf("got %v, want only that git can't read the base", err)
	}
}

// The branch of the task is deleted in every submodule that has it, also after one that lacks it.
func TestBranchesOfSubmodulesAreRemoved(t *testing.T) {
	b := gittest.New(t)
	for _, path := range []string{"one", "two"} {
		origin := filepath.Join(filepath.Dir(b.Dir), path)
		b.Write(filepath.Join(origin, "main.txt"), path)
		b.GitIn(origin, "init", "-q", "-b", "main")
		b.GitIn(origin, "add", "-A")
		b.GitIn(origin, "commit", "-qm", path)
		b.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin, path)
	}
	b.Git("commit", "-qm", "two submodules")
	b.GitIn(b.Path("two"), "branch", "feature/x")
	ms, j := &modules{place{repo: b.Repo}}, Job{BaseCommit: b.Git("rev-parse", "HEAD"), Branch: "feature/x", Modules: []string{"one", "two"}}
	if notes, err := ms.removeBranches(t.Context(), j, "refs/trellis/backup/x"); err != nil || len(notes) > 0 {
		t.Errorf("got %v, %v", notes, err)
	}
	if left := b.GitIn(b.Path("two"), "branch", "--list", "feature/x"); left != "" {
		t.Errorf("it is left: %s", left)
	}
}

// Shortening a list leaves the caller's as it is.
func TestShortList(t *testing.T) {
	long := strings.Repeat("x", 500)
	for _, n := range []int{0, 1, 20, 21} {
		paths := slices.Repeat([]string{long}, n)
		list := shortList(paths)
		if len(list) != n || n > 20 && list[20] != "and 1 more" || n > 0 && len(list[0]) > 210 {
			t.Errorf("of %d: got %q", n, list)
		}
		if slices.ContainsFunc(paths, func(p string) bool { return p != long }) {
			t.Errorf("of %d: the list was changed", n)
		}
	}
}
