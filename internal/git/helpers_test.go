package git_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// box is a repository in a folder of its own, with an environment that has nothing of this machine.
type box struct {
	t    testing.TB
	Dir  string // the main checkout
	Home string
	Env  []string
	Repo *git.Repo
}

// newBox makes a repository with one commit of a.txt ("a\n") on main.
func newBox(t testing.TB, initArgs ...string) *box {
	t.Helper()
	b := emptyBox(t, initArgs...)
	b.write("a.txt", "a\n")
	b.git("add", "-A")
	b.git("commit", "-qm", "first")
	return b
}

func emptyBox(t testing.TB, initArgs ...string) *box {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &box{t: t, Dir: filepath.Join(root, "repo"), Home: filepath.Join(root, "home")}
	b.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.Home, "GIT_CONFIG_NOSYSTEM=1", "TMPDIR=" + root}
	b.mkdir(b.Home)
	b.mkdir(b.Dir)
	b.git(append([]string{"init", "-q", "-b", "main"}, initArgs...)...)
	b.write(filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ann Example\n\temail = ann@example.org\n")
	b.Repo = b.open(b.Dir)
	return b
}

func (b *box) open(dir string) *git.Repo {
	b.t.Helper()
	r, err := git.Open(dir)
	if err != nil {
		b.t.Fatal(err)
	}
	r.Env = b.Env
	return r
}

func (b *box) mkdir(dir string) {
	b.t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// path is below the main checkout unless it is absolute.
func (b *box) path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(b.Dir, p)
}

func (b *box) write(p, content string) {
	b.t.Helper()
	b.mkdir(filepath.Dir(b.path(p)))
	if err := os.WriteFile(b.path(p), []byte(content), 0o644); err != nil {
		b.t.Fatal(err)
	}
}

func (b *box) read(p string) string {
	b.t.Helper()
	data, err := os.ReadFile(b.path(p))
	if err != nil {
		b.t.Fatal(err)
	}
	return string(data)
}

func (b *box) hook(name, script string) {
	b.t.Helper()
	p := filepath.Join(b.Dir, ".git", "hooks", name)
	b.write(p, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(p, 0o755); err != nil {
		b.t.Fatal(err)
	}
}

// git runs git itself in the main checkout and returns what it prints, without the last newline.
func (b *box) git(args ...string) string {
	b.t.Helper()
	return b.gitIn(b.Dir, args...)
}

func (b *box) gitIn(dir string, args ...string) string {
	b.t.Helper()
	out, err := b.try(dir, args...)
	if err != nil {
		b.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func (b *box) try(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, b.Env
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

// tree is a worktree next to the checkout.
func (b *box) tree(name string) string { return filepath.Join(filepath.Dir(b.Dir), "trees", name) }

// add makes a worktree for branch at the commit that main is at.
func (b *box) add(branch string) string {
	b.t.Helper()
	dir := b.tree(branch)
	if err := b.Repo.AddWorktree(b.t.Context(), git.NewWorktree{Path: dir, Branch: branch, Base: b.git("rev-parse", "main")}); err != nil {
		b.t.Fatal(err)
	}
	return dir
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
