package git_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// loose returns the path of a loose object.
func loose(b *gittest.Box, name string) string {
	return filepath.Join(b.Dir, ".git", "objects", name[:2], name[2:])
}

// overwrite replaces the content of a loose object's file by that of another object. Mode and modification time stay the same.
func overwrite(b *gittest.Box, name, by string) {
	b.T.Helper()
	data, st := gittest.Must(os.ReadFile(loose(b, by)))(b.T), gittest.Must(os.Stat(loose(b, name)))(b.T)
	err := os.Chmod(loose(b, name), 0o644)
	if err = errors.Join(err, os.WriteFile(loose(b, name), data, 0o644), os.Chmod(loose(b, name), 0o444), os.Chtimes(loose(b, name), st.ModTime(), st.ModTime())); err != nil {
		b.T.Fatal(err)
	}
}

// blob writes a blob object and returns its name.
func blob(b *gittest.Box, content string) string {
	b.T.Helper()
	b.Write("../blob", content)
	return b.Git("hash-object", "-w", "../blob")
}

// poisoned returns a repository with these settings (key=value) and a committed test in a folder, which poison tampers with.
func poisoned(t *testing.T, settings ...string) *gittest.Box {
	b := gittest.New(t)
	b.Write("d/test.sh", "exit 1\n")
	for _, s := range settings {
		key, value, _ := strings.Cut(s, "=")
		b.Git("config", key, value)
	}
	b.Git("add", "-A")
	b.Git("commit", "-qm", "test")
	return b
}

// poison holds functions that forge an object of a kind, such as a test that now always passes, and return the object's name.
var poison = map[string]func(b *gittest.Box) (object string){
	"blob": func(b *gittest.Box) string {
		name := b.Git("rev-parse", "HEAD:d/test.sh")
		overwrite(b, name, blob(b, "exit 0\n"))
		return name
	},
	"tree": func(b *gittest.Box) string {
		name := b.Git("rev-parse", "HEAD:d")
		b.Write("../tree", strings.ReplaceAll(b.Git("ls-tree", "HEAD:d"), b.Git("rev-parse", "HEAD:d/test.sh"), blob(b, "exit 0\n"))+"\n")
		overwrite(b, name, b.Git("-c", "alias.t=!git mktree < ../tree", "t"))
		return name
	},
	"commit": func(b *gittest.Box) string {
		head, tree := b.Git("rev-parse", "HEAD"), b.Git("rev-parse", "HEAD^^{tree}")
		overwrite(b, head, b.Git("commit-tree", "-m", "x", tree))
		return head
	},
}

// Edge S1: a checkout has the files of its commit, or it fails and leaves no worktree.
func TestPoisonedObjects(t *testing.T) {
	for kind, do := range poison {
		b := poisoned(t)
		head := b.Git("rev-parse", "HEAD")
		object := do(b)
		fresh := b.Tree("fresh")
		for what, err := range map[string]error{
			"Checkout":    b.Repo.Worktrees().Checkout(t.Context(), fresh, head),
			"AddWorktree": b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: b.Tree("task/a"), Branch: "task/a", Base: head}),
		} {
			damaged := (*git.DamagedError)(nil)
			if kind == "commit" && err != nil { // git itself verifies the hashes of commits
				continue
			}
			if !errors.As(err, &damaged) || damaged.Object != object || damaged.File != loose(b, object) {
				t.Errorf("%s of a poisoned %s: got %v, want %s named", what, kind, err, object)
			}
		}
		if list := gittest.Must(b.Repo.Worktrees().List(t.Context()))(t); len(list) != 0 {
			t.Errorf("%s: worktrees are left: %v", kind, list)
		}
	}
}

// Edge S1 at a commit with a folder without files, as other programs write it: git lists no such folder.
func TestPoisonedBesideAnEmptyTree(t *testing.T) {
	b := poisoned(t)
	b.Write("../tree", b.Git("ls-tree", "HEAD")+"\n040000 tree "+b.Git("-c", "alias.t=!git mktree < /dev/null", "t")+"\tempty\n")
	commit := b.Git("commit-tree", "-m", "with an empty tree", b.Git("-c", "alias.t=!git mktree < ../tree", "t"))
	if err := b.Repo.Worktrees().Checkout(t.Context(), b.Tree("whole"), commit); err != nil {
		t.Error(err)
	}
	object := poison["blob"](b)
	damaged := (*git.DamagedError)(nil)
	if err := b.Repo.Worktrees().Checkout(t.Context(), b.Tree("fresh"), commit); !errors.As(err, &damaged) || damaged.Object != object {
		t.Errorf("got %v, want %s named", err, object)
	}
}

// Edge S1 in a repository with packed objects: a forged loose object is not used beside the pack, nor when the pack is gone.
func TestPoisonedIndexOfAPack(t *testing.T) {
	b := poisoned(t)
	name, head := b.Git("rev-parse", "HEAD:d/test.sh"), b.Git("rev-parse", "HEAD")
	b.Git("gc", "-q", "--prune=now")
	other := blob(b, "exit 0\n")
	if err := os.MkdirAll(filepath.Dir(loose(b, name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(loose(b, other), loose(b, name)); err != nil { // git reads packs first
		t.Fatal(err)
	}
	if err := b.Repo.Worktrees().Checkout(t.Context(), b.Tree("fresh"), head); err != nil {
		t.Error(err)
	}
	for _, pack := range gittest.Must(filepath.Glob(filepath.Join(b.Dir, ".git", "objects", "pack", "*")))(t) {
		if err := os.Rename(pack, filepath.Join(b.Home, filepath.Base(pack))); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Repo.Worktrees().Checkout(t.Context(), b.Tree("fresh"), head); err == nil {
		t.Error("there is a checkout without objects")
	}
}

// Files that git converts on checkout, by filters or line endings for example, are not damage, and don't hide any.
func TestFilteredFilesOfACheckout(t *testing.T) {
	for _, settings := range [][]string{
		{"core.autocrlf=true"}, {"core.eol=crlf"}, {"index.version=4"}, {"core.symlinks=false"},
		{"filter.x.smudge=tr a-z A-Z", "filter.x.clean=tr A-Z a-z"},
	} {
		b := gittest.New(t)
		b.Write(".gitattributes", "*.sh filter=x text\n*.id ident\n")
		b.Write("a.sh", "exit 1\n")
		b.Write("b.id", "$Id$\n")
		b.Write("crlf.bin", "a\r\nb\n")
		if err := os.Symlink("a.sh", b.Path("link")); err != nil {
			t.Fatal(err)
		}
		b.Git("add", "-A")
		b.Git("commit", "-qm", "files")
		for _, s := range settings {
			key, value, _ := strings.Cut(s, "=")
			b.Git("config", key, value)
		}
		head := b.Git("rev-parse", "HEAD")
		if err := b.Repo.Worktrees().Checkout(t.Context(), b.Tree("fresh"), head); err != nil {
			t.Errorf("%v: %v", settings, err)
		}
		overwrite(b, b.Git("rev-parse", "HEAD:a.sh"), blob(b, "exit 0\n"))
		if err := b.Repo.Worktrees().Checkout(t.Context(), b.Tree("fresh"), head); !errors.As(err, new(*git.DamagedError)) {
			t.Errorf("%v: got %v, want damage", settings, err)
		}
	}
}

// A file stored with Git LFS has the content that its pointer names: a forged LFS object is damage, other output of the filter is not.
func TestLFSObjectsOfACheckout(t *testing.T) {
	b := gittest.New(t)
	good := "the weights\n"
	oid := fmt.Sprintf("%x", sha256.Sum256([]byte(good)))
	object := filepath.Join(".git", "lfs", "objects", oid[:2], oid[2:4], oid)
	b.Write(".gitattributes", "*.bin filter=lfs -text\n")
	b.Write("b.bin", strings.Repeat("no pointer\n", 1000))
	b.Write("a.bin", "version https://git-lfs.github.com/spec/v1\noid sha256:"+oid+"\nsize "+fmt.Sprint(len(good))+"\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "files")
	b.Git("config", "filter.lfs.smudge", "cat >/dev/null; cat "+b.Path(object))
	b.Git("config", "filter.lfs.clean", "cat")
	head := b.Git("rev-parse", "HEAD")
	for _, tt := range []struct {
		stored, smudge string
		damaged        bool
	}{
		{stored: good},
		{stored: "the forgery\n", damaged: true},
		{stored: good, smudge: "cat >/dev/null; tr a-z A-Z <" + b.Path(object)},
		{stored: "the forgery\n", smudge: "cat >/dev/null; tr a-z A-Z <" + b.Path(object), damaged: true},
	} {
		b.Write(object, tt.stored)
		if tt.smudge != "" {
			b.Git("config", "filter.lfs.smudge", tt.smudge)
		}
		err := b.Repo.Worktrees().Checkout(t.Context(), b.Tree("fresh"), head)
		var d *git.DamagedError
		if errors.As(err, &d) != tt.damaged || tt.damaged && (d.File != b.Path(object) || !strings.Contains(err.Error(), "git lfs fetch")) {
			t.Errorf("with %q stored, made by %q: got %v", tt.stored, tt.smudge, err)
		}
	}
}

// Objects that are changed in place while others are at work are found, whatever the times of their files say; commits, gc and
// other work of people are not damage.
func TestObjectsThatChange(t *testing.T) {
	b := poisoned(t)
	objects := gittest.Must(b.Repo.Trees().Objects(time.Time{}, nil))(t)
	fine := func(what string) {
		t.Helper()
		if notes, err := objects.Check(t.Context()); err != nil || len(notes) != 0 {
			t.Errorf("%s: got %q, %v", what, notes, err)
		}
	}
	fine("nothing")
	b.Write("more.txt", "more\n")
	b.Git("add", "-A")
	b.Git("commit", "-qm", "more")
	fine("a commit")
	b.Git("gc", "-q", "--prune=now")
	fine("gc")
	b.Git("commit-graph", "write", "--reachable")
	b.Git("multi-pack-index", "write")
	fine("what speeds git up")
	for kind, do := range poison {
		b := poisoned(t)
		objects, began := gittest.Must(b.Repo.Trees().Objects(time.Time{}, nil))(t), time.Now().Add(-time.Minute)
		name := do(b)
		damaged := (*git.DamagedError)(nil)
		if _, err := objects.Check(t.Context()); !errors.As(err, &damaged) || damaged.Object != name {
			t.Errorf("%s: got %v, want %s", kind, err, name)
		}
		if _, err := gittest.Must(b.Repo.Trees().Objects(began, nil))(t).Check(t.Context()); !errors.As(err, &damaged) || damaged.Object != name {
			t.Errorf("%s, by another process: got %v, want %s", kind, err, name)
		}
	}
}

// Edge S1: a pack whose times git freshens, since an added object is in it already, counts as unchanged. Any other change of
// a pack is found, and so is a damaged index of a pack, whatever its name.
func TestPacksThatChange(t *testing.T) {
	b := poisoned(t)
	b.Git("gc", "-q", "--prune=now")
	packs, err := filepath.Glob(b.Path(".git/objects/pack/*.pack"))
	if err != nil || len(packs) != 1 {
		t.Fatalf("got packs %q, %v", packs, err)
	}
	index := strings.TrimSuffix(packs[0], ".pack") + ".idx"
	check := func(do func()) error {
		objects := gittest.Must(b.Repo.Trees().Objects(time.Time{}, nil))(t)
		do()
		_, err := objects.Check(t.Context())
		return err
	}
	change := func(path string, at int64) func() {
		return func() {
			data := gittest.Must(os.ReadFile(path))(t)
			data[at] ^= 1
			if err := errors.Join(os.Chmod(path, 0o644), os.WriteFile(path, data, 0o644)); err != nil {
				t.Fatal(err)
			}
		}
	}
	later := time.Now().Add(time.Hour)
	if err := check(func() { os.Chtimes(packs[0], later, later) }); err != nil {
		t.Errorf("freshened: %v", err)
	}
	for _, path := range []string{packs[0], index} {
		err := check(change(path, 300))
		if damaged := (*git.DamagedError)(nil); !errors.As(err, &damaged) || strings.Contains(err.Error(), "rm -f") {
			t.Errorf("%s: got %v", filepath.Base(path), err)
		}
		change(path, 300)()
	}
	for _, name := range []string{"tmp_x", ".tmp-7-pack-x"} {
		err := check(func() {
			for from, ext := range map[string]string{packs[0]: ".pack", index: ".idx"} {
				if err := os.WriteFile(b.Path(".git/objects/pack/"+name+ext), gittest.Must(os.ReadFile(from))(t), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			change(b.Path(".git/objects/pack/"+name+".idx"), 300)()
		})
		if damaged := (*git.DamagedError)(nil); !errors.As(err, &damaged) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Edge S1: objects that are gone are reported, once; a pack or index that was changed is damaged.
func TestObjectsThatAreGone(t *testing.T) {
	b := poisoned(t)
	objects := gittest.Must(b.Repo.Trees().Objects(time.Time{}, nil))(t)
	name := b.Git("rev-parse", "HEAD^")
	if err := os.Remove(loose(b, name)); err != nil {
		t.Fatal(err)
	}
	notes, err := objects.Check(t.Context())
	if err != nil || len(notes) != 1 || !strings.Contains(notes[0], name) {
		t.Errorf("got %q, %v, want %s named", notes, err, name)
	}
	if notes, err := objects.Check(t.Context()); err != nil || len(notes) != 0 {
		t.Errorf("got %q, %v, want it told once", notes, err)
	}
	for _, packed := range []bool{true, false} {
		b := poisoned(t)
		b.Git("gc", "-q", "--prune=now")
		objects := gittest.Must(b.Repo.Trees().Objects(time.Time{}, nil))(t)
		idx := gittest.Must(filepath.Glob(filepath.Join(b.Dir, ".git", "objects", "pack", "*.idx")))(t)[0]
		file := idx
		if packed {
			file = strings.TrimSuffix(idx, ".idx") + ".pack"
		}
		data := gittest.Must(os.ReadFile(file))(t)
		data[len(data)/2]++
		if err := errors.Join(os.Remove(file), os.WriteFile(file, data, 0o444)); err != nil {
			t.Fatal(err)
		}
		if _, err := objects.Check(t.Context()); !errors.As(err, new(*git.DamagedError)) {
			t.Errorf("%s was changed: got %v", filepath.Ext(file), err)
		}
	}
}

// Edge S1: alternates that existed when a run began are accepted; alternates that were added since are refused, also by a process
// that begins later, and so is an alternates file that is a pipe.
func TestBorrowedObjects(t *testing.T) {
	const file = ".git/objects/info/alternates"
	for name, c := range map[string]struct {
		before, after string
		refused       bool
	}{
		"none before":  {"", "/srv/objects\n", true},
		"one more":     {"/srv/a\n", "/srv/a\n../../../b/objects\n", true},
		"another":      {"/srv/a\n", "/srv/b\n", true},
		"as it was":    {"/srv/a\n", "# of a\n/srv/a\n", false},
		"only remarks": {"", "# nothing\n\n", false},
		"taken away":   {"/srv/a\n/srv/b\n", "/srv/a\n", false},
	} {
		b := gittest.New(t)
		if c.before != "" {
			b.Write(file, c.before)
		}
		objects := gittest.Must(b.Repo.Trees().Objects(time.Time{}, nil))(t)
		borrowed := objects.Alternates()
		b.Write(file, c.after)
		notes, err := objects.Check(t.Context())
		if refused := errors.As(err, new(*git.AlternatesError)); refused != c.refused || err != nil && !refused {
			t.Errorf("%s: got %v, want refused %v", name, err, c.refused)
		}
		if told := slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, "alternates") }); told != (name == "taken away") {
			t.Errorf("%s: got %q", name, notes)
		}
		_, err = gittest.Must(b.Repo.Trees().Objects(time.Now().Add(time.Minute), borrowed))(t).Check(t.Context())
		if refused := errors.As(err, new(*git.AlternatesError)); refused != c.refused {
			t.Errorf("%s, a process that begins later: got %v, want it refused", name, err)
		}
	}
	b := gittest.New(t)
	objects := gittest.Must(b.Repo.Trees().Objects(time.Time{}, nil))(t)
	if err := syscall.Mkfifo(b.Path(file), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Check(t.Context()); !errors.As(err, new(*git.AlternatesError)) {
		t.Errorf("a pipe: got %v, want it refused", err)
	}
}

// If a pack is a symbolic link, a change of the file that it points to is found.
func TestPackBehindALink(t *testing.T) {
	b := poisoned(t)
	b.Git("gc", "-q", "--prune=now")
	pack := gittest.Must(filepath.Glob(b.Path(".git/objects/pack/*.pack")))(t)[0]
	away := filepath.Join(b.Home, "away")
	if err := errors.Join(os.Rename(pack, away), os.Symlink(away, pack)); err != nil {
		t.Fatal(err)
	}
	objects := gittest.Must(b.Repo.Trees().Objects(time.Time{}, nil))(t)
	if notes, err := objects.Check(t.Context()); err != nil || len(notes) > 0 {
		t.Errorf("got %q, %v before", notes, err)
	}
	data := gittest.Must(os.ReadFile(away))(t)
	data[len(data)/2]++
	if err := errors.Join(os.Remove(away), os.WriteFile(away, data, 0o644)); err != nil {
		t.Fatal(err)
	}
	if _, err := objects.Check(t.Context()); !errors.As(err, new(*git.DamagedError)) {
		t.Errorf("got %v, want damage", err)
	}
}

// manyFiles returns a repository with n files and test.sh, created by fast-import, whose objects are packed or loose.
func manyFiles(t testing.TB, n int, packed bool) *gittest.Box {
	b := gittest.Empty(t)
	var s strings.Builder
	s.WriteString("commit refs/heads/main\ncommitter Ann <ann@example.org> 1700000000 +0000\ndata 1\nx\n")
	for i := range n {
		text := fmt.Sprintf("file %d\n", i)
		fmt.Fprintf(&s, "M 100644 inline d%d/f%d.txt\ndata %d\n%s\n", i/100, i, len(text), text)
	}
	s.WriteString("M 100644 inline test.sh\ndata 7\nexit 1\n\n")
	b.Write("../import", s.String())
	limit := "0"
	if !packed {
		limit = fmt.Sprint(2 * n)
	}
	b.Git("-c", "fastimport.unpackLimit="+limit, "-c", "alias.i=!git fast-import --quiet < ../import", "i")
	b.Git("reset", "-q", "--hard")
	return b
}

// Edge S1 (a) for a file that is older than the index, as most are in a large repository: git reads only files that are as young
// as the index.
func TestForgedIndexOfManyFiles(t *testing.T) {
	b := manyFiles(t, 1000, true)
	dir := b.Add("task/a")
	old := time.Now().Add(-time.Minute)
	if err := os.Chtimes(filepath.Join(dir, "test.sh"), old, old); err != nil {
		t.Fatal(err)
	}
	b.GitIn(dir, "update-index", "--refresh")
	head := b.GitIn(dir, "rev-parse", "HEAD^{tree}")
	if got := gittest.Must(snapshot.New(b.Repo).TreeOf(t.Context(), dir))(t); got != head {
		t.Fatalf("got tree %s, want %s", got, head)
	}
	st := gittest.Must(os.Lstat(filepath.Join(dir, "test.sh")))(t)
	b.Write(filepath.Join(dir, "test.sh"), "exit 0\n")
	if err := os.Chtimes(filepath.Join(dir, "test.sh"), st.ModTime(), st.ModTime()); err != nil {
		t.Fatal(err)
	}
	forge(b, dir, "test.sh")
	if out, err := b.Try(dir, "status", "--porcelain"); err != nil || out != "" {
		t.Fatalf("git sees through it: %q, %v", out, err)
	}
	if got := gittest.Must(snapshot.New(b.Repo).TreeOf(t.Context(), dir))(t); got == head {
		t.Error("the change was not seen")
	}
}
