package git_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
)

// remote adds a bare repository as the box's origin, and a branch work with a commit above main. It returns the repository's path.
func remote(b *gittest.Box) (bare string) {
	b.T.Helper()
	bare = filepath.Join(b.Dir, "..", "bare.git")
	b.Git("clone", "-q", "--bare", b.Dir, bare)
	b.Git("remote", "add", "origin", bare)
	b.Git("checkout", "-q", "-b", "work")
	change(b, "one")
	return bare
}

// change commits a text on the current branch and returns the commit.
func change(b *gittest.Box, text string) string {
	b.T.Helper()
	b.Write("work.txt", text)
	b.Git("add", "-A")
	b.Git("commit", "-qm", text)
	return b.Git("rev-parse", "HEAD")
}

func push(b *gittest.Box) (bool, error) { return pushFrom(b, b.Dir) }

func pushFrom(b *gittest.Box, dir string) (bool, error) {
	return b.Repo.Remotes().Push(context.Background(), git.PushOptions{Dir: dir, Remote: "origin", Branch: "work", Commit: b.Git("rev-parse", "work"), Whose: "01-01-work"})
}

func pushed(b *gittest.Box, want bool) {
	b.T.Helper()
	moved, err := push(b)
	if err != nil || moved != want {
		b.T.Fatalf("got %v, %v, want %v", moved, err, want)
	}
	if got, want := b.Git("ls-remote", "origin", "refs/heads/work"), b.Git("rev-parse", "work")+"\trefs/heads/work"; got != want {
		b.T.Fatalf("the remote has %s, want %s", got, want)
	}
}

// A commit is pushed once, an amended one replaces it, and commits of others are never replaced.
func TestPush(t *testing.T) {
	for _, format := range []string{"sha1", "sha256"} {
		t.Run(format, func(t *testing.T) {
			t.Parallel()
			b := gittest.New(t, "--object-format="+format)
			bare := remote(b)
			pushed(b, true)
			pushed(b, false)
			change(b, "two")
			pushed(b, true)
			b.Git("commit", "-q", "--amend", "-m", "other words")
			pushed(b, true)
			if got := b.Git("for-each-ref", "--format=%(objectname)", "refs/trellis/pushed/"); got != b.Git("rev-parse", "work") {
				t.Errorf("remembered are %s", got)
			}
			other := filepath.Join(b.Dir, "..", "other")
			b.Git("clone", "-q", "-b", "work", bare, other)
			b.GitIn(other, "commit", "-q", "--amend", "-m", "mended by a reviewer")
			b.GitIn(other, "push", "-qf", "origin", "work")
			theirs := b.GitIn(other, "rev-parse", "HEAD")
			for _, known := range []bool{false, true} {
				if known {
					b.Git("fetch", "-q", "origin")
				}
				var diverged *git.DivergedError
				if _, err := push(b); !errors.As(err, &diverged) || diverged.Tip != theirs || !strings.Contains(err.Error(), theirs[:12]) {
					t.Errorf("got %v over a reviewer's commit (known here: %v)", err, known)
				}
			}
			b.Git("reset", "-q", "--hard", theirs)
			change(b, "three")
			pushed(b, true)
		})
	}
}

// Commits that people push on top of ours are noticed even in a clone that fetches only the base, as a single-branch clone does.
func TestPushIsAhead(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	bare := remote(b)
	b.Git("config", "remote.origin.fetch", "+refs/heads/main:refs/remotes/origin/main")
	pushed(b, true)
	other := filepath.Join(t.TempDir(), "other")
	b.Git("clone", "-q", "-b", "work", bare, other)
	b.GitIn(other, "commit", "-q", "--allow-empty", "-m", "theirs")
	b.GitIn(other, "push", "-q", "origin", "work")
	var ahead *git.AheadError
	if moved, err := push(b); moved || !errors.As(err, &ahead) || ahead.Tip != b.GitIn(other, "rev-parse", "HEAD") {
		t.Errorf("got %v, %v, want what people pushed", moved, err)
	}
}

// If somebody else pushes between the check of the remote and the push, the push fails.
func TestPushIsOvertaken(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	remote(b)
	pushed(b, true)
	change(b, "two")
	b.Hook("pre-push", "test -n \"$INNER\" || INNER=1 git push -qf origin main:refs/heads/work")
	var diverged *git.DivergedError
	if _, err := push(b); !errors.As(err, &diverged) {
		t.Fatalf("got %v", err)
	}
	if got := b.Git("ls-remote", "origin", "refs/heads/work"); !strings.HasPrefix(got, b.Git("rev-parse", "main")) {
		t.Errorf("the remote has %s", got)
	}
}

func TestPrePushHook(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	remote(b)
	b.Hook("pre-push", "echo tests are red >&2; exit 3")
	var hook *git.HookError
	if _, err := push(b); !errors.As(err, &hook) || hook.Hook != "pre-push" || !strings.Contains(err.Error(), "tests are red") {
		t.Fatalf("got %v", err)
	}
	if got := b.Git("ls-remote", "origin", "refs/heads/work"); got != "" {
		t.Errorf("the remote has %s", got)
	}
	b.Hook("pre-push", "pwd > seen; cat >> seen")
	pushed(b, true)
	if seen := b.Read("seen"); !strings.HasPrefix(seen, b.Dir+"\n") || !strings.Contains(seen, "refs/heads/work") {
		t.Errorf("the hook saw %s", seen)
	}
}

// An error of the remote is passed on, and not attributed to a hook of the user.
func TestPushIsRefused(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	bare := remote(b)
	b.Hook("pre-push", "exit 0")
	p := filepath.Join(bare, "hooks", "pre-receive")
	b.Write(p, "#!/bin/sh\necho this branch is protected >&2\nexit 1\n")
	executable(b, p)
	_, err := push(b)
	var failed *git.Error
	if !errors.As(err, &failed) || !strings.Contains(err.Error(), "this branch is protected") {
		t.Errorf("got %v", err)
	}
	b.Git("remote", "set-url", "origin", filepath.Join(bare, "gone"))
	if _, err := push(b); !errors.As(err, &failed) {
		t.Errorf("got %v of a remote that is gone", err)
	}
}

func TestRemote(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	want := func(remote string) {
		t.Helper()
		if got, err := b.Repo.Remotes().Remote(context.Background(), "main"); got != remote || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, remote)
		}
	}
	want("")
	b.Git("remote", "add", "hub", "x")
	want("hub")
	b.Git("remote", "add", "fork", "x")
	want("")
	b.Git("remote", "add", "origin", "x")
	want("origin")
	b.Git("config", "branch.main.remote", "fork")
	want("fork")
	b.Git("config", "branch.main.remote", ".")
	want("origin")
}

func TestCommitIsSigned(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	sign := b.Path("../sign.sh")
	b.Write(sign, "#!/bin/sh\ncat > /dev/null\nprintf '\\n[GNUPG:] SIG_CREATED D 1 8 00 0 AB\\n' >&2\nprintf -- '-----BEGIN PGP SIGNATURE-----\\n\\nby %s\\n-----END PGP SIGNATURE-----\\n' \"$*\"\n")
	executable(b, sign)
	b.Git("config", "commit.gpgSign", "true")
	b.Git("config", "gpg.program", sign)
	b.Git("config", "user.signingKey", "AB12")
	b.Write("a.txt", "b\n")
	sha, err := b.Repo.Committer().Commit(context.Background(), b.Dir, git.CommitOptions{Message: "signed", Branch: "main"})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Git("cat-file", "commit", sha); !strings.Contains(got, "gpgsig -----BEGIN PGP SIGNATURE-----") || !strings.Contains(got, "AB12") || !strings.Contains(got, "author Ann Example") {
		t.Errorf("the commit is\n%s", got)
	}
}

func executable(b *gittest.Box, p string) {
	b.T.Helper()
	if err := os.Chmod(p, 0o755); err != nil {
		b.T.Fatal(err)
	}
}

// A remote given as a path relative to the main checkout is found from a worktree too.
func TestPushFromAWorktree(t *testing.T) {
	t.Parallel()
	b := gittest.New(t)
	remote(b)
	b.Git("remote", "set-url", "origin", "../bare.git")
	b.Git("checkout", "-q", "main")
	b.Git("worktree", "add", "-q", b.Tree("deep/work"), "work")
	b.Hook("pre-push", "pwd > "+b.Path("../seen"))
	if moved, err := pushFrom(b, b.Tree("deep/work")); err != nil || !moved {
		t.Fatalf("got %v, %v", moved, err)
	}
	if got := b.Read("../seen"); got != b.Tree("deep/work")+"\n" || !strings.HasPrefix(b.Git("ls-remote", "origin", "work"), b.Git("rev-parse", "work")) {
		t.Errorf("the hook ran in %s", got)
	}
}

// Edge C15: the addresses of a remote are returned without passwords and tokens.
func TestAddresses(t *testing.T) {
	b := gittest.New(t)
	for address, want := range map[string]string{
		"https://ann:secret@example.org/a.git": "https://example.org/a.git",
		"https://token@example.org/a.git":      "https://example.org/a.git",
		"ssh://git@example.org/a.git":          "ssh://git@example.org/a.git",
		"git@example.org:a.git":                "git@example.org:a.git",
		"../a b.git":                           "../a b.git",
	} {
		b.Git("remote", "add", "origin", address)
		if got, err := b.Repo.Remotes().Addresses(t.Context(), "origin"); err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, %v", address, got, err)
		}
		b.Git("remote", "remove", "origin")
	}
	if got, err := b.Repo.Remotes().Addresses(t.Context(), "https://token@example.org/a.git"); err != nil || got[0] != "https://example.org/a.git" {
		t.Errorf("an address in the place of a name: got %q, %v", got, err)
	}
}
