package git_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// The lock of a running git process is not removed, however old it is; it is removed once the process is dead.
func TestLockOfALivingGit(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	dir := b.Add("feature/x")
	fifo, reached := filepath.Join(b.Home, "fifo"), filepath.Join(b.Home, "reached")
	if err := exec.Command("mkfifo", fifo, reached).Run(); err != nil {
		t.Skipf("no mkfifo: %v", err)
	}
	b.Hook("pre-commit", "test -z \"$HOLD\" && exit 0\necho >"+reached+"\nread x <"+fifo)
	b.Write(filepath.Join(dir, "a.txt"), "theirs\n")
	holder := exec.Command("git", "commit", "-qam", "theirs")
	holder.Dir, holder.Env = dir, append(b.Env, "HOLD=1")
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(reached); err != nil { // blocks until the hook runs
		t.Fatal(err)
	}
	lock := filepath.Join(b.Dir, ".git", "worktrees", "x", "index.lock")
	ctx, end := context.WithTimeoutCause(t.Context(), 5*time.Second, errors.New("long enough"))
	defer end()
	if _, err := b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{Message: "ours", Branch: "feature/x"}); err == nil {
		t.Error("it committed beside a living git")
	}
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("the lock was taken away: %v", err)
	}
	if err := errors.Join(holder.Process.Kill(), unblock(fifo)); err != nil {
		t.Fatal(err)
	}
	_ = holder.Wait() // killed
	if err := b.Repo.Unlock(t.Context(), dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(lock); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the lock of a dead git stands: %v", err)
	}
}

// unblock lets the hook, which outlives its git process, continue.
func unblock(fifo string) error { return os.WriteFile(fifo, []byte("\n"), 0o600) }

// A branch can be deleted although a git process that was killed while deleting it left a file in the way.
func TestLeftOfADeadGit(t *testing.T) {
	t.Parallel()
	for _, left := range []string{"packed-refs.new", "packed-refs.lock", "refs/heads/feature/x.lock"} {
		t.Run(left, func(t *testing.T) {
			t.Parallel()
			b := gittest.New(t)
			b.Git("branch", "feature/x")
			b.Git("pack-refs", "--all")
			b.Write(".git/"+left, "")
			if err := b.Repo.Refs().DeleteBranch(t.Context(), "feature/x"); err != nil {
				t.Fatal(err)
			}
			if got := b.Git("branch", "--list", "feature/x"); got != "" {
				t.Errorf("there is still %q", got)
			}
		})
	}
}

// A worktree whose .git file was removed, by an agent or by a git process that was killed while it removed the
// worktree, can be saved, added again and removed.
func TestWorktreeWithoutLink(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	dir := b.Add("feature/x")
	b.Write(filepath.Join(dir, "new.txt"), "new\n")
	unlink := func() {
		if err := os.Remove(filepath.Join(dir, ".git")); err != nil {
			t.Fatal(err)
		}
	}
	unlink()
	if _, err := snapshot.NewBackups(b.Repo).Backup(t.Context(), dir, "refs/trellis/backup/x/1", "saved"); err != nil {
		t.Fatal(err)
	}
	if got := b.Git("show", "refs/trellis/backup/x/1:new.txt"); got != "new" {
		t.Errorf("saved is %q", got)
	}
	unlink()
	if err := b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: dir, Branch: "feature/x", Base: b.Git("rev-parse", "main")}); err != nil {
		t.Fatal(err)
	}
	if got := b.Read(filepath.Join(dir, "new.txt")); got != "new\n" {
		t.Errorf("the worktree holds %q", got)
	}
	unlink()
	if err := b.Repo.Worktrees().Remove(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	if got := b.Git("worktree", "list", "--porcelain"); strings.Contains(got, "feature/x") {
		t.Errorf("there is still %s", got)
	}
}
