package mcp_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/mcp"
)

// world is a repository with a server and a client of it.
type world struct {
	*testing.T
	*gittest.Box
	p      *app.Project
	o      mcp.Options
	client *sdk.ClientSession
}

const config = "agents: {default: rehearsal}\nverify: [sh test.sh]\nlimits: {rounds: 2, attempts: 1}\nsandbox: off\n"

// newWorld is a repository with these files, committed.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	box := gittest.Empty(t)
	box.Write(".trellis/config.yaml", config)
	box.Write("test.sh", "exit 0\n")
	box.Write(".gitignore", ".trellis/.runtime/\n.trellis/tasks/\n")
	for name, text := range files {
		box.Mkdir(filepath.Dir(name))
		box.Write(name, text)
	}
	box.Git("add", "-A")
	box.Git("commit", "-q", "-m", "first")
	home := t.TempDir()
	vars := append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home, "TRELLIS_TRUST=checkout", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	p, err := (&app.Env{Vars: vars, Dir: box.Dir, Now: time.Now}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, Box: box, p: p, o: mcp.Options{Tools: mcp.All, Program: app.Program{Dir: box.Dir, Env: vars}, Now: time.Now, Limit: time.Minute}}
}

// connect has a client connected to a server in this process.
func (w *world) connect() *world {
	w.Helper()
	ours, theirs := sdk.NewInMemoryTransports()
	if _, err := mcp.New(w.p, w.o).Connect(w.Context(), ours, nil); err != nil {
		w.Fatal(err)
	}
	return w.dial(theirs)
}

// dial has a client connected over a transport.
func (w *world) dial(over sdk.Transport) *world {
	w.Helper()
	var err error
	if w.client, err = sdk.NewClient(&sdk.Implementation{Name: "test", Version: "1"}, nil).Connect(w.Context(), over, nil); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := w.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
			w.Errorf("closing: %v", err)
		}
	})
	return w
}

// args are what a tool is called with.
type args = map[string]any

// call calls a tool, and returns its text and whether it is an error.
func (w *world) call(tool string, a args) (said string, wrong bool) {
	w.Helper()
	res, err := w.client.CallTool(w.Context(), &sdk.CallToolParams{Name: tool, Arguments: a})
	if err != nil {
		return err.Error(), true
	}
	for _, c := range res.Content {
		said += c.(*sdk.TextContent).Text
	}
	return said, res.IsError
}

// says calls a tool that answers with all of these texts.
func (w *world) says(tool string, a args, texts ...string) string {
	w.Helper()
	said, wrong := w.call(tool, a)
	for _, text := range texts {
		if !strings.Contains(said, text) {
			w.Errorf("%s %v: got %q, want %q in it", tool, a, said, text)
		}
	}
	if wrong {
		w.Errorf("%s %v: got the error %q", tool, a, said)
	}
	return said
}

// refuses calls a tool that answers with an error that has all of these texts, in a few words.
func (w *world) refuses(tool string, a args, texts ...string) {
	w.Helper()
	said, wrong := w.call(tool, a)
	for _, text := range texts {
		if !strings.Contains(said, text) {
			w.Errorf("%s: got %q, want %q in it", tool, said, text)
		}
	}
	if !wrong || len(said) > 1000 {
		w.Errorf("%s: got %d bytes %.200q, want an error in a few words", tool, len(said), said)
	}
}

// task writes a task directory.
func (w *world) task(id, doc string, files map[string]string) {
	w.Helper()
	dir := filepath.Join(".trellis", "tasks", id)
	w.Mkdir(dir)
	for name, text := range files {
		w.Write(filepath.Join(dir, name), text)
	}
	w.Write(filepath.Join(dir, "task.json"), doc)
}

// planned is a task that waits for approval of its plan.
func (w *world) planned(id string) {
	w.Helper()
	w.task(id, `{"title": "Say hello", "name": "hello", "status": "waiting", "dev_type": "docs", "base_branch": "main", "pipeline": {"approval": {"required": true, "approvers": 1}}}`,
		map[string]string{"prd.md": "# Say hello\n\n## Goal\n\nA greeting.\n\n## Acceptance Criteria\n\n- [ ] it says hello (verify: `true`)\n", "implement.jsonl": "", "check.jsonl": "", "debug.jsonl": ""})
}

// many makes so many tasks.
func (w *world) many(n int) {
	w.Helper()
	for i := range n {
		w.task(fmt.Sprintf("02-01-task-%03d", i), fmt.Sprintf(`{"title": "Task %d", "name": "task-%03d", "status": "completed", "dev_type": "docs"}`, i, i), nil)
	}
}

// status is what task.json of a task says.
func (w *world) status(id string) string {
	w.Helper()
	t, err := w.p.Reader().Task(filepath.Join(w.p.Store.Tasks(), id))
	if err != nil {
		w.Fatal(err)
	}
	return string(t.Status)
}

// program is trellis, built once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "trellis-mcp-")
	if err != nil {
		return "", err
	}
	made = dir
	path := filepath.Join(dir, "trellis")
	cmd := exec.Command("go", "build", "-o", path, "../../cmd/trellis")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0") // as make build has it
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = errors.New(string(out))
	}
	return path, err
})

// made is a folder that is removed in the end.
var made string

func TestMain(m *testing.M) {
	code := m.Run()
	if made != "" {
		if err := os.RemoveAll(made); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}
