package git_test

import "testing"

// A checkout follows its branch to what others put on it, and only where nothing of its own is in the way.
func TestForward(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(b *box, dir, to string)
		want  bool
	}{
		"clean":            {func(*box, string, string) {}, true},
		"what is excluded": {func(b *box, dir, _ string) { b.write(dir+"/own/x", "x\n") }, true},
		"cut off":          {func(b *box, dir, to string) { b.gitIn(dir, "read-tree", "-m", "-u", "HEAD", to) }, true},
		"there already":    {func(b *box, dir, to string) { b.gitIn(dir, "merge", "-q", "--ff-only", to) }, true},
		"changed":          {func(b *box, dir, _ string) { b.write(dir+"/a.txt", "mine\n") }, false},
		"something new":    {func(b *box, dir, _ string) { b.write(dir+"/new.txt", "mine\n") }, false},
		"another branch":   {func(b *box, dir, _ string) { b.gitIn(dir, "checkout", "-q", "-b", "other") }, false},
		"a commit of ours": {func(b *box, dir, _ string) { b.gitIn(dir, "commit", "-q", "--allow-empty", "-m", "x") }, false},
		"no descendant":    {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			from, dir := b.git("rev-parse", "HEAD"), b.add("work")
			b.write("b.txt", "b\n")
			b.git("add", "-A")
			b.git("commit", "-q", "-m", "theirs")
			to := b.git("rev-parse", "HEAD")
			if c.spoil == nil {
				to = b.git("commit-tree", "-m", "alone", "HEAD^{tree}")
			} else {
				c.spoil(b, dir, to)
			}
			before := b.git("rev-parse", "work")
			repo := b.open(b.Dir)
			if got := must(repo.Forward(t.Context(), dir, "work", from, to, "own/x"))(t); got != c.want {
				t.Fatalf("got %v", got)
			}
			if tip := b.git("rev-parse", "work"); c.want && (tip != to || b.gitIn(dir, "status", "--porcelain", "--", "a.txt", "b.txt") != "") || !c.want && tip != before {
				t.Errorf("it is at %s: %s", tip, b.gitIn(dir, "status", "--porcelain"))
			}
		})
	}
}
