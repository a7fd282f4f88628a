package git_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

func added(t *testing.T, r *git.Repo, dir, from, to string, most int) (list []string) {
	t.Helper()
	err := r.Added(t.Context(), dir, from, to, most, func(s git.Stretch) {
		list = append(list, fmt.Sprintf("%s:%d %q %v", s.Path, s.First, s.Text, s.Cut))
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestMessages(t *testing.T) {
	b := newBox(t)
	var commits []string
	for _, text := range []string{"one\n\ncommit of two lines\n", "two\n"} {
		b.git("commit", "-q", "--allow-empty", "-m", text)
		commits = append(commits, b.git("rev-parse", "HEAD"))
	}
	got, err := b.Repo.Messages(t.Context(), commits)
	if err != nil || len(got) != 2 || got[commits[0]] != "one\n\ncommit of two lines\n" || got[commits[1]] != "two\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := b.Repo.Messages(t.Context(), nil); len(got) > 0 || err != nil {
		t.Errorf("got %q, %v, want nothing", got, err)
	}
}

// What a commit does by itself to the paths counts, also when a later one takes it back; what a merge brings does not.
func TestTouched(t *testing.T) {
	b := newBox(t)
	b.write("keep/old.txt", "old\n")
	b.write("k[a]", "old\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "second")
	base := b.git("rev-parse", "HEAD")
	b.git("checkout", "-q", "-b", "work")
	for _, does := range []func(){
		func() { b.write(".env", "a\n") },
		func() { b.git("rm", "-q", ".env", "keep/old.txt"); b.write("ka", "other\n") },
		func() { b.write("keep/new.txt", ""); b.write("keeper", "x\n") },
	} {
		does()
		b.git("add", "-A")
		b.git("commit", "-qm", "work")
	}
	b.git("checkout", "-q", "main")
	b.write("keep/theirs.txt", "x\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "theirs")
	b.git("checkout", "-q", "work")
	b.git("merge", "-q", "--no-edit", "main")
	commits := strings.Fields(b.git("rev-list", "work", "^main"))
	got, err := b.Repo.Touched(t.Context(), commits, []string{".env", "keep", "k[a]"})
	if want := []string{".env", "keep/new.txt", "keep/old.txt"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, c := range [][2][]string{{nil, {"keep"}}, {commits, nil}, {{base}, {"other"}}} {
		if got, err := b.Repo.Touched(t.Context(), c[0], c[1]); len(got) > 0 || err != nil {
			t.Errorf("%q: got %q, %v, want nothing", c, got, err)
		}
	}
}

func TestAddedLines(t *testing.T) {
	b := newBox(t)
	b.write("b.txt", "one\ntwo\nthree\nfour\nfive\n")
	b.write("gone.txt", "gone\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "second")
	base := b.git("rev-parse", "HEAD")
	b.git("config", "diff.noprefix", "true")
	b.git("config", "diff.renames", "copies")
	b.git("config", "diff.external", "false")
	b.write(".gitattributes", "* -diff\n*.txt binary\n")
	b.write("b.txt", "one\nTWO\nthree\nfour\n+++ b/other\n@@ -1 +1 @@\nfive\nsix")
	b.write("with space", "s\n")
	b.write("odd\"\t\nname", "o\r\n")
	b.write("ünïcode", "u\n")
	b.write("long", strings.Repeat("x", 50)+"\n"+"more\n")
	b.write("moved.txt", "gone\n")
	b.write("bin", "a\x00b\n")
	b.git("rm", "-q", "gone.txt")
	b.git("add", "-A")
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
	b.git("commit", "-qm", "third")
	got = added(t, b.Repo, b.Dir, base, b.git("rev-parse", "HEAD"), 30)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("between commits: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	got = added(t, b.Repo, b.Dir, "", b.git("rev-parse", "HEAD"), 30)
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("of one commit: got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	b.git("merge", "-q", "--no-ff", "--allow-unrelated-histories", "-m", "merge", b.git("commit-tree", "-m", "root", b.git("rev-parse", "HEAD^{tree}")))
	if got = added(t, b.Repo, b.Dir, "", b.git("rev-parse", "HEAD"), 30); len(got) > 0 {
		t.Errorf("of a merge: got %q, want nothing", got)
	}
	if got = added(t, b.Repo, b.Dir, "", b.git("rev-parse", "HEAD^2"), 30); len(got) != 9 {
		t.Errorf("of a commit without parent: got %q", got)
	}
}

func TestTextsAt(t *testing.T) {
	b := newBox(t)
	b.git("config", "grep.lineNumber", "true")
	b.git("config", "grep.patternType", "perl")
	b.write("a.txt", "a.*b stands here\n")
	b.write("bin", "\x00in a program\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "second")
	head := b.git("rev-parse", "HEAD")
	b.write("a.txt", "not yet\n")
	got, err := b.Repo.TextsAt(t.Context(), head, []string{"a.*b", "in a program", "not yet", "axxb"})
	if err != nil || len(got) != 2 || !got["a.*b"] || !got["in a program"] {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := b.Repo.Read(t.Context(), head, "a.txt", "none.txt"); err != nil || len(got) != 1 || got["a.txt"] != "a.*b stands here\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err = b.Repo.TextsAt(t.Context(), head, []string{"nothing"}); err != nil || len(got) != 0 {
		t.Errorf("nothing: got %v, %v", got, err)
	}
}

// A commit makes what was staged of its parent, when nobody staged more in between.
func TestStagedAndMade(t *testing.T) {
	b := newBox(t)
	base := b.git("rev-parse", "HEAD")
	b.write("new.txt", "new\n")
	b.git("add", "-A")
	staged := b.Repo.Staged(b.Dir)
	if want := b.git("write-tree"); staged != want {
		t.Errorf("staged is %q, want %s", staged, want)
	}
	b.git("commit", "-qm", "second")
	head := b.git("rev-parse", "HEAD")
	if !b.Repo.Makes(head, base, staged) {
		t.Error("the commit does not make what was staged")
	}
	b.write("more.txt", "more\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "third")
	b.git("commit", "-q", "--allow-empty", "-m", "fourth")
	for _, commit := range []string{base, b.git("rev-parse", "HEAD^"), b.git("rev-parse", "HEAD")} {
		if b.Repo.Makes(commit, base, staged) || b.Repo.Makes(commit, base, b.git("rev-parse", "HEAD:")) {
			t.Errorf("%s is taken for one that makes it of the first", commit)
		}
	}
}

// A branch that is taken back leaves files and index as they are, and moves only from where it was.
func TestTakeBack(t *testing.T) {
	b := newBox(t)
	base := b.git("rev-parse", "HEAD")
	b.git("checkout", "-qb", "work")
	b.write("new.txt", "new\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "second")
	tip := b.git("rev-parse", "HEAD")
	if got, err := b.Repo.Between(t.Context(), base, "main", tip); err != nil || !slices.Equal(got, []string{tip}) {
		t.Errorf("between: got %v, %v", got, err)
	}
	other := b.git("commit-tree", "-m", "other", "HEAD^{tree}")
	if err := b.Repo.TakeBack(t.Context(), "work", base, other); err == nil {
		t.Error("it was moved from another commit")
	}
	if err := b.Repo.TakeBack(t.Context(), "work", base, tip); err != nil {
		t.Fatal(err)
	}
	if got := b.git("status", "--porcelain"); got != "A  new.txt" {
		t.Errorf("got %q, want it staged", got)
	}
	if got := b.git("rev-parse", "HEAD"); got != base {
		t.Errorf("got %s, want %s", got, base)
	}
}
