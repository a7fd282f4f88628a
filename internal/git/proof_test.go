package git_test

import (
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Prove finds the work of a branch in the base however people merged it; work that might be missing there is not taken for merged.
func TestProve(t *testing.T) {
	commit := func(b *gittest.Box, file, text string) {
		b.Write(file, text)
		b.Git("add", "-A")
		b.Git("commit", "-qm", text)
	}
	on := func(b *gittest.Box, branch string, do func()) {
		now := b.Git("symbolic-ref", "--short", "HEAD")
		b.Git("checkout", "-q", branch)
		do()
		b.Git("checkout", "-q", now)
	}
	squash := func(b *gittest.Box) { b.Git("merge", "-q", "--squash", "work"); b.Git("commit", "-qm", "squash") }
	for name, c := range map[string]struct {
		merge func(b *gittest.Box)
		want  git.Proof
	}{
		"not at all":     {func(b *gittest.Box) {}, ""},
		"merged":         {func(b *gittest.Box) { b.Git("merge", "-q", "--no-ff", "-m", "merge", "work") }, git.InHistory},
		"fast forward":   {func(b *gittest.Box) { b.Git("reset", "-q", "--hard", "work") }, git.InHistory},
		"rebased":        {func(b *gittest.Box) { b.Git("cherry-pick", "main..work") }, git.InPatches},
		"squashed":       {squash, git.InOne},
		"half of it":     {func(b *gittest.Box) { b.Git("cherry-pick", "work~1") }, ""},
		"something else": {func(b *gittest.Box) { commit(b, "b.txt", "other\n") }, ""},
		"squashed with an edit": {func(b *gittest.Box) {
			b.Git("merge", "-q", "--squash", "work")
			commit(b, "b.txt", "one\ntwo\nmore\n")
		}, ""},
		"merged, then base was reset": {func(b *gittest.Box) {
			b.Git("merge", "-q", "--no-ff", "-m", "merge", "work")
			b.Git("reset", "-q", "--hard", "main~1")
		}, ""},
		"base merged into it, then squashed": {func(b *gittest.Box) {
			on(b, "work", func() { b.Git("merge", "-q", "-m", "update", "main") })
			commit(b, "c.txt", "later\n")
			squash(b)
		}, git.InOne},
		"picked, but its merge held more": {func(b *gittest.Box) {
			b.Git("cherry-pick", "main..work")
			on(b, "work", func() {
				b.Git("merge", "-q", "--no-commit", "main~2")
				b.Write("mine.txt", "only here\n")
				b.Git("add", "-A")
				b.Git("commit", "-qm", "update")
			})
		}, ""},
		"taken back on the branch": {func(b *gittest.Box) {
			on(b, "work", func() { b.Git("revert", "--no-edit", "HEAD"); b.Git("revert", "--no-edit", "HEAD~2") })
		}, ""},
		"nothing done": {func(b *gittest.Box) { b.Git("branch", "-qf", "work", "from") }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gittest.New(t)
			b.Git("tag", "from")
			b.Git("checkout", "-q", "-b", "work")
			commit(b, "b.txt", "one\n")
			commit(b, "b.txt", "one\ntwo\n")
			b.Git("checkout", "-q", "main")
			commit(b, "c.txt", "meanwhile\n")
			c.merge(b)
			prove := func(from string) git.Proof {
				t.Helper()
				got, err := b.Repo.History().Prove(t.Context(), b.Git("rev-parse", "main"), from, b.Git("rev-parse", "work"))
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			if got := prove(b.Git("rev-parse", "from")); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := prove("0123456789012345678901234567890123456789"); name != "nothing done" && got != c.want {
				t.Errorf("with a beginning that is gone: got %q, want %q", got, c.want)
			}
		})
	}
}

func TestRemotes(t *testing.T) {
	b := gittest.New(t)
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
		b.Git(c.do...)
		got := gittest.Must(b.Repo.Remotes().Remotes(t.Context(), "main"))(t)
		if text := strings.Join(got, " "); text != c.want {
			t.Errorf("after %v: got %q, want %q", c.do, text, c.want)
		}
	}
}
