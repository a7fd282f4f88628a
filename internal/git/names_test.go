package git_test

import (
	"errors"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func checkLikeGit(t *testing.T, name string) {
	t.Helper()
	if strings.ContainsRune(name, 0) {
		return // a NUL can't be passed as an argument
	}
	long := slices.ContainsFunc(strings.Split(name, "/"), func(part string) bool { return len(part)+len(".lock") > 255 }) // the longest file name
	want := !long && exec.Command("git", "check-ref-format", "refs/heads/"+name).Run() == nil && !strings.HasPrefix(name, "-") && !strings.HasPrefix(name, "refs/") && name != "HEAD" && name != "@"
	if err := git.CheckBranchName(name); (err == nil) != want {
		t.Errorf("%q: got %v, git says %v", name, err, want)
	}
}

var names = []string{"main", "feature/user-auth", "", "-x", "--all", "a..b", "a.", ".a", "a/.b", "a.lock", "a.lock/b", "a/b.lock", "a//b", "/a", "a/", "a b", "a~1", "a^", "a:b",
	"a?", "a*", "a[b", "a\\b", "a\x7f", "a\tb", "a\nb", "@", "a@", "@{", "a@{1}", "HEAD", "a/HEAD", "ünï", "\xff", "a]", "a/-b", "a.lockx", "..", ".", "feature/", "x/@", strings.Repeat("a", 200), strings.Repeat("a", 250) + "/b", "a/" + strings.Repeat("b", 251)}

func TestBranchNames(t *testing.T) {
	for _, name := range names {
		checkLikeGit(t, name)
	}
	for _, name := range []string{"-x", "a..b", "x\x00y", "HEAD", "refs/heads/main", "refs/x"} {
		if git.CheckBranchName(name) == nil {
			t.Errorf("%q is allowed", name)
		}
	}
}

func FuzzBranchNames(f *testing.F) {
	for _, name := range names {
		f.Add(name)
	}
	f.Fuzz(checkLikeGit)
}

func TestBranchFree(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		b.Git("branch", "feature/a")
		b.Git("branch", "topic")
		for name, taken := range map[string]string{"feature/a": "feature/a", "feature": "feature/a", "feature/a/b": "feature/a", "topic/x": "topic", "feature/b": "", "feature/ab": "", "top": ""} {
			err := b.Repo.Refs().BranchFree(t.Context(), name)
			var e *git.BranchError
			if errors.As(err, &e) != (taken != "") || e != nil && e.Taken != taken {
				t.Errorf("%s: got %v, want %q in the way", name, err, taken)
			}
		}
		if b.Repo.Refs().BranchFree(t.Context(), "-x") == nil {
			t.Error("-x is free")
		}
	}, gittest.HardFormats...)
}
