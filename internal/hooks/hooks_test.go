package hooks_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/taskdir"
)

// world is a project with a task and a runner of its hooks.
type world struct {
	*testing.T
	Hooks hooks.Runner
	dir   string // of the task
	mu    sync.Mutex
	out   []string // what the runner said
}

func newWorld(t *testing.T, commands ...string) *world {
	w := &world{T: t}
	w.Hooks.Store = taskdir.Store{Root: t.TempDir()}
	task, err := w.Hooks.Store.Create(taskdir.New{Name: "mail", Title: "Log in with mail"})
	if err != nil {
		t.Fatal(err)
	}
	w.dir = task.Dir
	w.Hooks.Config = config.Hooks{AfterCreate: commands, AfterFinish: commands}
	w.Hooks.Env = append(os.Environ(), "LINEAR_KEY=hush")
	w.Hooks.Marker = "hooks-test-" + filepath.Base(w.Hooks.Store.Root)
	w.Hooks.Redact = func(s string) string { return strings.ReplaceAll(s, "hush", "***") }
	w.Hooks.Say = func(s string) { w.mu.Lock(); defer w.mu.Unlock(); w.out = append(w.out, s) }
	return w
}

func (w *world) read(name string) string {
	data, err := os.ReadFile(filepath.Join(w.Hooks.Store.Root, name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	return strings.TrimSpace(string(data))
}

// A hook finds its task in the environment, stands in the repository, and what it writes into task.json stays.
func TestHookEditsTask(t *testing.T) {
	w := newWorld(t, `sed 's/"meta": {}/"meta": {"linear": "ENG-7"}/' "$TASK_JSON_PATH" > synced && mv synced "$TASK_JSON_PATH"`,
		`grep -o ENG-7 "$TASK_JSON_PATH" > seen; printf '%s %s %s %s' "$TRELLIS_HOOK" "$TRELLIS_TASK_ID" "$TRELLIS_STATUS" "$TRELLIS_TITLE" > told; pwd -P >> seen`)
	w.Hooks.Run(t.Context(), hooks.AfterCreate, w.dir, "")
	if len(w.out) > 0 {
		t.Fatalf("it said %q", w.out)
	}
	task, err := w.Hooks.Store.Load(w.dir)
	if err != nil || !strings.Contains(string(task.Raw), `"linear": "ENG-7"`) {
		t.Errorf("got %v, and task.json\n%s", err, task.Raw)
	}
	root, err := filepath.EvalSymlinks(w.Hooks.Store.Root)
	if got, want := w.read("seen"), "ENG-7\n"+root; err != nil || got != want {
		t.Errorf("the second saw %q, want %q", got, want)
	}
	if got, want := w.read("told"), "after_create "+filepath.Base(w.dir)+" planning Log in with mail"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// However often an occasion is told of, by however many, its commands run once; the next occasion is another.
func TestOncePerOccasion(t *testing.T) {
	w := newWorld(t, "echo ran >> runs")
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { w.Hooks.Run(t.Context(), hooks.AfterFinish, w.dir, "mail/1") })
	}
	all.Wait()
	w.Hooks.Run(t.Context(), hooks.AfterFinish, w.dir, "mail/2")
	w.Hooks.Run(t.Context(), hooks.AfterCreate, w.dir, "mail/2")
	if got := strings.Count(w.read("runs"), "ran"); got != 3 || len(w.out) > 0 {
		t.Errorf("it ran %d times, want 3; it said %q", got, w.out)
	}
}

// What fails is said with the end of its output and without secrets, and those after it run.
func TestHookFails(t *testing.T) {
	w := newWorld(t, `seq 1 200000; echo "the key $LINEAR_KEY is wrong" >&2; exit 7`, "echo ran > runs", "no-such-program-of-anybody hush")
	w.Hooks.Run(t.Context(), hooks.AfterCreate, w.dir, "")
	if len(w.out) != 2 || !strings.Contains(w.out[0], "exit 7") || !strings.HasSuffix(w.out[0], "the key *** is wrong") || len(w.out[0]) > 1000 {
		t.Fatalf("it said %d things, the first %.2000q", len(w.out), w.out)
	}
	if !strings.Contains(w.out[1], "`no-such-program-of-anybody ***`") {
		t.Errorf("of the command that holds a secret it said %q", w.out[1])
	}
	if w.read("runs") != "ran" {
		t.Error("the second did not run")
	}
}

// A hook that hangs, and what it started, is ended when its time is over, or when the command is to end.
func TestHookHangs(t *testing.T) {
	script := `(sleep 3000; echo late > late) & echo begun > begun; sleep 3000`
	t.Run("its time is over", func(t *testing.T) {
		w := newWorld(t, script)
		w.Hooks.Wall = 300 * time.Millisecond
		w.Hooks.Run(t.Context(), hooks.AfterCreate, w.dir, "")
		if got := fmt.Sprint(w.out); len(w.out) != 1 || !strings.Contains(got, "longer than 300ms") {
			t.Errorf("it said %q", w.out)
		}
	})
	t.Run("the command is to end", func(t *testing.T) {
		w := newWorld(t, script, "echo ran > runs")
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for w.read("begun") == "" && t.Context().Err() == nil {
				time.Sleep(5 * time.Millisecond) // a file has no event here
			}
			cancel()
		}()
		w.Hooks.Run(ctx, hooks.AfterCreate, w.dir, "")
		if w.read("runs") != "" || w.read("begun") == "" {
			t.Error("the next one began, or the first did not")
		}
	})
}

// What a hook itself calls of trellis has no hooks: else one that makes tasks would make tasks without end.
func TestNoHooksOfHooks(t *testing.T) {
	w := newWorld(t, "echo ran > runs")
	w.Hooks.Env = append(w.Hooks.Env, hooks.Variable+"=after_create")
	w.Hooks.Run(t.Context(), hooks.AfterCreate, w.dir, "")
	if w.Hooks.Any(hooks.AfterCreate) || w.read("runs") != "" {
		t.Error("it ran")
	}
}

// Where only prd.md has a title, a hook is told that one, as people are.
func TestHookIsToldTheHeading(t *testing.T) {
	w := newWorld(t, `printf %s "$TRELLIS_TITLE" > told`)
	for name, text := range map[string]string{taskdir.TaskJSON: "{}\n", taskdir.PRD: "# Sign in with mail\n"} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.Hooks.Run(t.Context(), hooks.AfterCreate, w.dir, "")
	if got, want := w.read("told"), "Sign in with mail"; got != want {
		t.Errorf("got %q, want %q; it said %q", got, want, w.out)
	}
}
