package git_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

func worktreeAt(t *testing.T, b *gittest.Box, path string) git.Worktree {
	t.Helper()
	for _, w := range gittest.Must(b.Repo.Worktrees().List(t.Context()))(t) {
		if w.Path == path {
			return w
		}
	}
	t.Fatalf("%s is not a worktree", path)
	return git.Worktree{}
}

func TestLocked(t *testing.T) {
	b := gittest.New(t)
	dir := b.Add("one")
	if why, locked := worktreeAt(t, b, dir).Locked(); locked {
		t.Errorf("a new one is locked: %q", why)
	}
	b.Git("worktree", "lock", "--reason", "on a stick", dir)
	if why, locked := worktreeAt(t, b, dir).Locked(); !locked || why != "on a stick" {
		t.Errorf("got %q, %v", why, locked)
	}
	b.Git("worktree", "unlock", dir)
	if err := os.Mkdir(filepath.Join(b.Dir, ".git", "worktrees", "one", "locked"), 0o755); err != nil {
		t.Fatal(err)
	}
	if why, locked := worktreeAt(t, b, dir).Locked(); !locked || why == "" {
		t.Errorf("one whose lock can't be read: got %q, %v", why, locked)
	}
}

// A worktree whose removal was cut off after its .git file was removed can be saved once it is relinked.
func TestRelink(t *testing.T) {
	b := gittest.New(t)
	dir := b.Add("one")
	b.Write(filepath.Join(dir, "new.txt"), "new\n")
	if err := b.Repo.Worktrees().Relink(worktreeAt(t, b, dir)); err != nil {
		t.Errorf("of a whole one: %v", err)
	}
	if err := os.Remove(filepath.Join(dir, ".git")); err != nil {
		t.Fatal(err)
	}
	if err := b.Repo.Worktrees().Relink(worktreeAt(t, b, dir)); err != nil {
		t.Fatal(err)
	}
	if _, err := snapshot.NewBackups(b.Repo).Backup(t.Context(), dir, snapshot.BackupRefs+"x/1", "saved"); err != nil {
		t.Fatal(err)
	}
	if got := b.Git("show", snapshot.BackupRefs+"x/1:new.txt"); got != "new" {
		t.Errorf("got %q", got)
	}
}

func TestRemoveBranch(t *testing.T) {
	for _, packed := range []bool{false, true} {
		b := gittest.New(t)
		tip := b.Git("rev-parse", "main")
		b.Git("branch", "a/work")
		b.Git("branch", "a/work2")
		for _, name := range []string{"a/work", "a/work2"} {
			b.Git("config", "branch."+name+".remote", "origin")
		}
		if packed {
			b.Git("pack-refs", "--all")
		}
		var moved *git.MovedError
		if err := b.Repo.Refs().RemoveBranch(t.Context(), "a/work", "0123456789012345678901234567890123456789"); !errors.As(err, &moved) || moved.Now != tip {
			t.Errorf("of one that ends elsewhere: got %v", err)
		}
		for range 2 {
			if err := b.Repo.Refs().RemoveBranch(t.Context(), "a/work", tip); err != nil {
				t.Fatal(err)
			}
		}
		if got, want := b.Git("for-each-ref", "--format=%(refname:short)", "refs/heads"), "a/work2\nmain"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, want := b.Git("config", "--local", "--name-only", "--get-regexp", "^branch"), "branch.a/work2.remote"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Commits of a repository in a worktree would be lost with it unless a remote has them, whatever ref or reflog names them.
func TestUnsaved(t *testing.T) {
	b := gittest.New(t)
	inner := b.Path("inner")
	for _, c := range []struct {
		do   []string
		want bool
	}{
		{[]string{"init", "-q", "-b", "main", inner}, false},
		{[]string{"-C", inner, "commit", "-q", "--allow-empty", "-m", "one"}, true},
		{[]string{"-C", inner, "update-ref", "refs/remotes/origin/main", "HEAD"}, false},
		{[]string{"-C", inner, "checkout", "-q", "--detach"}, false},
		{[]string{"-C", inner, "commit", "-q", "--allow-empty", "-m", "two"}, true},
		{[]string{"-C", inner, "branch", "side"}, true},
		{[]string{"-C", inner, "checkout", "-q", "main"}, true},
		{[]string{"-C", inner, "tag", "mine", "side"}, true},
		{[]string{"-C", inner, "branch", "-q", "-D", "side"}, true},
		{[]string{"-C", inner, "checkout", "-q", "mine"}, true},
		{[]string{"clone", "-q", inner, b.Path("theirs")}, true},
		{[]string{"-C", inner, "checkout", "-q", "--orphan", "empty"}, true}, // HEAD is unborn, and its reflog can't be read
		{[]string{"-C", inner, "checkout", "-q", "mine"}, true},
		{[]string{"-C", inner, "reflog", "expire", "--expire=all", "--all"}, false}, // named by a tag alone, as if a clone had brought the tag
		{[]string{"-C", inner, "tag", "-d", "mine"}, true},
	} {
		b.Git(c.do...)
		if got := gittest.Must(b.Repo.Worktrees().HasUnsavedWork(t.Context(), b.Dir, "inner"))(t); got != c.want {
			t.Errorf("after %v: got %v", c.do, got)
		}
	}
}

// A commit that was fetched by its hash is at the remote, though no ref says so, as in a shallow submodule on an older commit.
func TestUnsavedThatWasFetched(t *testing.T) {
	b := gittest.New(t)
	b.Git("config", "uploadpack.allowAnySHA1InWant", "true")
	old := b.Git("rev-parse", "HEAD")
	b.Git("commit", "-q", "--allow-empty", "-m", "newer")
	tree := b.Tree("tree")
	inner := filepath.Join(tree, "inner")
	b.Git("clone", "-q", "--depth", "1", "file://"+b.Dir, inner)
	for _, c := range []struct {
		do   []string
		want bool
	}{
		{[]string{"fetch", "-q", "--depth", "1", "origin", old}, false},
		{[]string{"checkout", "-q", old}, false},
		{[]string{"commit", "-q", "--allow-empty", "-m", "made here"}, true},
		{[]string{"checkout", "-q", "--detach", "HEAD"}, true},
	} {
		b.GitIn(inner, c.do...)
		if got := gittest.Must(b.Repo.Worktrees().HasUnsavedWork(t.Context(), tree, "inner"))(t); got != c.want {
			t.Errorf("after %v: got %v", c.do, got)
		}
	}
}

// The repository of a nested submodule is lost with the worktree if it is stored with the worktree of the outer submodule.
func TestUnsavedInASubmodule(t *testing.T) {
	b := gittest.New(t)
	b.Write(".git/modules/lib/worktrees/x/commondir", "../..\n")
	for common, want := range map[string]bool{"lib/worktrees/x/modules/deep": true, "worktrees/deep": false} {
		tree := b.Tree(filepath.Base(filepath.Dir(common)))
		b.Mkdir(filepath.Dir(b.Path(".git/modules/" + common)))
		b.Git("init", "-q", "--separate-git-dir", b.Path(".git/modules/"+common), filepath.Join(tree, "inner"))
		b.GitIn(filepath.Join(tree, "inner"), "commit", "-q", "--allow-empty", "-m", "one")
		if got := gittest.Must(b.Repo.Worktrees().HasUnsavedWork(t.Context(), tree, "inner"))(t); got != want {
			t.Errorf("in modules/%s: got %v", common, got)
		}
	}
}

// A backup is never taken for older than it is, even if its commit is much older.
func TestBackups(t *testing.T) {
	b := gittest.New(t)
	b.Env = append(b.Env, "GIT_COMMITTER_DATE=2001-01-01T00:00:00Z")
	b.Git("commit", "-q", "--allow-empty", "-m", "old work")
	tip := b.Git("rev-parse", "HEAD")
	b.Git("update-ref", snapshot.BackupRefs+"02-01-a/1-branch", tip)
	b.Git("update-ref", snapshot.BackupRefs+"02-01-b/1", tip)
	for _, packed := range []bool{false, true} {
		if packed {
			b.Git("pack-refs", "--all")
		}
		list := gittest.Must(snapshot.NewBackups(b.Repo).List(t.Context(), ""))(t)
		if len(list) != 2 || list[0].Ref != snapshot.BackupRefs+"02-01-a/1-branch" || list[0].Commit != tip || list[0].Subject != "old work" {
			t.Fatalf("got %+v", list)
		}
		if age := time.Since(list[0].At); age > time.Hour {
			t.Errorf("packed %v: it is said to be %v old", packed, age)
		}
	}
	list := gittest.Must(snapshot.NewBackups(b.Repo).List(t.Context(), "02-01-b"))(t)
	if len(list) != 1 || list[0].Ref != snapshot.BackupRefs+"02-01-b/1" {
		t.Fatalf("got %+v", list)
	}
	if n := gittest.Must(b.Repo.History().CountUnreferenced(t.Context(), tip))(t); n != 0 {
		t.Errorf("got %d commits that a branch has as well", n)
	}
	b.Git("reset", "-q", "--hard", "HEAD~1")
	if n := gittest.Must(b.Repo.History().CountUnreferenced(t.Context(), tip))(t); n != 1 {
		t.Errorf("got %d commits, want 1", n)
	}
	if err := snapshot.NewBackups(b.Repo).DropBackup(t.Context(), list[0]); err != nil {
		t.Fatal(err)
	}
	if err := snapshot.NewBackups(b.Repo).DropBackup(t.Context(), snapshot.Backup{Ref: "refs/heads/main", Commit: tip}); err == nil {
		t.Error("a branch was taken for a backup")
	}
	if got := gittest.Must(snapshot.NewBackups(b.Repo).List(t.Context(), "02-01-b"))(t); len(got) != 0 {
		t.Errorf("got %+v", got)
	}
}

func TestFetch(t *testing.T) {
	b := gittest.New(t)
	far := b.Path("../far")
	b.Git("clone", "-q", "--bare", b.Dir, far)
	b.Git("remote", "add", "origin", far)
	if err := b.Repo.Remotes().Fetch(t.Context(), "origin", 15*time.Minute); err != nil {
		t.Fatal(err)
	}
	if got := gittest.Must(b.Repo.Remotes().Remotes(t.Context(), "main"))(t); len(got) != 1 {
		t.Errorf("got %v", got)
	}
	if err := b.Repo.Remotes().Fetch(t.Context(), "nowhere", 15*time.Minute); err == nil {
		t.Error("got none from a remote that is not there")
	}
}
