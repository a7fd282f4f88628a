package git_test

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// modular returns a repository with the submodule libs/cli, and the path of the submodule's origin.
func modular(t *testing.T) (b *gittest.Box, origin string) {
	t.Helper()
	b = gittest.New(t)
	origin = filepath.Join(filepath.Dir(b.Dir), "cli")
	b.Write(filepath.Join(origin, "main.txt"), "one\n")
	b.GitIn(origin, "init", "-q", "-b", "main")
	b.GitIn(origin, "add", "-A")
	b.GitIn(origin, "commit", "-qm", "cli")
	b.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "--name", "tools/cli", origin, "libs/cli")
	b.Git("commit", "-qm", "with cli")
	return b, origin
}

// inTree adds a worktree on feature/x with the submodule in it, and returns both.
func inTree(b *gittest.Box) (*git.Module, string) {
	b.T.Helper()
	dir := b.Add("feature/x")
	m := gittest.Must(b.Repo.Modules().Module(b.T.Context(), b.Git("rev-parse", "main"), "libs/cli"))(b.T)
	if err := m.Worktrees().Add(b.T.Context(), git.NewWorktree{Path: m.Dir(dir), Branch: "feature/x", Base: m.Base}); err != nil {
		b.T.Fatal(err)
	}
	return m, dir
}

func clean(b *gittest.Box) string { return b.Git("status", "--porcelain") + b.Git("rev-parse", "HEAD") }

// Work in a submodule is committed on a branch of the main checkout's submodule, which stays when the worktree is
// removed; the superproject commits the new commit of the submodule.
func TestModule(t *testing.T) {
	b, _ := modular(t)
	before := clean(b)
	m, dir := inTree(b)
	b.Write(filepath.Join(dir, "libs/cli/main.txt"), "two\n")
	b.Write(filepath.Join(dir, "libs/cli/new.txt"), "new\n")
	made := gittest.Must(m.Committer().Commit(t.Context(), m.Dir(dir), git.CommitOptions{Message: "feat: two", Branch: "feature/x"}))(t)
	whole := gittest.Must(b.Repo.Committer().Commit(t.Context(), dir, git.CommitOptions{Message: "feat: two", Branch: "feature/x"}))(t)
	if got, want := b.Git("rev-parse", whole+":libs/cli"), made; got != want {
		t.Errorf("the superproject commits %s of the submodule, want %s", got, want)
	}
	if left := gittest.Must(b.Repo.Index().Status(t.Context(), dir))(t); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
	if err := b.Repo.Worktrees().Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := b.GitIn(b.Path("libs/cli"), "show", "feature/x:new.txt"); got != "new" {
		t.Errorf("the branch of the submodule has %q", got)
	}
	if left := gittest.Must(m.Worktrees().List(t.Context()))(t); len(left) > 0 {
		t.Errorf("worktrees of the submodule are left: %v", left)
	}
	if after := clean(b); after != before {
		t.Errorf("the main checkout is %q, was %q", after, before)
	}
}

// A snapshot treats the files of a submodule like those of the superproject, and restores them.
func TestSnapshotOfModule(t *testing.T) {
	b, _ := modular(t)
	_, dir := inTree(b)
	base := b.Git("rev-parse", "main")
	snap := gittest.Must(snapshot.New(b.Repo).Snapshot(t.Context(), dir))(t)
	defer snap.Close()
	if list := gittest.Must(snap.Changes(t.Context(), base))(t); len(list) > 0 {
		t.Errorf("got changes %v before there are any", list)
	}
	b.Write(filepath.Join(dir, "libs/cli/main.txt"), "two\n")
	b.Write(filepath.Join(dir, "libs/cli/sub/new.txt"), "new\n")
	b.Write(filepath.Join(dir, "a.txt"), "b\n")
	later := gittest.Must(snapshot.New(b.Repo).Snapshot(t.Context(), dir))(t)
	defer later.Close()
	var got []string
	for _, c := range gittest.Must(later.Changes(t.Context(), base))(t) {
		got = append(got, string(c.Kind)+" "+c.Path)
	}
	if got, want := strings.Join(got, ", "), "M a.txt, M libs/cli/main.txt, A libs/cli/sub/new.txt"; got != want || later.Tree == snap.Tree {
		t.Errorf("got changes %q, want %q", got, want)
	}
	if diff := gittest.Must(later.Diff(t.Context(), base, 1<<20))(t); !strings.Contains(diff, "+++ b/libs/cli/main.txt") || !strings.Contains(diff, "+two") {
		t.Errorf("got diff\n%s", diff)
	}
	if undone := gittest.Must(snap.Restore(t.Context(), ""))(t); len(undone) != 3 {
		t.Errorf("undone: %v", undone)
	}
	if got := b.Read(filepath.Join(dir, "libs/cli/main.txt")); got != "one\n" {
		t.Errorf("main.txt is %q after it was put back", got)
	}
	if left := gittest.Must(b.Repo.Index().Status(t.Context(), dir))(t); len(left) > 0 {
		t.Errorf("left over: %v", left)
	}
}

// A backup saves uncommitted files of the submodule under the same ref in the submodule's repository.
func TestBackupOfModule(t *testing.T) {
	b, _ := modular(t)
	_, dir := inTree(b)
	b.Write(filepath.Join(dir, "libs/cli/main.txt"), "precious\n")
	const ref = "refs/trellis/backup/x/1"
	gittest.Must(snapshot.NewBackups(b.Repo).Backup(t.Context(), dir, ref, "saved"))(t)
	if err := b.Repo.Worktrees().Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := b.GitIn(b.Path("libs/cli"), "show", ref+":main.txt"); got != "precious" {
		t.Errorf("saved is %q", got)
	}
	b.Git("rev-parse", "--verify", ref)
}

// Any other repository within the work tree, such as a submodule set up by hand, makes a backup fail: it would not be saved.
func TestBackupOfOtherModule(t *testing.T) {
	b, _ := modular(t)
	dir := b.Add("feature/x")
	b.GitIn(dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	b.Write(filepath.Join(dir, "libs/cli/main.txt"), "precious\n")
	_, err := snapshot.NewBackups(b.Repo).Backup(t.Context(), dir, "refs/trellis/backup/x/1", "saved")
	if nested := (*git.EmbeddedRepoError)(nil); !errors.As(err, &nested) {
		t.Errorf("got %v, want an EmbeddedRepoError", err)
	}
}

// A submodule that the main checkout does not have is fetched into the folder where git looks for it, and is not
// checked out in the main checkout. After that the network is not used.
func TestModuleIsFetched(t *testing.T) {
	b, origin := modular(t)
	b.Git("submodule", "--quiet", "deinit", "--all", "--force")
	if err := os.RemoveAll(b.Path(".git/modules")); err != nil {
		t.Fatal(err)
	}
	before := clean(b)
	_, dir := inTree(b)
	if got := b.Read(filepath.Join(dir, "libs/cli/main.txt")); got != "one\n" {
		t.Errorf("main.txt is %q", got)
	}
	if after := clean(b); after != before {
		t.Errorf("the main checkout is %q, was %q", after, before)
	}
	if err := os.RemoveAll(origin); err != nil {
		t.Fatal(err)
	}
	if err := b.Repo.Worktrees().Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	inTree(b)
	b.Git("submodule", "--quiet", "update", "--init") // finds all it needs in the folder
	if got := b.Read("libs/cli/main.txt"); got != "one\n" {
		t.Errorf("main.txt of the main checkout is %q", got)
	}
}

// Git's error is passed on if the submodule can't be fetched; a path that is not a submodule is ErrNotFound.
func TestNoModule(t *testing.T) {
	b, origin := modular(t)
	if _, err := b.Repo.Modules().Module(t.Context(), "main", "libs"); !errors.Is(err, git.ErrNotFound) {
		t.Errorf("got %v, want ErrNotFound", err)
	}
	b.Git("submodule", "--quiet", "deinit", "--all", "--force")
	if err := errors.Join(os.RemoveAll(b.Path(".git/modules")), os.RemoveAll(origin)); err != nil {
		t.Fatal(err)
	}
	_, err := b.Repo.Modules().Module(t.Context(), "main", "libs/cli")
	if failed := (*git.Error)(nil); !errors.As(err, &failed) || !strings.Contains(err.Error(), "does not appear to be a git repository") {
		t.Errorf("got %v", err)
	}
}

// Files in a submodule that is not checked out, which no status lists, are found whatever the format of the index.
func TestFilled(t *testing.T) {
	b, _ := modular(t)
	dir := b.Add("feature/x")
	filled := func(want ...string) {
		t.Helper()
		if got := gittest.Must(b.Repo.Index().PopulatedSubmodules(t.Context(), dir))(t); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	filled()
	b.Write(filepath.Join(dir, "libs/cli/mine.txt"), "mine\n")
	filled("libs/cli")
	if left := gittest.Must(b.Repo.Index().Status(t.Context(), dir))(t); len(left) > 0 {
		t.Errorf("git names %v, so Filled need not", left)
	}
	hide(b, b.GitIn(dir, "rev-parse", "--git-path", "index"))
	if got := b.GitIn(dir, "ls-files", "libs"); got != "libs/cli" {
		t.Fatalf("git reads %q of the index", got)
	}
	filled("libs/cli")
	b.GitIn(dir, "reset", "-q")
	b.GitIn(dir, "update-index", "--index-version=4")
	filled("libs/cli")
	b.GitIn(dir, "rm", "-q", "--cached", "libs/cli")
	filled()
	sha, conflict := b.GitIn(dir, "rev-parse", "HEAD"), exec.Command("git", "-C", dir, "update-index", "--index-info")
	conflict.Stdin = strings.NewReader("160000 " + sha + " 1\tlibs/cli\n160000 " + sha + " 2\tlibs/cli\n160000 " + sha + " 3\tlibs/cli\n")
	if out, err := conflict.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	filled("libs/cli") // the submodule is in conflict
}

// hide rewrites an index that ends with a.txt and libs/cli: a reader that searches for the end of the name a.txt finds another
// entry after it than git does, which uses the length that is stored before the name.
func hide(b *gittest.Box, file string) {
	const fixed, hash, modeAt = 62, 20, 24
	index := []byte(b.Read(file))
	name := bytes.Index(index, []byte("a.txt\x00"))
	next := name - fixed + 72
	end := next + 72
	if name < 0 || !bytes.HasPrefix(index[next+fixed:], []byte("libs/cli\x00")) {
		b.T.Fatalf("the index is laid out otherwise: %q", index)
	}
	for i := name + len("a.txt"); i < next+modeAt; i++ {
		index[i] = 'x'
	}
	extension := append([]byte("XXXX\x00\x00\x00\x30"), make([]byte, 48)...) // its first half is the rest of an entry z for such a reader
	copy(extension[20:], "\x00\x01z\x00")
	copy(extension[24:], "YYYY\x00\x00\x00\x18")
	b.Write(file, string(index[:end])+string(extension)+strings.Repeat("\x00", hash))
}
