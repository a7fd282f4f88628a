package git_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/gittest"
)

func TestFiles(t *testing.T) {
	b := gittest.New(t)
	if got, err := gittest.Empty(t).Repo.History().Files(t.Context(), t.TempDir()); err == nil {
		t.Errorf("a folder that is not a checkout: got %v", got)
	}
	b.Write(".gitignore", "build/\n*.log\n")
	b.Write("build/out", "x")
	b.Write("x.log", "x")
	b.Write("dir/new é.txt", "x")
	tree := b.Dir + "-tree"
	b.Git("worktree", "add", "-q", tree)
	for dir, want := range map[string][]string{b.Dir: {".gitignore", "a.txt", "dir/new é.txt"}, tree: {"a.txt"}} {
		got, err := b.Repo.History().Files(t.Context(), dir)
		if slices.Sort(got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, %v, want %q", dir, got, err, want)
		}
	}
	empty := gittest.Empty(t)
	if got, err := empty.Repo.History().Files(t.Context(), empty.Dir); err != nil || len(got) != 0 {
		t.Errorf("nothing there: got %q, %v", got, err)
	}
}
