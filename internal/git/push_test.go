package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// remote gives a box a bare repository as its origin, and the branch work above main.
func (b *box) remote() (bare string) {
	b.t.Helper()
	bare = filepath.Join(b.Dir, "..", "bare.git")
	b.git("clone", "-q", "--bare", b.Dir, bare)
	b.git("remote", "add", "origin", bare)
	b.git("checkout", "-q", "-b", "work")
	b.change("one")
	return bare
}

// change commits something on work and returns the commit.
func (b *box) change(text string) string {
	b.t.Helper()
	b.write("work.txt", text)
	b.git("add", "-A")
	b.git("commit", "-qm", text)
	return b.git("rev-parse", "HEAD")
}

func (b *box) push() (bool, error) { return b.pushFrom(b.Dir) }

func (b *box) pushFrom(dir string) (bool, error) {
	return b.Repo.Push(context.Background(), git.PushOptions{Dir: dir, Remote: "origin", Branch: "work", Commit: b.git("rev-parse", "work"), Whose: "01-01-work"})
}

func (b *box) pushed(want bool) {
	b.t.Helper()
	moved, err := b.push()
	if err != nil || moved != want {
		b.t.Fatalf("got %v, %v, want %v", moved, err, want)
	}
	if got, want := b.git("ls-remote", "origin", "refs/heads/work"), b.git("rev-parse", "work")+"\trefs/heads/work"; got != want {
		b.t.Fatalf("the remote has %s, want %s", got, want)
	}
}

// What is pushed is pushed once, what was amended since replaces it, and nobody else's commits are ever replaced.
func TestPush(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, "--object-format="+format)
			bare := b.remote()
			b.pushed(true)
			b.pushed(false)
			b.change("two")
			b.pushed(true)
			b.git("commit", "-q", "--amend", "-m", "other words")
			b.pushed(true)
			if got := b.git("for-each-ref", "--format=%(objectname)", "refs/trellis/pushed/"); got != b.git("rev-parse", "work") {
				t.Errorf("remembered are %s", got)
			}
			other := filepath.Join(b.Dir, "..", "other")
			b.git("clone", "-q", "-b", "work", bare, other)
			b.gitIn(other, "commit", "-q", "--amend", "-m", "mended by a reviewer")
			b.gitIn(other, "push", "-qf", "origin", "work")
			theirs := b.gitIn(other, "rev-parse", "HEAD")
			for _, known := range []bool{false, true} {
				if known {
					b.git("fetch", "-q", "origin")
				}
				var diverged *git.DivergedError
				if _, err := b.push(); !errors.As(err, &diverged) || diverged.Tip != theirs || !strings.Contains(err.Error(), theirs[:12]) {
					t.Errorf("got %v over a reviewer's commit (known here: %v)", err, known)
				}
			}
			b.git("reset", "-q", "--hard", theirs)
			b.change("three")
			b.pushed(true)
		})
	}
}

// What people put on ours is seen in a clone that follows the base alone, too, as one of a single branch does.
func TestPushIsAhead(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	bare := b.remote()
	b.git("config", "remote.origin.fetch", "+refs/heads/main:refs/remotes/origin/main")
	b.pushed(true)
	other := filepath.Join(t.TempDir(), "other")
	b.git("clone", "-q", "-b", "work", bare, other)
	b.gitIn(other, "commit", "-q", "--allow-empty", "-m", "theirs")
	b.gitIn(other, "push", "-q", "origin", "work")
	var ahead *git.AheadError
	if moved, err := b.push(); moved || !errors.As(err, &ahead) || ahead.Tip != b.gitIn(other, "rev-parse", "HEAD") {
		t.Errorf("got %v, %v, want what people pushed", moved, err)
	}
}

// Somebody pushes between the look and the push.
func TestPushIsOvertaken(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.remote()
	b.pushed(true)
	b.change("two")
	b.hook("pre-push", "test -n \"$INNER\" || INNER=1 git push -qf origin main:refs/heads/work")
	var diverged *git.DivergedError
	if _, err := b.push(); !errors.As(err, &diverged) {
		t.Fatalf("got %v", err)
	}
	if got := b.git("ls-remote", "origin", "refs/heads/work"); !strings.HasPrefix(got, b.git("rev-parse", "main")) {
		t.Errorf("the remote has %s", got)
	}
}

func TestPrePushHook(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.remote()
	b.hook("pre-push", "echo tests are red >&2; exit 3")
	var hook *git.HookError
	if _, err := b.push(); !errors.As(err, &hook) || hook.Hook != "pre-push" || !strings.Contains(err.Error(), "tests are red") {
		t.Fatalf("got %v", err)
	}
	if got := b.git("ls-remote", "origin", "refs/heads/work"); got != "" {
		t.Errorf("the remote has %s", got)
	}
	b.hook("pre-push", "pwd > seen; cat >> seen")
	b.pushed(true)
	if seen := b.read("seen"); !strings.HasPrefix(seen, b.Dir+"\n") || !strings.Contains(seen, "refs/heads/work") {
		t.Errorf("the hook saw %s", seen)
	}
}

// What the other side says is passed on, and is no hook of the user.
func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	bare := b.remote()
	b.hook("pre-push", "exit 0")
	p := filepath.Join(bare, "hooks", "pre-receive")
	b.write(p, "#!/bin/sh\necho this branch is protected >&2\nexit 1\n")
	b.executable(p)
	_, err := b.push()
	var failed *git.Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "this branch is protected") {
		t.Errorf("got %v", err)
	}
	b.git("remote", "set-url", "origin", filepath.Join(bare, "gone"))
	if _, err := b.push(); !errors.As(err, &failed) {
		t.Errorf("got %v of a remote that is gone", err)
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	want := func(remote string) {
		t.Helper()
		if got, err := b.Repo.Remote(context.Background(), "main"); got != remote || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, remote)
		}
	}
	want("")
	b.git("remote", "add", "hub", "x")
	want("hub")
	b.git("remote", "add", "fork", "x")
	want("")
	b.git("remote", "add", "origin", "x")
	want("origin")
	b.git("config", "branch.main.remote", "fork")
	want("fork")
	b.git("config", "branch.main.remote", ".")
	want("origin")
}

func TestCommitIsSigned(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	sign := b.path("../sign.sh")
	b.write(sign, "#!/bin/sh\ncat > /dev/null\nprintf '\\n[GNUPG:] SIG_CREATED D 1 8 00 0 AB\\n' >&2\nprintf -- '-----BEGIN PGP SIGNATURE-----\\n\\nby %s\\n-----END PGP SIGNATURE-----\\n' \"$*\"\n")
	b.executable(sign)
	b.git("config", "commit.gpgSign", "true")
	b.git("config", "gpg.program", sign)
	b.git("config", "user.signingKey", "AB12")
	b.write("a.txt", "b\n")
	sha, err := b.Repo.Commit(context.Background(), b.Dir, git.CommitOptions{Message: "signed", Branch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.git("cat-file", "commit", sha); !strings.Contains(got, "gpgsig -----BEGIN PGP SIGNATURE-----") || !strings.Contains(got, "AB12") || !strings.Contains(got, "author Ann Example") {
		t.Errorf("the commit is\n%s", got)
	}
}

func (b *box) executable(p string) {
	b.t.Helper()
	if err := os.Chmod(p, 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// A remote that is a path from the main checkout is found from a worktree, too.
func TestPushFromAWorktree(t *testing.T) {
	t.Parallel()
	b := newBox(t)
	b.remote()
	b.git("remote", "set-url", "origin", "../bare.git")
	b.git("checkout", "-q", "main")
	b.git("worktree", "add", "-q", b.tree("deep/work"), "work")
	b.hook("pre-push", "pwd > "+b.path("../seen"))
	if moved, err := b.pushFrom(b.tree("deep/work")); err != nil || !moved {
		t.Fatalf("got %v, %v", moved, err)
	}
	if got := b.read("../seen"); got != b.tree("deep/work")+"\n" || !strings.HasPrefix(b.git("ls-remote", "origin", "work"), b.git("rev-parse", "work")) {
		t.Errorf("the hook ran in %s", got)
	}
}
