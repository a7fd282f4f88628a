package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// modular is a repository with the submodule libs/cli, and where that comes from.
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

// inTree is a worktree on feature/x with the submodule in it.
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

// Work in a submodule is a commit on a branch of the main checkout's submodule, which the worktree's end does not take
// away; the superproject commits where it ended.
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

// A snapshot sees what is in the submodule as if it were the superproject's, and puts it back.
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

// A backup saves what is not committed in the submodule under the same name in the submodule's own repository.
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

// Other repositories within the work tree are not known, and stop a backup: nothing of them would be saved.
func TestBackupOfOtherModule(t *testing.T) {
	b, _ := modular(t)
	dir := b.Add("feature/x")
	b.GitIn(dir, "-c", "protocol.file.allow=always", "submodule", "--quiet", "update", "--init")
	b.Write(filepath.Join(dir, "libs/cli/main.txt"), "precious\n")
	_, err := snapshot.NewBackups(b.Repo).Backup(t.Context(), dir, "refs/trellis/backup/x/1", "saved")
	if nested := (*git.NestedError)(nil); !errors.As(err, &nested) {
		t.Errorf("got %v, want a NestedError", err)
	}
}

// A submodule that the main checkout does not have is fetched into the place where git looks for it, and not checked
// out there. Once it is here the network is not asked.
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
	b.Git("submodule", "--quiet", "update", "--init") // which finds all it needs
	if got := b.Read("libs/cli/main.txt"); got != "one\n" {
		t.Errorf("main.txt of the main checkout is %q", got)
	}
}

// What git says is passed on when there is nothing to fetch from; a path that is no submodule is said to be none.
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
