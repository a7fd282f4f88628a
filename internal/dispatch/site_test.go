package dispatch_test

import (
	"context"
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
	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	githubtest.Main()
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(child(dir))
	}
	if err := flag.Set("test.parallel", "4"); err != nil { // the tests wait for the disk; -parallel goes before this
		panic(err)
	}
	debug.SetGCPercent(400) // little memory, much garbage
	goleak.VerifyTestMain(m)
}

// world is a repository with a small program, its test, and a script that plays the agents.
type world struct {
	*testing.T
	Site *dispatch.Site
	Dir  string
	mu   sync.Mutex
	said []string
	env  []string // of its children
}

// program is what the repository holds: greet.sh, and a test that passes.
var program = map[string]string{
	"greet.sh":               "echo \"Hello, ${1:-world}!\"\n",
	"test.sh":                "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'\n",
	"README.md":              "# greet\n",
	".trellis/.gitignore":    ".runtime/\ntasks/.new-*\n",
	".trellis/workflow.md":   "# Workflow\n",
	".trellis/spec/index.md": "# Guidelines\n",
}

func newWorld(t *testing.T, script string) *world {
	t.Helper()
	w := &world{T: t, Dir: filepath.Join(t.TempDir(), "repo")}
	for name, text := range program {
		w.write(name, text)
	}
	w.write(".trellis/rehearsal.yaml", script)
	env := append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	for _, line := range []string{"init -q -b main", "config user.name Tester", "config user.email t@example.org", "add -A", "commit -q -m first"} {
		w.git(strings.Fields(line)...)
	}
	site, err := newSite(w.Dir, env)
	if err != nil {
		t.Fatal(err)
	}
	site.Event = func(e dispatch.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if e.Message != "" {
			w.said = append(w.said, e.Message)
		}
	}
	w.Site = site
	return w
}

// newSite is the site of a repository whose agents are played.
func newSite(dir string, env []string) (*dispatch.Site, error) {
	repo, err := git.Open(dir)
	if err != nil {
		return nil, err
	}
	repo.Env = env
	cfg, _ := config.Load(config.Files{Root: repo.Main})
	cfg.Agents.Default, cfg.Verify = agents.Rehearsal, []string{"sh test.sh"}
	o := agents.Options{Environ: env, Root: repo.Main}
	return &dispatch.Site{Store: taskdir.Store{Root: repo.Main}, Repo: repo, Config: cfg, Environ: env, Build: "test",
		Agent:     func(name string) (agents.Agent, error) { return agents.New(name, o) },
		Available: func(context.Context, string) error { return nil },
		Default:   func() (string, error) { return agents.Rehearsal, nil },
		Instruct:  func(trellis.Role) (dispatch.Instructions, error) { return dispatch.Instructions{}, nil },
		LookPath:  func(p string) error { _, err := exec.LookPath(p); return err },
		Now:       time.Now}, nil
}

func (w *world) write(name, text string) {
	w.Helper()
	path := filepath.Join(w.Dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

func (w *world) read(name string) string {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(w.Dir, filepath.FromSlash(name)))
	if err != nil {
		w.Fatal(err)
	}
	return string(data)
}

func (w *world) git(args ...string) string {
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

// hand makes a task directory as a person would.
func (w *world) hand(id, prd string) string {
	w.Helper()
	dir := ".trellis/tasks/" + id + "/"
	w.write(dir+"prd.md", prd)
	w.write(dir+"implement.jsonl", `{"file": "greet.sh", "reason": "the program"}`+"\n")
	w.write(dir+"check.jsonl", `{"file": "test.sh", "reason": "its test"}`+"\n")
	w.write(dir+"task.json", `{"status": "ready"}`)
	return filepath.Join(w.Dir, filepath.FromSlash(dir))
}

func (w *world) start(dir string) dispatch.Result {
	w.Helper()
	res, err := w.Site.Start(context.Background(), dir, dispatch.RunOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return res
}

func (w *world) task(dir string) *taskdir.Task {
	w.Helper()
	t, err := w.Site.Store.Load(dir)
	if err != nil {
		w.Fatal(err)
	}
	return t
}
