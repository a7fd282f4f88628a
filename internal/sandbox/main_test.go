package sandbox_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

func TestMain(m *testing.M) {
	if code, entered := sandbox.RunEntrance(os.Args[1:]); entered {
		os.Exit(code)
	}
	gittest.HearSignals()
	gittest.OnDisk() // the sandbox has a /dev/shm of its own
	gittest.VerifyTestMain(m, goleak.IgnoreCurrent())
}

// world is a repository with a worktree of a task, a home folder, and a box around them.
type world struct {
	t    *testing.T
	Root string // contains all folders below
	Main string
	Tree string // the worktree
	Home string
	Box  *sandbox.Box
}

// marker returns a marker that no other test has, in this process or another: some tests end all processes that carry theirs.
func (w *world) marker(kind string) string {
	return fmt.Sprintf("%s-%s-%d", kind, filepath.Base(filepath.Dir(w.Root)), os.Getpid())
}

// newWorld makes a world, and skips the test if the machine has no sandbox; in CI it fails.
func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, Root: root, Main: filepath.Join(root, "main"), Tree: filepath.Join(root, "trees", "a"), Home: filepath.Join(root, "home")}
	w.Box = &sandbox.Box{Mode: sandbox.Require, Environ: w.env(), Program: "/proc/self/exe"}
	if f := sandbox.Detect(t.Context(), w.env()); !f.OK() {
		if os.Getenv("CI") != "" {
			t.Fatalf("%s: %s", f.Why, f.Hint)
		}
		t.Skipf("%s: %s", f.Why, f.Hint)
	}
	w.write(filepath.Join(w.Home, ".gitconfig"), "[user]\n\tname = Ann\n\temail = ann@example.org\n")
	w.write(filepath.Join(w.Home, ".profile"), "umask 022\n")
	w.write(filepath.Join(w.Home, ".ssh", "id"), "private\n")
	w.write(filepath.Join(w.Main, "a.txt"), "a\n")
	w.write(filepath.Join(w.Main, "go.mod"), "module example.org/a\n\ngo 1.24\n")
	w.write(filepath.Join(w.Main, "a.go"), "package a\n\nfunc One() int { return 1 }\n")
	w.write(filepath.Join(w.Main, "a_test.go"), "package a\n\nimport \"testing\"\n\nfunc TestOne(t *testing.T) {\n\tif One() != 1 {\n\t\tt.Fatal(t.TempDir())\n\t}\n}\n")
	w.git(w.Main, "init", "-q", "-b", "main")
	w.git(w.Main, "add", "-A")
	w.git(w.Main, "commit", "-qm", "first")
	w.git(w.Main, "worktree", "add", "-q", "-b", "task/a", w.Tree)
	w.open(w.Main)
	return w
}

// open sets the repository of the box.
func (w *world) open(dir string) {
	w.t.Helper()
	repo, err := git.Open(dir)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Box.Repo = repo
}

func (w *world) env() []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + w.Home, "TMPDIR=" + os.TempDir(), "GIT_CONFIG_NOSYSTEM=1", "GORACE=atexit_sleep_ms=0"}
}

func (w *world) write(path, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) git(dir string, args ...string) {
	w.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, w.env()
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
}

// need returns the need of a program that works in the worktree.
func (w *world) need() sandbox.Need {
	return sandbox.Need{Kind: sandbox.Verify, Dir: w.Tree, Edit: true}
}

// command returns a shell command that runs in the sandbox.
func (w *world) command(n sandbox.Need, script string) proc.Command {
	w.t.Helper()
	cell, err := w.Box.Enter(w.t.Context(), n)
	if err != nil || len(cell.Launcher) == 0 || !strings.HasPrefix(cell.Name, "bubblewrap ") {
		w.t.Fatalf("entering: got %v, %v", cell, err)
	}
	w.t.Cleanup(func() {
		if _, err := cell.Leave(); err != nil {
			w.t.Error(err)
		}
	})
	return proc.Command{Argv: proc.Shell(script), Dir: n.Dir, Env: w.env(), Launcher: cell.Launcher, Files: cell.Files, Marker: w.marker("sandboxed"), Grace: time.Second}
}

// run runs a shell command in the sandbox, and returns its exit code and output.
func (w *world) run(n sandbox.Need, script string) (int, string) {
	w.t.Helper()
	out := proc.NewCapped(64 << 10)
	c := w.command(n, script)
	c.Stdout, c.Stderr = out, out
	res, err := proc.Run(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.Code, out.String()
}

// does fails the test if a command fails, and refused if one does not.
func (w *world) does(n sandbox.Need, scripts ...string) {
	w.t.Helper()
	for _, s := range scripts {
		if code, said := w.run(n, s); code != 0 {
			w.t.Errorf("`%s`: got exit %d, want 0: %s", s, code, said)
		}
	}
}

func (w *world) refused(n sandbox.Need, scripts ...string) {
	w.t.Helper()
	for _, s := range scripts {
		if code, said := w.run(n, s); code == 0 {
			w.t.Errorf("`%s`: got exit 0, want a refusal: %s", s, said)
		}
	}
}
