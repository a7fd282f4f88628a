package git_test

import (
	"testing"

	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Merged finds the work of a branch in the base however people merged it; another change of the same files doesn't count.
func TestMerged(t *testing.T) {
	for name, c := range map[string]struct {
		merge func(b *gittest.Box)
		want  bool
	}{
		"not at all":     {func(b *gittest.Box) {}, false},
		"merged":         {func(b *gittest.Box) { b.Git("merge", "-q", "--no-ff", "-m", "merge", "work") }, true},
		"rebased":        {func(b *gittest.Box) { b.Git("cherry-pick", "main..work") }, true},
		"squashed":       {func(b *gittest.Box) { b.Git("merge", "-q", "--squash", "work"); b.Git("commit", "-qm", "squash") }, true},
		"half of it":     {func(b *gittest.Box) { b.Git("cherry-pick", "work~1") }, false},
		"something else": {func(b *gittest.Box) { b.Write("b.txt", "other\n"); b.Git("add", "-A"); b.Git("commit", "-qm", "other") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := gittest.New(t)
			from := b.Git("rev-parse", "HEAD")
			b.Git("checkout", "-q", "-b", "work")
			for _, text := range []string{"one\n", "two\n"} {
				b.Write("b.txt", text)
				b.Git("add", "-A")
				b.Git("commit", "-qm", text)
			}
			tip := b.Git("rev-parse", "HEAD")
			b.Git("checkout", "-q", "main")
			b.Write("c.txt", "meanwhile\n")
			b.Git("add", "-A")
			b.Git("commit", "-qm", "meanwhile")
			c.merge(b)
			if got, err := b.Repo.History().Merged(t.Context(), b.Git("rev-parse", "main"), from, tip); err != nil || got != c.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestMergeBase(t *testing.T) {
	b := gittest.New(t)
	first := b.Git("rev-parse", "HEAD")
	b.Git("commit", "-q", "--allow-empty", "-m", "second")
	b.Git("checkout", "-q", "-b", "side", first)
	b.Git("commit", "-q", "--allow-empty", "-m", "side")
	if got, err := b.Repo.History().MergeBase(t.Context(), "main", "side"); err != nil || got != first {
		t.Errorf("got %q, %v, want %s", got, err, first)
	}
	b.Git("checkout", "-q", "--orphan", "alone")
	b.Git("commit", "-q", "--allow-empty", "-m", "alone")
	if got, err := b.Repo.History().MergeBase(t.Context(), "main", "alone"); err != nil || got != "" {
		t.Errorf("of strangers: got %q, %v", got, err)
	}
}
