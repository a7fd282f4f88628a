package git_test

import "testing"

// However people merge a branch, its work is found in the base; another change of the same files is not taken for it.
func TestMerged(t *testing.T) {
	for name, c := range map[string]struct {
		merge func(b *box)
		want  bool
	}{
		"not at all":     {func(b *box) {}, false},
		"merged":         {func(b *box) { b.git("merge", "-q", "--no-ff", "-m", "merge", "work") }, true},
		"rebased":        {func(b *box) { b.git("cherry-pick", "main..work") }, true},
		"squashed":       {func(b *box) { b.git("merge", "-q", "--squash", "work"); b.git("commit", "-qm", "squash") }, true},
		"half of it":     {func(b *box) { b.git("cherry-pick", "work~1") }, false},
		"something else": {func(b *box) { b.write("b.txt", "other\n"); b.git("add", "-A"); b.git("commit", "-qm", "other") }, false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBox(t)
			from := b.git("rev-parse", "HEAD")
			b.git("checkout", "-q", "-b", "work")
			for _, text := range []string{"one\n", "two\n"} {
				b.write("b.txt", text)
				b.git("add", "-A")
				b.git("commit", "-qm", text)
			}
			tip := b.git("rev-parse", "HEAD")
			b.git("checkout", "-q", "main")
			b.write("c.txt", "meanwhile\n")
			b.git("add", "-A")
			b.git("commit", "-qm", "meanwhile")
			c.merge(b)
			if got, err := b.Repo.Merged(t.Context(), b.git("rev-parse", "main"), from, tip); err != nil || got != c.want {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestMergeBase(t *testing.T) {
	b := newBox(t)
	first := b.git("rev-parse", "HEAD")
	b.git("commit", "-q", "--allow-empty", "-m", "second")
	b.git("checkout", "-q", "-b", "side", first)
	b.git("commit", "-q", "--allow-empty", "-m", "side")
	if got, err := b.Repo.MergeBase(t.Context(), "main", "side"); err != nil || got != first {
		t.Errorf("got %q, %v, want %s", got, err, first)
	}
	b.git("checkout", "-q", "--orphan", "alone")
	b.git("commit", "-q", "--allow-empty", "-m", "alone")
	if got, err := b.Repo.MergeBase(t.Context(), "main", "alone"); err != nil || got != "" {
		t.Errorf("of strangers: got %q, %v", got, err)
	}
}
