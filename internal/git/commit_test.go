package git_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

var excluded = []string{".trellis/tasks/", ".env", "st*ged.txt"} // paths are literal: the last one matches no file

func TestCommit(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		ctx, dir := t.Context(), b.Add("feature/x")
		b.Spread(dir)
		b.Write(filepath.Join(dir, ".trellis/tasks/old/task.json"), "{}")
		b.GitIn(dir, "add", "-f", ".trellis/tasks/old", ".env") // an agent staged excluded files
		base := b.GitIn(dir, "rev-parse", "HEAD")
		sha := gittest.Must(b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{
			Message: "feat(x): add ünï $(rm -rf /) `x`\n\n# not a comment\nbody \n", Trailers: []string{"Trellis-Task: 02-01-x", "Trellis-Key: 02-01-x/1/commit#1"},
			Exclude: excluded, Branch: "feature/x",
		}))(t)
		if sha != b.GitIn(dir, "rev-parse", "HEAD") || base != b.GitIn(dir, "rev-parse", "HEAD^") {
			t.Error("the commit is not where it belongs")
		}
		want := "feat(x): add ünï $(rm -rf /) `x`\n\n# not a comment\nbody\n\nTrellis-Task: 02-01-x\nTrellis-Key: 02-01-x/1/commit#1\n"
		if got := b.GitIn(dir, "log", "-1", "--format=%B"); got != want {
			t.Errorf("message: got %q, want %q", got, want)
		}
		if got := b.GitIn(dir, "log", "-1", "--format=%an <%ae> %cn <%ce>"); got != "Ann Example <ann@example.org> Ann Example <ann@example.org>" {
			t.Errorf("by %s", got)
		}
		var files []string
		for _, f := range strings.Split(b.GitIn(dir, "ls-tree", "-r", "-z", "--name-only", "HEAD"), "\x00") {
			files = append(files, f)
		}
		if want := []string{".gitignore", "a.txt", "bin", "dir", "keep.txt", "new/un tracked\n\xff.txt", "script", "staged.txt", ""}; !slices.Equal(files, want) {
			t.Errorf("got %q, want %q", files, want)
		}
		if got := gittest.Must(b.Repo.Index().Status(ctx, dir, excluded...))(t); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
		if b.Read(filepath.Join(dir, ".env")) != "SECRET=1" {
			t.Error("an excluded file was touched")
		}
		if got := gittest.Must(b.Repo.History().FindTrailer(ctx, base, "feature/x", "Trellis-Key: 02-01-x/1/commit#1"))(t); got != sha {
			t.Errorf("FindTrailer: got %s", got)
		}
		for range 2 {
			b.GitIn(dir, "add", "-f", ".env")
			if _, err := b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{Message: "m", Exclude: excluded}); !errors.Is(err, git.ErrNothing) {
				t.Errorf("nothing to commit: got %v", err)
			}
		}
	}, gittest.HardFormats...)
}

func TestAmend(t *testing.T) {
	b := gittest.New(t)
	ctx, dir, base := t.Context(), b.Add("feature/x"), b.Git("rev-parse", "main")
	b.Write(filepath.Join(dir, "new.txt"), "n")
	gittest.Must(b.Repo.Committer().Commit(ctx, dir, git.CommitOptions{Message: "m"}))(t)
	b.Write(filepath.Join(dir, "later.txt"), "n")
	o := git.CommitOptions{Message: "amended", Amend: true}
	second := gittest.Must(b.Repo.Committer().Commit(ctx, dir, o))(t)
	if got := b.GitIn(dir, "rev-list", "--count", base+"..HEAD"); got != "1" {
		t.Errorf("%s commits", got)
	}
	if got := b.GitIn(dir, "ls-tree", "--name-only", "HEAD"); got != "a.txt\nlater.txt\nnew.txt" {
		t.Errorf("got %s", got)
	}
	if _, err := b.Repo.Committer().Commit(ctx, dir, o); !errors.Is(err, git.ErrNothing) {
		t.Errorf("amending with nothing: got %v", err)
	}
	b.GitIn(dir, "rm", "-q", "new.txt", "later.txt")
	if _, err := b.Repo.Committer().Commit(ctx, dir, o); !errors.Is(err, git.ErrNothing) {
		t.Errorf("amending to nothing: got %v", err)
	}
	if got := b.GitIn(dir, "rev-parse", "HEAD"); got != second {
		t.Error("the commit is gone")
	}
}

func TestCommitOnAnotherBranch(t *testing.T) {
	b := gittest.New(t)
	dir := b.Add("feature/x")
	b.Write(filepath.Join(dir, "new.txt"), "n")
	for _, args := range [][]string{{"checkout", "-q", "-b", "agents-own"}, {"checkout", "-q", "--detach"}} {
		b.GitIn(dir, args...)
		if _, err := b.Repo.Committer().Commit(t.Context(), dir, git.CommitOptions{Message: "m", Branch: "feature/x"}); err == nil || !strings.Contains(err.Error(), "not feature/x") {
			t.Errorf("got %v", err)
		}
	}
}

func TestHooks(t *testing.T) {
	for _, name := range []string{"pre-commit", "commit-msg", "prepare-commit-msg"} {
		b := gittest.New(t)
		dir := b.Add("feature/x")
		b.Write(filepath.Join(dir, "new.txt"), "n")
		b.Hook(name, "echo to stdout; echo no, ünï >&2; exit 7")
		var hook *git.HookError
		_, err := b.Repo.Committer().Commit(t.Context(), dir, git.CommitOptions{Message: "m"})
		if !errors.As(err, &hook) || hook.Hook != name || !strings.Contains(hook.Output, "to stdout") || !strings.Contains(hook.Output, "no, ünï") {
			t.Errorf("%s: got %v", name, err)
		}
		if got := b.GitIn(dir, "log", "--format=%s", "-1"); got != "first" {
			t.Errorf("%s: there is a commit", name)
		}
		b.Hook(name, "exit 1")
		if _, err := b.Repo.Committer().Commit(t.Context(), dir, git.CommitOptions{Message: "m"}); !errors.As(err, &hook) || hook.Output != "it said nothing" {
			t.Errorf("%s, without a word: got %v", name, err)
		}
		b.Hook(name, "test -f .hook-ran && exit 0; touch .hook-ran; cat >/dev/null")
		gittest.Must(b.Repo.Committer().Commit(t.Context(), dir, git.CommitOptions{Message: "m", Exclude: []string{".hook-ran"}}))(t)
		if b.Read(filepath.Join(dir, ".hook-ran")) != "" {
			t.Errorf("%s did not run", name)
		}
	}
}

func TestCommitFailsWithoutHook(t *testing.T) {
	b := gittest.New(t)
	b.Write("new.txt", "n")
	_, err := b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "  "})
	var failed *git.Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "empty commit message") {
		t.Errorf("got %v", err)
	}
	b.Git("config", "commit.gpgSign", "true")
	b.Git("config", "gpg.program", "false")
	b.Hook("pre-commit", "exit 0")
	_, err = b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "m"})
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "gpg") {
		t.Errorf("got %v", err)
	}
}

// A commit that another process makes in the meantime is not taken for the requested one, and does not hide an error.
func TestCommitOfAnotherMeanwhile(t *testing.T) {
	t.Run("while it is inspected", func(t *testing.T) {
		b := gittest.New(t)
		b.Write("new.txt", "n")
		found := errors.New("found something")
		_, err := b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "m", Trailers: []string{"Task: a"}, Inspect: func(context.Context) error {
			b.Git("commit", "-qm", "theirs")
			return found
		}})
		if !errors.Is(err, found) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("in a hook", func(t *testing.T) {
		b := gittest.New(t)
		b.Write("new.txt", "n")
		b.Hook("prepare-commit-msg", "git -c core.hooksPath=/dev/null commit --quiet --allow-empty -m theirs")
		if sha, err := b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "m", Trailers: []string{"Task: a"}}); err == nil {
			t.Errorf("got %s: %s", sha, b.Git("log", "-1", "--format=%B", sha))
		}
	})
}

func TestHookThatHangsIsStopped(t *testing.T) {
	b := gittest.New(t)
	b.Hook("pre-commit", "echo $$ > pid; exec sleep 600")
	b.Write("new.txt", "n")
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("cancelled by the test")
	go func() {
		for {
			if data, err := os.ReadFile(b.Path("pid")); err == nil && len(data) > 0 {
				cancel(cause)
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	if _, err := b.Repo.Committer().Commit(ctx, b.Dir, git.CommitOptions{Message: "m"}); !errors.Is(err, cause) {
		t.Errorf("got %v", err)
	}
	pid := strings.TrimSpace(b.Read("pid"))
	if out, _ := exec.Command("ps", "-o", "stat=", "-p", pid).Output(); len(out) > 0 && out[0] != 'Z' {
		t.Errorf("process %s is alive: %s", pid, out)
	}
}

func TestBackup(t *testing.T) {
	gittest.EachFormat(t, func(t *testing.T, b *gittest.Box) {
		const ref = "refs/trellis/backup/02-01-x/1"
		ctx, dir := t.Context(), b.Add("feature/x")
		b.Repo.Env = slices.DeleteFunc(slices.Clone(b.Env), func(s string) bool { return strings.HasPrefix(s, "HOME=") }) // no identity is configured
		save := func() string {
			t.Helper()
			status, index := b.GitIn(dir, "status", "--porcelain=v2"), b.GitIn(dir, "ls-files", "--stage")
			sha := gittest.Must(snapshot.NewBackups(b.Repo).Backup(ctx, dir, ref, "backup of x"))(t)
			if b.GitIn(dir, "status", "--porcelain=v2") != status || b.GitIn(dir, "ls-files", "--stage") != index {
				t.Error("the worktree was touched")
			}
			if got := b.Git("rev-parse", ref); got != sha {
				t.Errorf("the ref is at %s, not %s", got, sha)
			}
			return sha
		}
		head := b.GitIn(dir, "rev-parse", "HEAD")
		if got := save(); got != head {
			t.Errorf("nothing to save: got %s, want HEAD", got)
		}
		b.Spread(dir)
		head = b.GitIn(dir, "rev-parse", "HEAD")
		first := save()
		for file, want := range map[string]string{first + ":keep.txt": "1\ntwo\n3\n4", first + ":staged.txt": "staged and changed", first + ":new/un tracked\n\xff.txt": "u", first + ":.env": "SECRET=1", first + "^2:staged.txt": "staged", first + "^2:keep.txt": "1\n2\n3"} {
			if got := b.Git("show", file); got != want {
				t.Errorf("%s: got %q, want %q", file, got, want)
			}
		}
		if got := b.Git("rev-parse", first+"^1"); got != head {
			t.Errorf("saved on top of %s, not %s", got, head)
		}
		b.Write(filepath.Join(dir, "staged.txt"), "staged otherwise\n")
		b.GitIn(dir, "add", "staged.txt")
		b.Write(filepath.Join(dir, "staged.txt"), "staged and changed\n")
		if got := b.Git("show", save()+"^2:staged.txt"); got != "staged otherwise" {
			t.Errorf("staged and not in the work tree: got %q", got)
		}
		b.GitIn(dir, "add", "-A") // index and work tree are the same now
		second := save()
		if third := save(); third != second {
			t.Errorf("saved twice: %s, %s", second, third)
		}
		if ok := gittest.Must(b.Repo.History().IsAncestor(ctx, first, second))(t); !ok && second != first {
			t.Error("the first backup is lost")
		}
		b.GitIn(dir, "reset", "-q", "--hard")
		b.GitIn(dir, "clean", "-qfdx")
		if last := save(); last != second { // a new backup with the state of HEAD
			if ok := gittest.Must(b.Repo.History().IsAncestor(ctx, second, last))(t); !ok {
				t.Error("the second backup is lost")
			}
		}
	}, gittest.HardFormats...)
}

func TestBackupOfUnborn(t *testing.T) {
	b := gittest.Empty(t)
	b.Write("new.txt", "n")
	sha := gittest.Must(snapshot.NewBackups(b.Repo).Backup(t.Context(), b.Dir, "refs/trellis/backup/x/1", "m"))(t)
	if got := b.Git("show", sha+":new.txt"); got != "n" {
		t.Errorf("got %q", got)
	}
}

// Files outside of a sparse checkout are committed if they exist, and are not taken for deleted if they don't.
func TestCommitInASparseCheckout(t *testing.T) {
	b := gittest.New(t)
	for _, name := range []string{"out/kept", "out/changed"} {
		b.Write(name, "old\n")
	}
	b.Git("add", "-A")
	b.Git("commit", "-q", "-m", "old")
	b.Git("sparse-checkout", "set", "--no-cone", "/*", "!/out/")
	b.Write("out/changed", "changed\n")
	b.Write("out/new", "new\n")
	if _, err := b.Repo.Committer().Commit(t.Context(), b.Dir, git.CommitOptions{Message: "new"}); err != nil {
		t.Fatal(err)
	}
	if got := b.Git("diff-tree", "-r", "--name-status", "HEAD^", "HEAD"); got != "M\tout/changed\nA\tout/new" {
		t.Errorf("committed is\n%s", got)
	}
}
