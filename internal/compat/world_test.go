package compat

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// build is the build of the program that recorded journals name. A run of the same build must have the same inputs to the
// letter, so a changed payload shows; testdata/README.md says what to do when one has to change.
const build = "recorded"

// world is a folder with a repository, a remote, and what Trellis puts beside them.
type world struct {
	*testing.T
	Root string // the folder, without symbolic links
	Dir  string // the repository
	Env  []string
	Site *runner.Site
}

func newWorld(t *testing.T) *world {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Root: root, Dir: filepath.Join(root, "repo")}
	w.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_DATE=2025-01-01T10:00:00Z", "GIT_COMMITTER_DATE=2025-01-01T10:00:00Z")
	return w
}

// open opens the site of the repository, whose agents are played, and applies the configuration of the case.
func (w *world) open(configure func(*runner.Site)) {
	w.Helper()
	repo, err := git.Open(w.Dir)
	if err != nil {
		w.Fatal(err)
	}
	repo.Env = w.Env
	cfg, _ := config.Load(config.Files{Root: repo.Main})
	cfg.Agents.Default, cfg.Verify = agents.Rehearsal, []string{"sh test.sh"}
	o := agents.Options{Environ: w.Env, Root: repo.Main}
	w.Site = &runner.Site{Store: taskdir.Store{Root: repo.Main}, Repo: repo, Config: cfg, Environ: w.Env, Build: build,
		Agent:     func(name string) (agents.Agent, error) { return agents.New(name, o) },
		Available: func(context.Context, string) error { return nil },
		Default:   func() (string, error) { return agents.Rehearsal, nil },
		Instruct:  func(trellis.Role) (runner.Instructions, error) { return runner.Instructions{}, nil },
		LookPath:  func(p string) error { _, err := exec.LookPath(p); return err },
		Now:       time.Now}
	if configure != nil {
		configure(w.Site)
	}
}

// clock returns a clock that begins at a fixed time and advances by a millisecond whenever it is read.
func clock() func() time.Time {
	var looks atomic.Int64
	return func() time.Time {
		return time.Date(2025, 1, 1, 10, 0, 0, 0, time.UTC).Add(time.Duration(looks.Add(1)) * time.Millisecond)
	}
}

func (w *world) path(name string) string { return filepath.Join(w.Root, filepath.FromSlash(name)) }

func (w *world) write(name, text string) {
	w.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil {
		w.Fatal(err)
	}
	return string(data)
}

func (w *world) git(dir string, args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.path(dir), w.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

func (w *world) glob(pattern string) []string {
	w.Helper()
	found, err := filepath.Glob(w.path(pattern))
	if err != nil {
		w.Fatal(err)
	}
	return found
}
