package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/mcpserver"
	"github.com/trellis-tasks/trellis/internal/programtest"
)

func TestMain(m *testing.M) {
	agentstest.Offline()
	gittest.HearSignals()
	gittest.OnDisk()
	code := m.Run()
	for _, dir := range made {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// world is a repository that clients work with.
type world struct {
	*testing.T
	*gittest.Box
	vars []string
}

// config has tasks verified by a command, and their agent played by a script.
const config = "agents: {default: rehearsal}\nverify: [sh test.sh]\nlimits: {rounds: 2, attempts: 1}\nsandbox: off\nplanning: {approval: plan}\n"

// newWorld returns a repository in which these files are committed.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	box := gittest.Empty(t)
	gittest.Gone(t, filepath.Dir(box.Dir)) // waits for detached processes before the folder is removed
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
	return &world{t, box, append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home, "TRELLIS_TRUST=checkout",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")}
}

func (w *world) task(id, doc string, files map[string]string) {
	w.Helper()
	dir := filepath.Join(".trellis", "tasks", id)
	w.Mkdir(dir)
	for name, text := range files {
		w.Mkdir(filepath.Dir(filepath.Join(dir, name)))
		w.Write(filepath.Join(dir, name), text)
	}
	w.Write(filepath.Join(dir, "task.json"), doc)
}

const prd = "# Say hello\n\n## Goal\n\nA greeting.\n\n## Acceptance Criteria\n\n- [ ] it says hello (verify: `true`)\n"

// planned creates a task that waits for approval of its plan.
func (w *world) planned(id, prd string) {
	w.Helper()
	w.task(id, `{"title": "Say hello", "name": "hello", "status": "waiting", "dev_type": "docs", "base_branch": "main", "pipeline": {"approval": {"required": true, "approvers": 1}}}`,
		map[string]string{"prd.md": prd, "implement.jsonl": "", "check.jsonl": "", "debug.jsonl": ""})
}

// options returns those of a server in this process for the world.
func (w *world) options(level mcpserver.Level, vars ...string) mcpserver.Options {
	env := &app.Env{Vars: append(append([]string{}, w.vars...), vars...), Dir: w.Dir, Now: time.Now}
	return mcpserver.Options{Tools: level, Env: env, Open: env.Open}
}

// client is a client of a server.
type client struct {
	*testing.T
	*mcp.ClientSession
}

// connect returns a client of a server in this process, which ends with the test.
func connect(t *testing.T, o mcpserver.Options) *client {
	t.Helper()
	return serve(t, mcpserver.New(o).Patient())
}

func serve(t *testing.T, s *mcpserver.Server) *client {
	t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(context.Background(), theirs) }()
	c := dial(t, ours)
	t.Cleanup(func() {
		c.Close()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return c
}

func dial(t *testing.T, transport mcp.Transport) *client {
	t.Helper()
	session, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(), transport, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &client{t, session}
}

// call calls a tool and returns its answer, and whether it refused.
func (c *client) call(tool, arguments string) (string, bool) {
	c.Helper()
	r, err := c.CallTool(c.Context(), &mcp.CallToolParams{Name: tool, Arguments: json.RawMessage(arguments)})
	if err != nil {
		c.Fatalf("%s %.200s: %v", tool, arguments, err)
	}
	said := r.Content[0].(*mcp.TextContent).Text
	if len(said) > 20<<10 {
		c.Errorf("%s %.200s answers with %d bytes", tool, arguments, len(said))
	}
	return said, r.IsError
}

// ok calls a tool that has to succeed, and decodes its answer.
func (c *client) ok(tool, arguments string, answer any) string {
	c.Helper()
	said, refused := c.call(tool, arguments)
	if refused {
		c.Fatalf("%s %.200s is refused: %s", tool, arguments, said)
	}
	if err := json.Unmarshal([]byte(said), answer); err != nil {
		c.Fatalf("%s: %v in %s", tool, err, said)
	}
	return said
}

// refused calls a tool that has to refuse with a short answer that names the next step.
func (c *client) refused(tool, arguments string, says ...string) {
	c.Helper()
	said, refused := c.call(tool, arguments)
	if !refused || len(said) > 2000 {
		c.Errorf("%s %.200s: got %.300s, want it refused in few words", tool, arguments, said)
	}
	for _, one := range append(says, "; next: ") {
		if !strings.Contains(said, one) {
			c.Errorf("%s %.200s: says %s, want %q", tool, arguments, said, one)
		}
	}
}

// program is the path of trellis, built once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "trellis-mcp-")
	if err != nil {
		return "", err
	}
	made = append(made, dir)
	path := filepath.Join(dir, "trellis")
	return path, programtest.Build("../..", path)
})

// made lists folders that are removed after all tests.
var made []string

// built returns the path of the built program.
func built(t *testing.T) string {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// until calls a tool until its answer contains want.
func (c *client) until(tool, arguments, want string) string {
	c.Helper()
	end := time.Now().Add(15 * time.Minute)
	for {
		said, refused := c.call(tool, arguments)
		if !refused && strings.Contains(said, want) {
			return said
		}
		if time.Now().After(end) {
			c.Fatalf("%s %s: waited in vain for %s, got %s", tool, arguments, want, said)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func quote(s string) string { return string(must(json.Marshal(s))) }

func must[T any](v T, err error) T {
	if err != nil {
		panic(fmt.Sprint(err))
	}
	return v
}
