package taskref_test

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// addTree makes the task's worktree at its place.
func (m *machine) addTree() {
	m.Helper()
	err := m.remote.Repo.Worktrees().Add(m.Context(), git.NewWorktree{Path: m.tree(), Branch: "feature/greet", Base: m.Git("rev-parse", "main"), Owner: task})
	if err != nil {
		m.Fatal(err)
	}
}

func (m *machine) bringWork(s string) {
	m.Helper()
	if err := m.tryWork(); err != nil {
		m.Fatalf("%s: %v", s, err)
	}
}

func (m *machine) tryWork() error {
	m.Helper()
	return m.remote.ImportWork(m.Context(), m.fetch(), m.tree())
}

// content returns the mode and content of all files in dir by path, or the target of a link; .git is left out.
func content(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		rel, relErr := filepath.Rel(dir, path)
		if err != nil || relErr != nil || d.IsDir() || rel == ".git" {
			return errors.Join(err, relErr)
		}
		if d.Type()&fs.ModeSymlink != 0 {
			files[rel], err = os.Readlink(path)
			return err
		}
		data, err := os.ReadFile(path)
		st, statErr := d.Info()
		if err := errors.Join(err, statErr); err != nil {
			return err
		}
		files[rel] = st.Mode().String()[:4] + strings.ReplaceAll(string(data), "\r\n", "\n") // git makes \r\n by .gitattributes
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// same fails the test unless two folders have the same files, except for those that git ignores.
func same(t testing.TB, got, want string) {
	t.Helper()
	a, b := content(t, got), content(t, want)
	for _, files := range []map[string]string{a, b} {
		maps.DeleteFunc(files, func(name, _ string) bool {
			return strings.HasPrefix(name, "ignored/") || strings.HasSuffix(name, ".log")
		})
	}
	if !maps.Equal(a, b) {
		t.Errorf("%s holds %q, want %q", got, slices.Sorted(maps.Keys(a)), slices.Sorted(maps.Keys(b)))
		for name := range a {
			if a[name] != b[name] {
				t.Errorf("%s: got %q, want %q", name, a[name], b[name])
			}
		}
	}
}

// withWork returns two machines; the first has work in every state that work can be in.
func withWork(t *testing.T) (a, b *machine) {
	n := newNet(t)
	a, b = n.machine("a"), n.machine("b")
	a.create()
	a.addTree()
	a.Spread(a.tree())
	a.save("")
	b.bring(b.fetch())
	return a, b
}

func (m *machine) backups() string {
	return m.Git("for-each-ref", "--format=%(refname)", "refs/trellis/backup/")
}

// Staged, unstaged, untracked and deleted files are brought with the branch, and none of them is committed.
func TestWorkComesAlong(t *testing.T) {
	t.Parallel()
	a, b := withWork(t)
	b.bringWork("first")
	same(t, b.tree(), a.tree())
	if got, want := b.GitIn(b.tree(), "rev-parse", "HEAD", "feature/greet"), a.GitIn(a.tree(), "rev-parse", "HEAD", "HEAD"); got != want {
		t.Errorf("HEAD and branch are %s, want %s", got, want)
	}
	if _, err := os.Lstat(filepath.Join(b.tree(), "ignored", "x")); err == nil {
		t.Error("an ignored file came along")
	}
	if got := b.GitIn(b.tree(), "diff", "--cached", "--name-only"); got != "" {
		t.Errorf("staged: %s", got)
	}
	all, err := b.remote.Repo.Worktrees().List(t.Context())
	if err != nil || len(all) != 1 || all[0].Owner() != task || !all[0].At(b.tree()) {
		t.Errorf("worktrees: %+v, %v", all, err)
	}
	if got := b.backups(); got != "" {
		t.Errorf("there was nothing to keep: %s", got)
	}
	before := b.Git("for-each-ref")
	b.bringWork("again")
	if got := b.Git("for-each-ref"); got != before {
		t.Errorf("a second call changed refs from\n%s\nto\n%s", before, got)
	}

	b.Write(filepath.Join(b.tree(), "keep.txt"), "of b\n")
	b.GitIn(b.tree(), "commit", "-qam", "of b")
	b.Write(filepath.Join(b.tree(), "more.txt"), "more\n")
	b.save(b.fetch().Commit)
	a.bring(a.fetch())
	a.bringWork("back")
	same(t, a.tree(), b.tree())
	if got := a.backups(); got != "" {
		t.Errorf("what was saved before is kept once more: %s", got)
	}
}

// Work on a machine that is in no state is kept as a backup before the work of another machine replaces it.
func TestOlderWorkIsKept(t *testing.T) {
	t.Parallel()
	a, b := withWork(t)
	b.bringWork("first")
	b.Write(filepath.Join(b.tree(), "mine.txt"), "mine\n")
	b.Write(filepath.Join(b.tree(), "keep.txt"), "mine\n")
	b.GitIn(b.tree(), "commit", "-qm", "mine", "keep.txt")
	mine := b.GitIn(b.tree(), "rev-parse", "HEAD")
	b.bringWork("over it")
	same(t, b.tree(), a.tree())
	refs := strings.Fields(b.backups())
	i := slices.IndexFunc(refs, func(ref string) bool { return strings.Contains(ref, "/work-") })
	if i < 0 {
		t.Fatalf("kept: %q", refs)
	}
	if got := b.Git("show", refs[i]+":mine.txt"); got != "mine" {
		t.Errorf("kept: %q", got)
	}
	b.Git("merge-base", "--is-ancestor", mine, refs[i])
}

// If the branch exists but is not checked out, it is moved after a backup was made.
func TestBranchIsElsewhere(t *testing.T) {
	t.Parallel()
	a, b := withWork(t)
	other := b.Git("commit-tree", "-m", "other", "HEAD^{tree}")
	b.Git("branch", "feature/greet", other)
	b.bringWork("over a branch")
	same(t, b.tree(), a.tree())
	refs := strings.Fields(b.backups())
	if len(refs) != 1 || b.Git("rev-parse", refs[0]) != other {
		t.Errorf("kept: %q, want %s", refs, other)
	}
}

// A branch that is checked out in the main checkout, or in somebody's worktree, is not moved.
func TestBranchIsTaken(t *testing.T) {
	t.Parallel()
	_, b := withWork(t)
	b.Git("checkout", "-q", "-b", "feature/greet")
	tip := b.Git("rev-parse", "feature/greet")
	if err := b.tryWork(); !errors.As(err, new(*git.BranchError)) {
		t.Errorf("the main checkout is on it: %v", err)
	}
	b.Git("checkout", "-q", "main")
	b.Git("worktree", "add", "-q", filepath.Join(b.root, "theirs"), "feature/greet")
	if err := b.tryWork(); !errors.As(err, new(*git.BranchError)) {
		t.Errorf("somebody's worktree is on it: %v", err)
	}
	if got := b.Git("rev-parse", "feature/greet"); got != tip {
		t.Errorf("it was moved from %s to %s", tip, got)
	}
	b.Git("worktree", "remove", filepath.Join(b.root, "theirs"))
	b.Write(filepath.Join(b.tree(), "theirs.txt"), "theirs\n")
	if err := b.tryWork(); err == nil {
		t.Error("a folder of somebody else's is taken")
	}
	if got := b.Read(filepath.Join(b.tree(), "theirs.txt")); got != "theirs\n" {
		t.Errorf("it has %q now", got)
	}
}

// Without a worktree, the branch is saved; without a branch, the work stays as it was saved.
func TestWorkWithoutWorktree(t *testing.T) {
	t.Parallel()
	a, b := withWork(t)
	was := b.fetch()
	got := b.save(was.Commit)
	if got.Work != was.Work || got.Head != was.Head || got.Branch != was.Branch {
		t.Errorf("a mirror saved %+v, want the work of %+v", got, was)
	}
	a.GitIn(a.tree(), "add", "-A")
	a.GitIn(a.tree(), "commit", "-qm", "all")
	a.Git("worktree", "remove", "--force", a.tree())
	s := a.save(a.fetch().Commit)
	if tip := a.Git("rev-parse", "feature/greet"); s.Head != tip || s.Work != tip {
		t.Errorf("saved %+v, want work and head at %s", s, tip)
	}
	b.bringWork("the branch alone")
	if got := b.GitIn(b.tree(), "status", "--porcelain"); got != "" {
		t.Errorf("it is not clean: %s", got)
	}
}

// Excluded files stay on their machine even if git does not ignore them, and work is saved even if an agent left its branch.
func TestExcludedAndDetached(t *testing.T) {
	t.Parallel()
	a, b := withWork(t)
	a.remote.Exclude = []string{".env"}
	a.GitIn(a.tree(), "checkout", "-q", "--detach")
	a.GitIn(a.tree(), "commit", "-qm", "apart", "--allow-empty")
	a.save(a.fetch().Commit)
	b.bring(b.fetch())
	b.bringWork("of a detached worktree")
	if _, err := os.Lstat(filepath.Join(b.tree(), ".env")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf(".env came along: %v", err)
	}
	if got, want := b.GitIn(b.tree(), "log", "-1", "--format=%s %D"), "apart HEAD -> feature/greet"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	b.Write(filepath.Join(b.tree(), ".env"), a.Read(filepath.Join(a.tree(), ".env")))
	same(t, b.tree(), a.tree())
}
