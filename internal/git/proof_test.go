package git_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// However people merge a branch, its work is found in the base; what might not be there is not taken for merged.
func TestProve(t *testing.T) {
	commit := func(b *box, file, text string) {
		b.write(file, text)
		b.git("add", "-A")
		b.git("commit", "-qm", text)
	}
	on := func(b *box, branch string, do func()) {
		now := b.git("symbolic-ref", "--short", "HEAD")
		b.git("checkout", "-q", branch)
		do()
		b.git("checkout", "-q", now)
	}
	squash := func(b *box) { b.git("merge", "-q", "--squash", "work"); b.git("commit", "-qm", "squash") }
	for name, c := range map[string]struct {
		merge func(b *box)
		want  git.Proof
	}{
		"not at all":     {func(b *box) {}, ""},
		"merged":         {func(b *box) { b.git("merge", "-q", "--no-ff", "-m", "merge", "work") }, git.InHistory},
		"fast forward":   {func(b *box) { b.git("reset", "-q", "--hard", "work") }, git.InHistory},
		"rebased":        {func(b *box) { b.git("cherry-pick", "main..work") }, git.InPatches},
		"squashed":       {squash, git.InOne},
		"half of it":     {func(b *box) { b.git("cherry-pick", "work~1") }, ""},
		"something else": {func(b *box) { commit(b, "b.txt", "other\n") }, ""},
		"squashed with an edit": {func(b *box) {
			b.git("merge", "-q", "--squash", "work")
			commit(b, "b.txt", "one\ntwo\nmore\n")
		}, ""},
		"merged, then base was reset": {func(b *box) {
			b.git("merge", "-q", "--no-ff", "-m", "merge", "work")
			b.git("reset", "-q", "--hard", "main~1")
		}, ""},
		"base merged into it, then squashed": {func(b *box) {
			on(b, "work", func() { b.git("merge", "-q", "-m", "update", "main") })
			commit(b, "c.txt", "later\n")
			squash(b)
		}, git.InOne},
		"picked, but its merge held more": {func(b *box) {
			b.git("cherry-pick", "main..work")
			on(b, "work", func() {
				b.git("merge", "-q", "--no-commit", "main~2")
				b.write("mine.txt", "only here\n")
				b.git("add", "-A")
				b.git("commit", "-qm", "update")
			})
		}, ""},
		"taken back on the branch": {func(b *box) {
			on(b, "work", func() { b.git("revert", "--no-edit", "HEAD"); b.git("revert", "--no-edit", "HEAD~2") })
		}, ""},
		"nothing done": {func(b *box) { b.git("branch", "-qf", "work", "from") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBox(t)
			b.git("tag", "from")
			b.git("checkout", "-q", "-b", "work")
			commit(b, "b.txt", "one\n")
			commit(b, "b.txt", "one\ntwo\n")
			b.git("checkout", "-q", "main")
			commit(b, "c.txt", "meanwhile\n")
			c.merge(b)
			prove := func(from string) git.Proof {
				t.Helper()
				got, err := b.Repo.Prove(t.Context(), b.git("rev-parse", "main"), from, b.git("rev-parse", "work"))
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got := prove(b.git("rev-parse", "from")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := prove("0123456789012345678901234567890123456789"); name != "nothing done" && got != c.want {
				t.Errorf("with a beginning that is gone: got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRemotes(t *testing.T) {
	b := newBox(t)
	for _, c := range []struct {
		do   []string
		want string
	}{
		{[]string{"branch", "other"}, ""},
		{[]string{"update-ref", "refs/remotes/origin/main", "main"}, "refs/remotes/origin/main"},
		{[]string{"config", "branch.main.remote", "up"}, "refs/remotes/origin/main"},
		{[]string{"config", "branch.main.merge", "refs/heads/trunk"}, "refs/remotes/origin/main"},
		{[]string{"config", "remote.up.fetch", "+refs/heads/*:refs/remotes/up/*"}, "refs/remotes/origin/main"},
		{[]string{"update-ref", "refs/remotes/up/trunk", "main"}, "refs/remotes/up/trunk refs/remotes/origin/main"},
	} {
		b.git(c.do...)
		got := must(b.Repo.Remotes(t.Context(), "main"))(t)
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("after %v: got %q, want %q", c.do, text, c.want)
		}
	}
}
