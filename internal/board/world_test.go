package board_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/board"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/programtest"
)

const key = "KEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKEYKEY"

// world is a repository with a board.
type world struct {
	*testing.T
	*gittest.Box
	p    *app.Project
	o    board.Options
	url  string // without the key
	stop context.CancelCauseFunc
	gone chan error
}

// config has tasks verified by a command, and their agent played by a script.
const config = "agents: {default: rehearsal}\nverify: [sh test.sh]\nlimits: {rounds: 3}\n"

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
	vars := append(os.Environ(), "HOME="+home, "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home, "TRELLIS_TRUST=checkout", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org")
	p, err := (&app.Env{Vars: vars, Dir: box.Dir, Now: time.Now}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &world{T: t, Box: box, p: p, o: board.Options{Address: board.Address{Bind: board.Loopback}, Dir: box.Dir, Key: key, Now: time.Now}}
}

// serve serves the board until end is called or the test ends.
func (w *world) serve() *world {
	w.Helper()
	ctx, stop := context.WithCancelCause(context.Background())
	w.stop, w.gone = stop, make(chan error, 1)
	ready := make(chan string, 1)
	w.o.Ready = func(url string) { ready <- url }
	go func() { w.gone <- board.Serve(ctx, w.p, w.o) }()
	select {
	case url := <-ready:
		w.url, _, _ = strings.Cut(url, "/#")
	case err := <-w.gone:
		w.Fatal(err)
	}
	w.Cleanup(w.end)
	return w
}

// errEnd is the cause with which tests end a board.
var errEnd = errors.New("enough")

func (w *world) end() {
	if w.stop == nil {
		return
	}
	w.stop(errEnd)
	if err := <-w.gone; !errors.Is(err, errEnd) {
		w.Errorf("the board ended with %v, want %v", err, errEnd)
	}
	w.stop = nil
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

// planned creates a task that waits for approval of its plan.
func (w *world) planned(id string) {
	w.task(id, `{"title": "Say hello", "name": "hello", "status": "waiting", "dev_type": "docs", "base_branch": "main", "pipeline": {"approval": {"required": true, "approvers": 1}}}`,
		map[string]string{"prd.md": "# Say hello\n\n## Goal\n\nA greeting.\n\n## Acceptance Criteria\n\n- [ ] it says hello (verify: `true`)\n", "implement.jsonl": "", "check.jsonl": "", "debug.jsonl": ""})
}

// ask sends a request with the key, and returns the status code and the body of the answer.
func (w *world) ask(method, path string, change func(*http.Request), form ...string) (int, string) {
	w.Helper()
	req, err := http.NewRequest(method, w.url+path, strings.NewReader(strings.Join(form, "&")))
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	if len(form) > 0 {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if change != nil {
		change(req)
	}
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		w.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		w.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// program is the path of trellis, built once for all tests.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "trellis-board-")
	if err != nil {
		return "", err
	}
	made = append(made, dir)
	path := filepath.Join(dir, "trellis")
	return path, programtest.Build("../..", path)
})

// made lists folders that are removed after all tests.
var made []string
