package git_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func added(t *testing.T, r *git.Repo, dir, from, to string, most int) (list []string) {
	t.Helper()
	err := r.History().AddedLines(t.Context(), dir, from, to, most, func(s git.Hunk) {
		list = append(list, fmt.Sprintf("%s:%d %q %v", s.Path, s.First, s.Text, s.Cut))
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestMessages(t *testing.T) {
	b := gittest.New(t)
	var commits []string
	for _, text := range []string{"one\n\ncommit of two lines\n", "two\n"} {
		b.Git("commit", "-q", "--allow-empty", "-m", text)
		commits = append(commits, b.Git("rev-parse", "HEAD"))
	}
	got, err := b.Repo.History().Messages(t.Context(), commits)
	if err != nil || len(got) != 2 || got[commits[0]] != "one\n\ncommit of two lines\n" || got[commits[1]] != "two\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := b.Repo.History().Messages(t.Context(), nil); len(got) > 0 || err != nil {
		t.Errorf("got %q, %v, want nothing", got, err)
	}
}

// Touched returns the paths that a commit itself changes, even if a later commit reverts that, but not those that a merge brings.
func TestTouched(t *testing.T) {
	b := gittest.New(t)
	b.Write("keep/old.txt", "old\n")
	b.Write("k[a]", "old\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "second")
	base := b.Git("rev-parse", "HEAD")
	b.Git("checkout", "-q", "-b", "work")
	for _, does := range []func(){
		func() { b.Write(".env", "a\n") },
		func() { b.Git("rm", "-q", ".env", "keep/old.txt"); b.Write("ka", "other\n") },
		func() { b.Write("keep/new.txt", ""); b.Write("keeper", "x\n") },
	} {
		does()
		b.Git("add", "-A")
		b.Git("commit", "-qm", "work")
	}
	b.Git("checkout", "-q", "main")
	b.Write("keep/theirs.txt", "x\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "theirs")
	b.Git("checkout", "-q", "work")
	b.Git("merge", "-q", "--no-edit", "main")
	commits := strings.Fields(b.Git("rev-list", "work", "^main"))
	got, err := b.Repo.History().Touched(t.Context(), commits, []string{".env", "keep", "k[a]"})
	if want := []string{".env", "keep/new.txt", "keep/old.txt"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, c := range [][2][]string{{nil, {"keep"}}, {commits, nil}, {{base}, {"other"}}} {
		if got, err := b.Repo.History().Touched(t.Context(), c[0], c[1]); len(got) > 0 || err != nil {
			t.Errorf("%q: got %q, %v, want nothing", c, got, err)
		}
	}
}

func TestAddedLines(t *testing.T) {
	b := gittest.New(t)
	b.Write("b.txt", "one\ntwo\nthree\nfour\nfive\n")
	b.Write("gone.txt", "gone\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "second")
	base := b.Git("rev-parse", "HEAD")
	b.Git("config", "diff.noprefix", "true")
	b.Git("config", "diff.renames", "copies")
	b.Git("config", "diff.external", "false")
	b.Write(".gitattributes", "* -diff\n*.txt binary\n")
	b.Write("b.txt", "one\nTWO\nthree\nfour\n+++ b/other\n@@ -1 +1 @@\nfive\nsix")
	b.Write("with space", "s\n")
	b.Write("odd\"\t\nname", "o\r\n")
	b.Write("ünïcode", "u\n")
	b.Write("long", strings.Repeat("x", 50)+"\n"+"more\n")
	b.Write("moved.txt", "gone\n")
	b.Write("bin", "a\x00b\n")
	b.Git("rm", "-q", "gone.txt")
	b.Git("add", "-A")
	want := []string{
		`.gitattributes:1 "* -diff\n*.txt binary\n" false`,
		`b.txt:2 "TWO\n" false`,
		`b.txt:5 "+++ b/other\n@@ -1 +1 @@\n" false`,
		`b.txt:8 "six\n" false`,
		`bin:1 "a\x00b\n" false`,
		`long:1 "` + strings.Repeat("x", 30) + `\n\n" true`,
		`moved.txt:1 "gone\n" false`,
		`with space:1 "s\n" false`,
		`ünïcode:1 "u\n" false`,
	}
	want = append(want, "odd\"\t\nname:1 \"o\\r\\n\" false")
	slices.Sort(want)
	got := added(t, b.Repo, b.Dir, base, "", 30)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.Git("commit", "-qm", "third")
	got = added(t, b.Repo, b.Dir, base, b.Git("rev-parse", "HEAD"), 30)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("between commits: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = added(t, b.Repo, b.Dir, "", b.Git("rev-parse", "HEAD"), 30)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("of one commit: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.Git("merge", "-q", "--no-ff", "--allow-unrelated-histories", "-m", "merge", b.Git("commit-tree", "-m", "root", b.Git("rev-parse", "HEAD^{tree}")))
	if got = added(t, b.Repo, b.Dir, "", b.Git("rev-parse", "HEAD"), 30); len(got) > 0 {
		t.Errorf("of a merge: got %q, want nothing", got)
	}
	if got = added(t, b.Repo, b.Dir, "", b.Git("rev-parse", "HEAD^2"), 30); len(got) != 9 {
		t.Errorf("of a commit without parent: got %q", got)
	}
}

func TestTextsAt(t *testing.T) {
	b := gittest.New(t)
	b.Git("config", "grep.lineNumber", "true")
	b.Git("config", "grep.patternType", "perl")
	b.Write("a.txt", "a.*b stands here\n")
	b.Write("bin", "\x00in a program\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "second")
	head := b.Git("rev-parse", "HEAD")
	b.Write("a.txt", "not yet\n")
	got, err := b.Repo.History().TextsAt(t.Context(), head, []string{"a.*b", "in a program", "not yet", "axxb"})
	if err != nil || len(got) != 2 || !got["a.*b"] || !got["in a program"] {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := b.Repo.History().Read(t.Context(), head, "a.txt", "none.txt"); err != nil || len(got) != 1 || got["a.txt"] != "a.*b stands here\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err = b.Repo.History().TextsAt(t.Context(), head, []string{"nothing"}); err != nil || len(got) != 0 {
		t.Errorf("nothing: got %v, %v", got, err)
	}
}

// HasTreeAndParent returns true for a commit of what was staged on its parent, if nothing else was staged in between.
func TestStagedAndMade(t *testing.T) {
	b := gittest.New(t)
	base := b.Git("rev-parse", "HEAD")
	b.Write("new.txt", "new\n")
	b.Git("add", "-A")
	staged := b.Repo.Index().Staged(b.Dir)
	if want := b.Git("write-tree"); staged != want {
		t.Errorf("staged is %q, want %s", staged, want)
	}
	b.Git("commit", "-qm", "second")
	head := b.Git("rev-parse", "HEAD")
	if !b.Repo.History().HasTreeAndParent(head, base, staged) {
		t.Error("the commit does not make what was staged")
	}
	b.Write("more.txt", "more\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "third")
	b.Git("commit", "-q", "--allow-empty", "-m", "fourth")
	for _, commit := range []string{base, b.Git("rev-parse", "HEAD^"), b.Git("rev-parse", "HEAD")} {
		if b.Repo.History().HasTreeAndParent(commit, base, staged) || b.Repo.History().HasTreeAndParent(commit, base, b.Git("rev-parse", "HEAD:")) {
			t.Errorf("%s is taken for one that makes it of the first", commit)
		}
	}
}

// MoveRef moves a branch back without changing files and index, and only from the commit at which it is expected.
func TestTakeBack(t *testing.T) {
	b := gittest.New(t)
	base := b.Git("rev-parse", "HEAD")
	b.Git("checkout", "-qb", "work")
	b.Write("new.txt", "new\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "second")
	tip := b.Git("rev-parse", "HEAD")
	if got, err := b.Repo.History().Between(t.Context(), base, "main", tip); err != nil || !slices.Equal(got, []string{tip}) {
		t.Errorf("between: got %v, %v", got, err)
	}
	other := b.Git("commit-tree", "-m", "other", "HEAD^{tree}")
	if err := b.Repo.Refs().MoveRef(t.Context(), git.BranchPrefix+"work", base, other); err == nil {
		t.Error("it was moved from another commit")
	}
	if err := b.Repo.Refs().MoveRef(t.Context(), git.BranchPrefix+"work", base, tip); err != nil {
		t.Fatal(err)
	}
	if got := b.Git("status", "--porcelain"); got != "A  new.txt" {
		t.Errorf("got %q, want it staged", got)
	}
	if got := b.Git("rev-parse", "HEAD"); got != base {
		t.Errorf("got %s, want %s", got, base)
	}
}
