package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// isRight checks that dir is a clean worktree of feature/x at main, and the only one.
func isRight(b *gittest.Box, dir string) {
	b.T.Helper()
	if got := b.GitIn(dir, "rev-parse", "--abbrev-ref", "HEAD"); got != "feature/x" {
		b.T.Errorf("%s is checked out", got)
	}
	if got := b.GitIn(dir, "rev-parse", "HEAD"); got != b.Git("rev-parse", "main") {
		b.T.Errorf("HEAD is %s", got)
	}
	if got := b.GitIn(dir, "status", "--porcelain"); got != "" {
		b.T.Errorf("the worktree is not clean: %s", got)
	}
	if got := b.Git("worktree", "list", "--porcelain"); strings.Count(got, "worktree ") != 2 || strings.Contains(got, "locked") || strings.Contains(got, "prunable") {
		b.T.Errorf("worktrees:\n%s", got)
	}
	if out, err := b.Try(b.Dir, "fsck", "--no-dangling"); err != nil {
		b.T.Errorf("fsck: %v %s", err, out)
	}
}

// The branch of a worktree is the same that git reports, however HEAD refers to it.
func TestBranchesOfWorktrees(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		base := b.Git("rev-parse", "main")
		b.Git("branch", "feature/real", base)
		b.Git("symbolic-ref", "refs/heads/alias", "refs/heads/feature/real")
		b.Git("worktree", "add", "-q", "--no-track", "-b", "feature/own", b.Tree("own"), base)
		b.Git("worktree", "add", "-q", "--detach", b.Tree("detached"), base)
		b.Git("worktree", "add", "-q", "--detach", b.Tree("linked"), base)
		b.GitIn(b.Tree("linked"), "symbolic-ref", "HEAD", "refs/heads/alias")
		b.Git("worktree", "add", "-q", "--detach", b.Tree("unborn"), base)
		b.GitIn(b.Tree("unborn"), "symbolic-ref", "HEAD", "refs/heads/unborn")
		want := map[string]string{"own": "feature/own", "detached": "", "linked": "feature/real", "unborn": "unborn"}
		for _, w := range gittest.Must(b.Repo.Worktrees().List(t.Context()))(t) {
			if branch, ours := want[filepath.Base(w.Path)]; ours && w.Branch != branch {
				t.Errorf("%s: got %q, want %q", filepath.Base(w.Path), w.Branch, branch)
			}
			delete(want, filepath.Base(w.Path))
		}
		if len(want) > 0 {
			t.Errorf("not listed: %v", want)
		}
	})
}

func TestAddWorktree(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx, base := t.Context(), b.Git("rev-parse", "main")
		if b.Repo.Main == b.Dir && len(gittest.Must(b.Repo.Worktrees().List(ctx))(t)) > 0 {
			b.Git("worktree", "remove", "--force", b.Tree("first"))
		}
		b.Write("untracked.txt", "stays here")
		before := b.Git("status", "--porcelain=v2", "--branch")
		dir := b.Tree("feature/x")
		for range 2 { // the second time there is nothing to do
			if err := b.Repo.Worktrees().Add(ctx, git.NewWorktree{Path: dir, Branch: "feature/x", Base: base}); err != nil {
				t.Fatal(err)
			}
			isRight(b, dir)
		}
		if got := b.Git("status", "--porcelain=v2", "--branch"); got != before {
			t.Errorf("the main checkout changed: %s", got)
		}
		if got := b.Read(filepath.Join(b.Repo.Common, "config")); strings.Contains(got, "[branch") {
			t.Errorf("the branch tracks something: %s", got)
		}
		list := gittest.Must(b.Repo.Worktrees().List(ctx))(t)
		if len(list) != 1 || list[0].Path != dir || list[0].Branch != "feature/x" || list[0].Gone {
			t.Errorf("Worktrees: got %+v", list)
		}

		b.Write(filepath.Join(dir, "work.txt"), "w")
		for range 2 {
			if err := b.Repo.Worktrees().Remove(ctx, dir); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				t.Error("the worktree is there")
			}
		}
		if gittest.Must(b.Repo.Refs().Branch(ctx, "feature/x"))(t) != base {
			t.Error("the branch is gone")
		}
	})
}

// Add repairs what a call that was killed half-way has left, or what a person has done meanwhile.
func TestAddWorktreeRepairs(t *testing.T) {
	admin := func(b *gittest.Box) string { return b.Path(".git/worktrees/x") }
	initializing := func(b *gittest.Box) { b.Write(filepath.Join(admin(b), "locked"), "initializing\n") }
	for name, spoil := range map[string]func(b *gittest.Box, dir string){
		"branch without worktree": func(b *gittest.Box, dir string) { b.Git("branch", "--no-track", "feature/x", "main") },
		"old branch without commits of its own": func(b *gittest.Box, dir string) {
			b.Git("branch", "--no-track", "feature/x", "main")
			b.Git("commit", "-q", "--allow-empty", "-m", "main goes on")
		},
		"folder removed": func(b *gittest.Box, dir string) { b.Add("feature/x"); os.RemoveAll(dir) },
		"empty folder":   func(b *gittest.Box, dir string) { b.Mkdir(dir) },
		"folder emptied": func(b *gittest.Box, dir string) {
			b.Add("feature/x")
			os.RemoveAll(dir)
			b.Mkdir(dir)
			initializing(b)
		},
		"killed while the files are written": func(b *gittest.Box, dir string) {
			b.Add("feature/x")
			initializing(b)
			os.Remove(filepath.Join(admin(b), "index"))
			os.Remove(filepath.Join(dir, "a.txt"))
			b.Write(filepath.Join(admin(b), "index.lock"), "")
		},
		"killed before .git is written": func(b *gittest.Box, dir string) {
			b.Add("feature/x")
			initializing(b)
			os.RemoveAll(dir)
			b.Write(filepath.Join(dir, ".git"), "")
		},
		"killed before HEAD": func(b *gittest.Box, dir string) {
			b.Add("feature/x")
			initializing(b)
			os.Remove(filepath.Join(admin(b), "index"))
			os.Remove(filepath.Join(admin(b), "HEAD"))
			os.Remove(filepath.Join(dir, "a.txt"))
		},
		"killed before the folder is named": func(b *gittest.Box, dir string) {
			initializing(b)
			old := time.Now().Add(-time.Hour)
			os.Chtimes(filepath.Join(admin(b), "locked"), old, old)
		},
		"a dead process's lock on the branch": func(b *gittest.Box, dir string) { b.Write(".git/refs/heads/feature/x.lock", "") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gittest.New(t)
			dir := b.Tree("feature/x")
			spoil(b, dir)
			if err := b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: dir, Branch: "feature/x", Base: b.Git("rev-parse", "main")}); err != nil {
				t.Fatal(err)
			}
			isRight(b, dir)
			if list, _ := os.ReadDir(b.Path(".git/worktrees")); len(list) != 1 {
				t.Errorf("left behind: %v", list)
			}
		})
	}
}

// A git process that was killed right after it began to add a worktree leaves its git directory empty, or with only index.lock
// in it. The directory is removed when a worktree is added or removed, unless it may still be in use.
func TestLeftByAKilledWorktreeAdd(t *testing.T) {
	b := gittest.New(t)
	kept := map[string]bool{}
	leave := func(name string, keep bool, age time.Duration, files ...string) string {
		dir := b.Path(".git/worktrees/" + name)
		b.Mkdir(dir)
		at := time.Now().Add(-age)
		for _, file := range files {
			b.Write(filepath.Join(dir, file), "")
			if err := os.Chtimes(filepath.Join(dir, file), at, at); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chtimes(dir, at, at); err != nil {
			t.Fatal(err)
		}
		kept[name] = keep
		return dir
	}
	again := func() {
		leave("empty", false, time.Hour)
		leave("locked-index", false, time.Hour, "index.lock")
	}
	again()
	leave("young", true, time.Second, "index.lock")
	leave("young-and-empty", true, time.Second)
	leave("more", true, time.Hour, "index.lock", "ORIG_HEAD")
	held, err := os.Open(filepath.Join(leave("held", true, time.Hour, "index.lock"), "index.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	dir := b.Add("feature/x")
	for _, after := range []string{"made", "removed"} {
		for name, keep := range kept {
			if _, err := os.Stat(b.Path(".git/worktrees/" + name)); (err == nil) != keep {
				t.Errorf("%s, after a worktree was %s: got %v, want it kept: %v", name, after, err, keep)
			}
		}
		if again(); after == "made" {
			if err := b.Repo.Worktrees().Remove(t.Context(), dir); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAddWorktreeRefuses(t *testing.T) {
	b := gittest.New(t)
	ctx, base, dir := t.Context(), b.Git("rev-parse", "main"), b.Tree("feature/x")
	add := func(path, branch string, adopt bool) error {
		return b.Repo.Worktrees().Add(ctx, git.NewWorktree{Path: path, Branch: branch, Base: base, Adopt: adopt})
	}
	for _, name := range []string{"-x", "a..b", "feature/x.lock", ""} {
		if add(dir, name, false) == nil {
			t.Errorf("branch name %q is taken", name)
		}
	}
	b.Git("checkout", "-q", "-b", "feature/x")
	b.Git("commit", "-q", "--allow-empty", "-m", "someone's work")
	tip := b.Git("rev-parse", "HEAD")
	b.Git("checkout", "-q", "main")

	var branch *git.BranchError
	if err := add(dir, "feature/x", false); !errors.As(err, &branch) || branch.Tip != tip {
		t.Errorf("got %v, want the branch's tip", err)
	}
	if err := add(dir, "main", false); !errors.As(err, &branch) || branch.Worktree != b.Dir {
		t.Errorf("branch of the main checkout: got %v", err)
	}
	var path *git.PathError
	b.Write(filepath.Join(dir, "mine.txt"), "precious")
	if err := add(dir, "feature/new", false); !errors.As(err, &path) || path.Path != dir {
		t.Errorf("a folder with something in it: got %v", err)
	}
	if err := add(filepath.Join(dir, "mine.txt"), "feature/new", false); !errors.As(err, &path) {
		t.Errorf("a file: got %v", err)
	}
	if b.Read(filepath.Join(dir, "mine.txt")) != "precious" || gittest.Must(b.Repo.Refs().Branch(ctx, "feature/new"))(t) != "" {
		t.Error("something was touched")
	}
	os.RemoveAll(dir)
	if err := add(dir, "feature/x", true); err != nil {
		t.Fatalf("adopting: %v", err)
	}
	if got := b.GitIn(dir, "rev-parse", "HEAD"); got != tip {
		t.Errorf("adopted at %s", got)
	}
	if err := add(b.Tree("other"), "feature/x", true); !errors.As(err, &branch) || branch.Worktree != dir {
		t.Errorf("branch of another worktree: got %v", err)
	}
	if err := add(dir, "feature/y", false); !errors.As(err, &path) {
		t.Errorf("worktree of another branch: got %v", err)
	}
	os.RemoveAll(dir)
	if err := add(b.Tree("other"), "feature/x", true); !errors.As(err, &branch) || !strings.Contains(err.Error(), "git worktree prune") {
		t.Errorf("branch of a worktree that is gone: got %v", err)
	}
	b.Git("worktree", "prune")
	if err := add(b.Tree("other"), "feature/x", true); err != nil {
		t.Errorf("after prune: %v", err)
	}
	if err := b.Repo.Worktrees().Remove(ctx, b.Path("sub")); err != nil {
		t.Errorf("removing what is not there: %v", err)
	}
	if err := b.Repo.Worktrees().Remove(ctx, b.Dir); !errors.Is(err, git.ErrNoWorktree) {
		t.Errorf("removing the main checkout: got %v", err)
	}
}

// The error for a worktree that git has lost names the command that repairs it or, if git has no record of it, moves it away.
func TestWorktreesThatGitLost(t *testing.T) {
	for name, c := range map[string]struct {
		lose   func(b *gittest.Box, dir string) (now string)
		repair bool
	}{
		"moved without git":  {func(b *gittest.Box, dir string) string { return away(b, dir) }, true},
		"moved with its own": {func(b *gittest.Box, dir string) string { moveMain(b); return away(b, dir) }, true},
		"repository moved":   {func(b *gittest.Box, dir string) string { moveMain(b); return dir }, true},
		"git's folder gone": {func(b *gittest.Box, dir string) string {
			if err := os.RemoveAll(b.Path(".git/worktrees")); err != nil {
				b.T.Fatal(err)
			}
			return dir
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := gittest.New(t)
			n := git.NewWorktree{Path: b.Tree("feature/x"), Branch: "feature/x", Base: b.Git("rev-parse", "main"), Owner: "02-01-x"}
			if err := b.Repo.Worktrees().Add(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			b.Write(filepath.Join(n.Path, "mine.txt"), "precious")
			n.Path = c.lose(b, n.Path)
			there, lost := b.Repo.Worktrees().Resumable(t.Context(), n.Path)
			err := b.Repo.Worktrees().Add(t.Context(), n)
			for _, err := range []error{lost, err} {
				if err == nil || there || strings.Contains(err.Error(), "`git worktree repair "+n.Path+"`") != c.repair || strings.Contains(err.Error(), "`mv "+n.Path+" ") == c.repair {
					t.Fatalf("got %v, there: %v", err, there)
				}
			}
			if !c.repair {
				return
			}
			b.Git("worktree", "repair", n.Path)
			if err := b.Repo.Worktrees().Add(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if there, err := b.Repo.Worktrees().Resumable(t.Context(), n.Path); !there || err != nil || b.Read(filepath.Join(n.Path, "mine.txt")) != "precious" {
				t.Errorf("repaired: got %v, %v", there, err)
			}
		})
	}
}

// moveMain renames the main checkout, and reopens the repository.
func moveMain(b *gittest.Box) {
	b.Dir = away(b, b.Dir)
	b.Repo = b.Open(b.Dir)
}

func TestFailingPostCheckoutHook(t *testing.T) {
	b := gittest.New(t)
	b.Hook("post-checkout", "echo no lfs >&2; exit 3")
	base, dir := b.Git("rev-parse", "main"), b.Tree("feature/x")
	var hook *git.HookError
	if err := b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: dir, Branch: "feature/x", Base: base}); !errors.As(err, &hook) || hook.Hook != "post-checkout" || !strings.Contains(hook.Output, "no lfs") {
		t.Errorf("got %v", err)
	}
	if err := b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: dir, Branch: "feature/x", Base: base}); err != nil {
		t.Errorf("the worktree is there, but: %v", err)
	}
	isRight(b, dir)
}

// hold creates a lock file, as another git process would, and removes it after a while; released is closed then.
func hold(b *gittest.Box, path string, while time.Duration) (released <-chan struct{}) {
	b.Write(path, "")
	done := make(chan struct{})
	timer := time.AfterFunc(while, func() {
		os.Remove(b.Path(path))
		close(done)
	})
	b.T.Cleanup(func() { timer.Stop() })
	return done
}

func TestManyWorktreesAtOnce(t *testing.T) {
	const n = 16
	b := gittest.New(t)
	b.Git("config", "extensions.worktreeConfig", "true") // so that git writes configuration as well
	b.Git("config", "branch.autoSetupMerge", "always")
	base := b.Git("rev-parse", "main")
	released := hold(b, ".git/config.lock", 500*time.Millisecond)
	var wg sync.WaitGroup
	for i := range n {
		r := b.Repo
		if i%2 == 1 { // as another process would
			r = b.Open(b.Dir)
		}
		wg.Go(func() {
			name := fmt.Sprint("feature/", i)
			if err := r.Worktrees().Add(t.Context(), git.NewWorktree{Path: b.Tree(name), Branch: name, Base: base}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	<-released
	if got := strings.Count(b.Git("worktree", "list"), "\n"); got != n {
		t.Errorf("got %d worktrees, want %d", got, n)
	}
	for i := range n {
		if got := b.GitIn(b.Tree(fmt.Sprint("feature/", i)), "status", "--porcelain"); got != "" {
			t.Errorf("%d: %s", i, got)
		}
	}
}

// Git reads all worktrees when it adds one, and fails if another process is adding or removing one of them: Add tries again.
func TestOthersMakeWorktrees(t *testing.T) {
	b := gittest.New(t)
	bin := filepath.Join(b.Home, "bin")
	b.Write(filepath.Join(bin, "git"), `#!/bin/sh
case "$*" in *"worktree add"*)
  echo x >> "$HOME/tries"
  if [ "$(wc -l < "$HOME/tries")" -lt 5 ]; then echo "fatal: failed to read .git/worktrees/2/commondir: Success" >&2; exit 128; fi ;;
esac
PATH="$REAL" exec git "$@"
`)
	if err := os.Chmod(filepath.Join(bin, "git"), 0o755); err != nil {
		t.Fatal(err)
	}
	b.Repo.Env = append([]string{"PATH=" + bin + ":" + os.Getenv("PATH"), "REAL=" + os.Getenv("PATH")}, b.Env[1:]...)
	b.Repo.Allow = []string{"REAL"}
	b.Add("feature/x")
	if got := strings.Count(b.Read(filepath.Join(b.Home, "tries")), "x"); got != 5 {
		t.Errorf("got %d tries, want 5", got)
	}
}

func TestWorktreesComeAndGo(t *testing.T) {
	b := gittest.New(t)
	b.Add("feature/x")
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 30 {
			name := b.Tree(fmt.Sprint(i % 2))
			_, addErr := b.Try(b.Dir, "worktree", "add", "-q", "--detach", name)
			if _, err := b.Try(b.Dir, "worktree", "remove", "--force", name); err != nil || addErr != nil {
				t.Error(addErr, err)
			}
		}
	}()
	for looks := 0; ; looks++ {
		list, err := b.Repo.Worktrees().List(t.Context())
		if err != nil || !slices.ContainsFunc(list, func(w git.Worktree) bool { return w.Branch == "feature/x" }) {
			t.Errorf("look %d: got %v, %v", looks, list, err)
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestLocksOfOthersAreWaitedFor(t *testing.T) {
	b := gittest.New(t)
	base := b.Git("rev-parse", "main")
	released := hold(b, ".git/refs/heads/feature/x.lock", 300*time.Millisecond)
	if err := b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: b.Tree("feature/x"), Branch: "feature/x", Base: base}); err != nil {
		t.Error(err)
	}
	<-released

	wt := b.Tree("feature/x")
	b.Write(filepath.Join(wt, "new.txt"), "n")
	released = hold(b, b.Path(".git/worktrees/x/index.lock"), 300*time.Millisecond)
	gittest.Must(b.Repo.Committer().Commit(t.Context(), wt, git.CommitOptions{Message: "m", Branch: "feature/x"}))(t)
	<-released

	// A lock in the main checkout belongs to somebody else, and is never removed.
	b.Write("new.txt", "n")
	b.Write(".git/index.lock", "")
	ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
	defer cancel()
	if _, err := b.Repo.Committer().Commit(ctx, b.Dir, git.CommitOptions{Message: "m"}); err == nil || err.Error() != "committing in "+b.Dir+": enough" {
		t.Errorf("got %v", err)
	}
	if b.Read(".git/index.lock") != "" {
		t.Error("the lock is gone")
	}
}

// Hooks get the user's language; git's messages about locks are understood nevertheless.
func TestLocksAreWaitedForInAnyLanguage(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	wt := b.Add("feature/x")
	b.Repo.Env = append(slices.Clone(b.Env), "LC_ALL=C.UTF-8", "LANGUAGE=de")
	told := exec.Command("git", "rev-parse", "--verify", "nosuch")
	told.Dir, told.Env = wt, b.Repo.Env
	if said, _ := told.CombinedOutput(); !strings.Contains(string(said), "Schwerwiegend") {
		t.Skipf("git speaks no German here: %s", said)
	}
	b.Write(filepath.Join(wt, "new.txt"), "n")
	released := hold(b, ".git/refs/heads/feature/x.lock", time.Second)
	gittest.Must(b.Repo.Committer().Commit(t.Context(), wt, git.CommitOptions{Message: "m", Branch: "feature/x"}))(t)
	<-released
}

func TestLocksOfTheDeadAreRemoved(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	wt := b.Add("feature/x")
	b.Write(filepath.Join(wt, "new.txt"), "n")
	for _, lock := range []string{".git/worktrees/x/index.lock", ".git/worktrees/x/HEAD.lock", ".git/refs/heads/feature/x.lock"} {
		b.Write(lock, "")
	}
	gittest.Must(b.Repo.Committer().Commit(t.Context(), wt, git.CommitOptions{Message: "m", Branch: "feature/x"}))(t)
	if got := b.GitIn(wt, "status", "--porcelain"); got != "" {
		t.Errorf("not clean: %s", got)
	}
}

// Add succeeds after git was killed in the middle of git worktree add, at different moments.
func TestAddWorktreeKilled(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	for i := range 200 {
		b.Write(fmt.Sprintf("d%d/f", i), "x")
	}
	b.Git("add", "-A")
	b.Git("commit", "-qm", "more")
	base, dir := b.Git("rev-parse", "main"), b.Tree("feature/x")
	for delay := time.Millisecond; delay < 30*time.Millisecond; delay += 4 * time.Millisecond {
		cmd := exec.Command("git", "worktree", "add", "-q", "--no-track", "-b", "feature/x", dir, base)
		cmd.Dir, cmd.Env, cmd.SysProcAttr = b.Dir, append(b.Env, "LC_ALL=C"), &syscall.SysProcAttr{Setpgid: true}
		cmd.Stdout = new(strings.Builder) // a pipe: Wait returns once no process has it open
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		timer := time.AfterFunc(delay, func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		cmd.Wait()
		timer.Stop()
		if err := b.Repo.Worktrees().Add(t.Context(), git.NewWorktree{Path: dir, Branch: "feature/x", Base: base}); err != nil {
			t.Fatalf("after a kill at %v: %v", delay, err)
		}
		if got := b.GitIn(dir, "status", "--porcelain"); got != "" {
			t.Fatalf("after a kill at %v: %s", delay, got)
		}
		if err := b.Repo.Worktrees().Remove(t.Context(), dir); err != nil {
			t.Fatal(err)
		}
		b.Git("branch", "-q", "-D", "feature/x")
	}
}
