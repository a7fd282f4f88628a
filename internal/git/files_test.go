package git_test

import (
	"reflect"
	"slices"
	"testing"
)

func TestFiles(t *testing.T) {
	b := newBox(t)
	if got, err := emptyBox(t).Repo.Files(t.Context(), t.TempDir()); err == nil {
		t.Errorf("a folder that is no checkout: got %v", got)
	}
	b.write(".gitignore", "build/\n*.log\n")
	b.write("build/out", "x")
	b.write("x.log", "x")
	b.write("dir/new é.txt", "x")
	tree := b.Dir + "-tree"
	b.git("worktree", "add", "-q", tree)
	for dir, want := range map[string][]string{b.Dir: {".gitignore", "a.txt", "dir/new é.txt"}, tree: {"a.txt"}} {
		got, err := b.Repo.Files(t.Context(), dir)
		if slices.Sort(got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %q, %v, want %q", dir, got, err, want)
		}
	}
	empty := emptyBox(t)
	if got, err := empty.Repo.Files(t.Context(), empty.Dir); err != nil || len(got) != 0 {
		t.Errorf("nothing there: got %q, %v", got, err)
	}
}
