// Package runnertest provides the repository, with scripted agents, in which the tests of runner and scheduler run tasks.
package runnertest

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Main runs the tests of a package or, in a child process that one of them started, the work of the child; other does what
// the package has its children do besides running a task.
func Main(m *testing.M, other func(*runner.Site) (code int, asked bool)) {
	gittest.HearSignals()
	if dir := os.Getenv(ChildDir); dir != "" {
		os.Exit(child(dir, other))
	}
	if err := flag.Set("test.parallel", "4"); err != nil { // the tests wait for the disk; -parallel goes before this
		panic(err)
	}
	debug.SetGCPercent(400) // little memory, much garbage
	gittest.VerifyTestMain(m)
}

// World is a repository with a small program, its test, and a script that plays the agents.
type World struct {
	*testing.T
	Site *runner.Site
	Dir  string
	Mu   sync.Mutex
	Said []string
	Env  []string // added to the environment of its child processes
}

// Program is the content of the repository: greet.sh, and a test that passes.
var Program = map[string]string{
	"greet.sh":               "echo \"Hello, ${1:-world}!\"\n",
	"test.sh":                "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'\n",
	"README.md":              "# greet\n",
	".trellis/.gitignore":    ".runtime/\ntasks/.new-*\n",
	".trellis/workflow.md":   "# Workflow\n",
	".trellis/spec/index.md": "# Guidelines\n",
}

func NewWorld(t *testing.T, script string) *World {
	t.Helper()
	w := &World{T: t, Dir: filepath.Join(t.TempDir(), "repo")}
	gittest.Gone(t, filepath.Dir(w.Dir))
	mould, _ := begun.LoadOrStore(script, &gittest.Mould{})
	if err := mould.(*gittest.Mould).Cast(w.Dir, func() error { w.begin(script); return nil }); err != nil {
		t.Fatal(err)
	}
	w.Git("update-index", "-q", "--refresh")
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	site, err := NewSite(w.Dir, env)
	if err != nil {
		t.Fatal(err)
	}
	site.Event = func(e runner.Event) {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if e.Message != "" {
			w.Said = append(w.Said, e.Message)
		}
	}
	w.Site = site
	return w
}

// begun holds the repositories that were made, by script.
var begun sync.Map

// begin makes the repository with its first commit. It removes the sample hooks that git puts into new repositories, so that
// there is less to check before each step of a run.
func (w *World) begin(script string) {
	w.Helper()
	for name, text := range Program {
		w.Write(name, text)
	}
	w.Write(".trellis/rehearsal.yaml", script)
	for _, line := range []string{"init -q -b main", "config user.name Tester", "config user.email t@example.org", "add -A",
		"-c maintenance.auto=false commit -q -m first"} {
		w.Git(strings.Fields(line)...)
	}
	samples, err := filepath.Glob(filepath.Join(w.Dir, ".git", "hooks", "*.sample"))
	for _, path := range samples {
		err = errors.Join(err, os.Remove(path))
	}
	if err != nil {
		w.Fatal(err)
	}
}

// NewSite returns the site of a repository with scripted agents.
func NewSite(dir string, env []string) (*runner.Site, error) {
	repo, err := git.Open(dir)
	if err != nil {
		return nil, err
	}
	repo.Env = env
	cfg, _ := config.Load(config.Files{Root: repo.Main})
	cfg.Agents.Default, cfg.Verify = agents.Rehearsal, []string{"sh test.sh"}
	o := agents.Options{Environ: env, Root: repo.Main}
	return &runner.Site{Store: taskdir.Store{Root: repo.Main}, Repo: repo, Config: cfg, Environ: env, Build: "test",
		Agent:     func(name string) (agents.Agent, error) { return agents.New(name, o) },
		Available: func(context.Context, string) error { return nil },
		Default:   func() (string, error) { return agents.Rehearsal, nil },
		Instruct:  func(trellis.Role) (runner.Instructions, error) { return runner.Instructions{}, nil },
		LookPath:  func(p string) error { _, err := exec.LookPath(p); return err },
		Now:       time.Now}, nil
}

func (w *World) Write(name, text string) {
	w.Helper()
	path := filepath.Join(w.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *World) Read(name string) string {
	w.Helper()
	return w.File(w.Dir, filepath.FromSlash(name))
}

func (w *World) Git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = w.Dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// Hand makes a task directory as a person would.
func (w *World) Hand(id, prd string) string {
	w.Helper()
	dir := ".trellis/tasks/" + id + "/"
	w.Write(dir+"prd.md", prd)
	w.Write(dir+"implement.jsonl", `{"file": "greet.sh", "reason": "the program"}`+"\n")
	w.Write(dir+"check.jsonl", `{"file": "test.sh", "reason": "its test"}`+"\n")
	w.Write(dir+"task.json", `{"status": "ready"}`)
	return filepath.Join(w.Dir, filepath.FromSlash(dir))
}

func (w *World) Start(dir string) runner.Result {
	w.Helper()
	res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return res
}

func (w *World) Task(dir string) *taskdir.Task {
	w.Helper()
	t, err := w.Site.Store.Load(dir)
	if err != nil {
		w.Fatal(err)
	}
	return t
}
