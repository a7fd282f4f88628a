package git_test

import (
	"slices"
	"testing"

	"github.com/trellis-tasks/trellis/internal/gittest"
)

// Any change of a checkout is reported, also of files that had been changed before.
func TestWorktreeState(t *testing.T) {
	b := gittest.New(t)
	b.Write("b.txt", "b\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "second")
	b.Write("a.txt", "changed by a person\n")
	for _, c := range []struct {
		what string
		do   func()
		want []string
	}{
		{"nothing", func() {}, nil},
		{"a new file", func() { b.Write("new.txt", "x\n") }, []string{"new.txt"}},
		{"what was changed before", func() { b.Write("a.txt", "changed once more\n") }, []string{"a.txt"}},
		{"taken back", func() { b.Git("checkout", "-q", "a.txt") }, []string{"a.txt"}},
		{"removed", func() { b.Git("rm", "-q", "b.txt") }, []string{"b.txt"}},
		{"committed", func() { b.Git("commit", "-qm", "third") }, []string{"HEAD", "b.txt"}},
		{"another branch", func() { b.Git("checkout", "-qb", "other") }, []string{"HEAD"}},
		{"left out", func() { b.Write("out/x", "x\n") }, nil},
	} {
		before, err := b.Repo.Index().StateOf(t.Context(), b.Dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		was, err := b.Repo.Index().Digest(t.Context(), b.Dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		c.do()
		after, err := b.Repo.Index().StateOf(t.Context(), b.Dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		if got := after.Since(before); !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.what, got, c.want)
		}
		is, err := b.Repo.Index().Digest(t.Context(), b.Dir, "out")
		if err != nil {
			t.Fatal(err)
		}
		if files := slices.DeleteFunc(c.want, func(path string) bool { return path == "HEAD" }); (is != was) != (len(files) > 0) {
			t.Errorf("%s: the digest was %s and is %s", c.what, was, is)
		}
	}
}

// Digest includes files that git was told to skip. It is "" beside another repository, whose files git does not list.
func TestDigestOfWhatGitDoesNotSee(t *testing.T) {
	b := gittest.New(t)
	digest := func() string {
		t.Helper()
		d, err := b.Repo.Index().Digest(t.Context(), b.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	b.Git("update-index", "--skip-worktree", "a.txt")
	before := digest()
	if before == "" || before != digest() {
		t.Fatalf("got %q, then %q", before, digest())
	}
	b.Write("a.txt", "changed behind git's back\n")
	if before == digest() {
		t.Error("a change of a file that git skips does not show")
	}
	b.Git("init", "-q", "inner")
	b.Write("inner/x", "x\n")
	if got := digest(); got != "" {
		t.Errorf("beside another repository it is %s", got)
	}
}
