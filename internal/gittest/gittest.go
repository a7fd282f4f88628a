// Package gittest makes git repositories for tests.
package gittest

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/git"
)

// OnDisk puts temporary files into their usual place, where scripts/memory.sh has put them below /dev/shm, for tests whose files
// the sandbox has to see. It has to be called before the first of them is created.
func OnDisk() {
	if disk := os.Getenv("TRELLIS_DISK"); disk != "" {
		if err := os.Setenv("TMPDIR", disk); err != nil {
			panic(err)
		}
	}
}

// HearSignals makes programs that tests start receive signals, even if the tests themselves were started to ignore them, as under
// nohup and in shells' background jobs: a signal that is caught here has its default effect in children.
func HearSignals() {
	for _, s := range []os.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s)
		}
	}
}

// Box is a repository in a separate folder, with an environment that has no settings of this machine.
type Box struct {
	T    testing.TB
	Dir  string // the main checkout
	Home string
	Env  []string
	Repo *git.Repo
}

// New makes a repository with one commit of a.txt ("a\n") on main.
func New(t testing.TB, initArgs ...string) *Box {
	t.Helper()
	b := bare(t)
	b.cast(&begun, initArgs, func() error {
		b.init(initArgs)
		b.Write("a.txt", "a\n")
		b.Git("add", "-A")
		b.Git("commit", "-qm", "first")
		return nil
	})
	b.Git("update-index", "-q", "--refresh")
	b.Repo = b.Open(b.Dir)
	return b
}

// Empty makes a repository without a commit.
func Empty(t testing.TB, initArgs ...string) *Box {
	t.Helper()
	b := bare(t)
	b.cast(&empty, initArgs, func() error { b.init(initArgs); return nil })
	b.Repo = b.Open(b.Dir)
	return b
}

// begun and empty hold the repositories that New and Empty create without further arguments.
var begun, empty Mould

func (b *Box) cast(m *Mould, initArgs []string, make func() error) {
	b.T.Helper()
	if len(initArgs) > 0 {
		m = &Mould{}
	}
	if err := m.Cast(b.Dir, make); err != nil {
		b.T.Fatal(err)
	}
}

func (b *Box) init(args []string) {
	b.T.Helper()
	b.Git(append([]string{"init", "-q", "-b", "main"}, args...)...)
}

// bare returns a Box whose folder has no repository yet.
func bare(t testing.TB) *Box {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &Box{T: t, Dir: filepath.Join(root, "repo"), Home: filepath.Join(root, "home")}
	b.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + b.Home, "GIT_CONFIG_NOSYSTEM=1", "TMPDIR=" + root}
	b.Mkdir(b.Home)
	b.Mkdir(b.Dir)
	b.Write(filepath.Join(b.Home, ".gitconfig"), "[user]\n\tname = Ann Example\n\temail = ann@example.org\n"+NoTidying)
	return b
}

// NoTidying has settings for a test's own git: it does not check, after each commit, merge and push, whether the repository needs
// maintenance, which would start another process each time.
const NoTidying = "[gc]\n\tauto = 0\n[maintenance]\n\tauto = false\n[receive]\n\tautogc = false\n"

func (b *Box) Open(dir string) *git.Repo {
	b.T.Helper()
	r, err := git.Open(dir)
	if err != nil {
		b.T.Fatal(err)
	}
	r.Env = b.Env
	return r
}

func (b *Box) Mkdir(dir string) {
	b.T.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		b.T.Fatal(err)
	}
}

// Path returns p, which is below the main checkout unless it is absolute.
func (b *Box) Path(p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(b.Dir, p)
}

func (b *Box) Write(p, content string) {
	b.T.Helper()
	b.Mkdir(filepath.Dir(b.Path(p)))
	if err := os.WriteFile(b.Path(p), []byte(content), 0o644); err != nil {
		b.T.Fatal(err)
	}
}

func (b *Box) Read(p string) string {
	b.T.Helper()
	data, err := os.ReadFile(b.Path(p))
	if err != nil {
		b.T.Fatal(err)
	}
	return string(data)
}

func (b *Box) Hook(name, script string) {
	b.T.Helper()
	p := filepath.Join(b.Dir, ".git", "hooks", name)
	b.Write(p, "#!/bin/sh\n"+script+"\n")
	if err := os.Chmod(p, 0o755); err != nil {
		b.T.Fatal(err)
	}
}

// Git runs git itself in the main checkout and returns what it prints, without the last newline.
func (b *Box) Git(args ...string) string {
	b.T.Helper()
	return b.GitIn(b.Dir, args...)
}

func (b *Box) GitIn(dir string, args ...string) string {
	b.T.Helper()
	out, err := b.Try(dir, args...)
	if err != nil {
		b.T.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSuffix(out, "\n")
}

func (b *Box) Try(dir string, args ...string) (string, error) {
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

// Tree returns the path of a worktree next to the checkout.
func (b *Box) Tree(name string) string { return filepath.Join(filepath.Dir(b.Dir), "trees", name) }

// Add makes a worktree for branch at the commit that main is at.
func (b *Box) Add(branch string) string {
	b.T.Helper()
	dir := b.Tree(branch)
	if err := b.Repo.Worktrees().Add(b.T.Context(), git.NewWorktree{Path: dir, Branch: branch, Base: b.Git("rev-parse", "main")}); err != nil {
		b.T.Fatal(err)
	}
	return dir
}

func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}
