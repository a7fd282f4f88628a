package snapshot_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Forward moves a checkout to commits that others put on its branch, unless local commits or changes are in the way.
func TestForward(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(b *gittest.Box, dir, to string)
		want  bool
	}{
		"clean":            {func(*gittest.Box, string, string) {}, true},
		"what is excluded": {func(b *gittest.Box, dir, _ string) { b.Write(dir+"/own/x", "x\n") }, true},
		"cut off":          {func(b *gittest.Box, dir, to string) { b.GitIn(dir, "read-tree", "-m", "-u", "HEAD", to) }, true},
		"there already":    {func(b *gittest.Box, dir, to string) { b.GitIn(dir, "merge", "-q", "--ff-only", to) }, true},
		"changed":          {func(b *gittest.Box, dir, _ string) { b.Write(dir+"/a.txt", "mine\n") }, false},
		"something new":    {func(b *gittest.Box, dir, _ string) { b.Write(dir+"/new.txt", "mine\n") }, false},
		"another branch":   {func(b *gittest.Box, dir, _ string) { b.GitIn(dir, "checkout", "-q", "-b", "other") }, false},
		"a commit of ours": {func(b *gittest.Box, dir, _ string) { b.GitIn(dir, "commit", "-q", "--allow-empty", "-m", "x") }, false},
		"no descendant":    {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gittest.New(t)
			from, dir := b.Git("rev-parse", "HEAD"), b.Add("work")
			b.Write("b.txt", "b\n")
			b.Git("add", "-A")
			b.Git("commit", "-q", "-m", "theirs")
			to := b.Git("rev-parse", "HEAD")
			if c.spoil == nil {
				to = b.Git("commit-tree", "-m", "alone", "HEAD^{tree}")
			} else {
				c.spoil(b, dir, to)
			}
			before := b.Git("rev-parse", "work")
			repo := b.Open(b.Dir)
			if got := gittest.Must(snapshot.NewBackups(repo).Forward(t.Context(), dir, "work", from, to, "own/x"))(t); got != c.want {
				t.Fatalf("got %v", got)
			}
			if tip := b.Git("rev-parse", "work"); c.want && (tip != to || b.GitIn(dir, "status", "--porcelain", "--", "a.txt", "b.txt") != "") || !c.want && tip != before {
				t.Errorf("it is at %s: %s", tip, b.GitIn(dir, "status", "--porcelain"))
			}
		})
	}
}
