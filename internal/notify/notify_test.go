package notify_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/notify"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

func TestMain(m *testing.M) {
	if root := os.Getenv("NOTIFY_TEST_CHILD"); root != "" {
		watcherToKill(root)
	}
	gittest.VerifyTestMain(m)
}

// house is a repository with one task, and a clock.
type house struct {
	*testing.T
	root string
	dir  string // of the task
	mu   sync.Mutex
	now  time.Time
	said []string
}

func newHouse(t *testing.T) *house {
	h := &house{T: t, root: t.TempDir(), now: time.Now()}
	h.dir = filepath.Join(h.root, ".trellis", "tasks", "02-01-auth")
	if err := os.MkdirAll(filepath.Join(h.dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.write("task.json", `{"title": "Log in", "status": "in_progress", "pipeline": {"revision": 3}}`)
	h.write("run/journal.jsonl", "")
	return h
}

func (h *house) write(name, text string) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o644); err != nil {
		h.Fatal(err)
	}
}

func (h *house) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// teller returns the notifier that one process has for the repository.
func (h *house) teller(hooks ...config.Notify) *notify.Notifier {
	n := &notify.Notifier{Root: h.root, Env: os.Environ(), Redact: func(s string) string { return strings.ReplaceAll(s, "hunter22", "***") },
		Say: func(s string) {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.said = append(h.said, s)
		},
		Now: func() time.Time {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.now
		}}
	n.Configure(hooks)
	return n
}

func (h *house) store(n *notify.Notifier) taskdir.Store {
	return taskdir.Store{Root: h.root, Changed: n.RecordChange}
}

// becomes sets the status of the task.
func (h *house) becomes(n *notify.Notifier, status trellis.Status) {
	h.Helper()
	_, err := h.store(n).Update(h.dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		e.SetFromJournal(status)
		if status == trellis.Failed {
			e.Set("pipeline.failure", taskdir.Failure{Code: "verify_failed", Detail: "hunter22"})
		}
		return nil
	})
	if err != nil {
		h.Fatal(err)
	}
}

func (h *house) book() string {
	data, _ := os.ReadFile(filepath.Join(h.root, ".trellis", ".runtime", "notify.jsonl"))
	return string(data)
}

// server is a webhook that answers with codes, in turn, and then with 204.
type server struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

func newServer(t *testing.T, codes ...int) *server {
	s := new(server)
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.got = append(s.got, r.Header.Get("Idempotency-Key")+" "+string(body))
		code := http.StatusNoContent
		if len(codes) > 0 {
			code, codes = codes[0], codes[1:]
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.got)
}

func (s *server) hook(on ...string) config.Notify {
	return config.Notify{On: on, Webhook: s.URL + "/secret-path"}
}

// change returns the id of a post without its time.
func change(post string) string {
	id, _, _ := strings.Cut(post, " ")
	return id[:strings.LastIndexByte(id, ':')]
}

// until blocks until holds returns true, and fails the test after 15 minutes.
func (h *house) until(what string, holds func() bool) {
	h.Helper()
	for end := time.Now().Add(15 * time.Minute); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			h.Fatalf("waited in vain for %s\n%s", what, h.book())
		}
	}
}

// The fields of a message are a contract with the programs that get it.
func TestNews(t *testing.T) {
	h := newHouse(t)
	out := filepath.Join(h.root, "out")
	program := filepath.Join(h.root, "hook")
	script := "#!/bin/sh\ncat >" + out + "\necho \"$TRELLIS_TASK_ID $TRELLIS_STATUS $TRELLIS_FROM $TRELLIS_CODE $1\" >>" + out + "\n"
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	n := h.teller(config.Notify{On: []string{"failed"}, Command: []string{program, "a $b"}})
	h.becomes(n, trellis.Failed)
	n.Close(15 * time.Minute)
	text, err := os.ReadFile(out)
	if err != nil {
		t.Fatalf("%v\n%s", err, h.book())
	}
	line, rest, _ := strings.Cut(string(text), "\n")
	if rest != "02-01-auth failed in_progress verify_failed a $b\n" {
		t.Errorf("variables: got %q", rest)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(line), &fields); err != nil {
		t.Fatal(err)
	}
	delete(fields, "at")
	if id, ok := fields["id"].(string); ok {
		fields["id"] = change(id)
	}
	got, _ := json.Marshal(fields)
	want := `{"branch":"feature/auth","commit":"","dir":".trellis/tasks/02-01-auth","event":"","failure":{"code":"verify_failed","detail":"***"},"from":"in_progress",` +
		`"id":"02-01-auth@4:failed","outcome":"","pr_url":"","repo":"` + h.root + `","status":"failed","task":"02-01-auth","title":"Log in",` +
		`"usage":{"cached_tokens":0,"cost_usd":null,"input_tokens":0,"output_tokens":0,"seconds":0},"version":1,"worktree":""}`
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A task whose only title is the heading of prd.md is reported by that, as it is listed.
func TestTitleOfPRD(t *testing.T) {
	h, s, c := newHouse(t), newServer(t), newChat(t, "slack")
	who, env := c.person("slack")
	h.write("task.json", `{"status": "in_progress"}`)
	h.write("prd.md", "# Sign in with mail\n")
	n := h.teller(s.hook("failed"), who)
	n.Getenv = env
	task, err := h.store(n).Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	task.Pipeline.Usage.InputTokens = 900
	n.RecordUsage(task, trellis.Usage{}, config.Limits{Tokens: 1000})
	h.becomes(n, trellis.Failed)
	n.Close(15 * time.Minute)
	if got, want := strings.Join(s.got, "\n"), `"title":"Sign in with mail"`; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := strings.Join(c.texts(), "\n"), "budget of Sign in with mail: "; !strings.Contains(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Only the statuses in the settings are reported, each once, however often a task is seen and by whichever process.
func TestEachOnce(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	n := h.teller(s.hook("failed", "review"))
	for _, status := range []trellis.Status{trellis.Failed, trellis.Ready, trellis.InProgress, trellis.Review} {
		h.becomes(n, status)
	}
	h.until("two posts", func() bool { return s.count() == 2 })
	task, err := h.store(n).Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	n.CheckChange(task)
	n.Close(15 * time.Minute)
	next := h.teller(s.hook("failed", "review"))
	next.CheckChange(task)
	next.StartSending()
	next.Close(15 * time.Minute)
	ids := []string{}
	for _, got := range s.got {
		ids = append(ids, change(got))
	}
	if want := []string{"02-01-auth@4:failed", "02-01-auth@7:review"}; !slices.Equal(ids, want) {
		t.Errorf("got %q, want %q", ids, want)
	}
	if book := h.book(); strings.Contains(book, "secret-path") || strings.Contains(book, "hunter22") {
		t.Errorf("a secret is in the book:\n%s", book)
	}
}

// A message that failed is sent again after growing delays, and given up in the end; none of this holds up a task.
func TestTriesAgain(t *testing.T) {
	h, s := newHouse(t), newServer(t, 500, 302, 200)
	n := h.teller(s.hook("failed"))
	h.becomes(n, trellis.Failed)
	for want := range 3 {
		h.until("a try", func() bool { return s.count() == want+1 && strings.Count(h.book(), `"hook"`) == want+1 })
		h.pass(5 * time.Minute)
		n.StartSending()
	}
	n.Close(15 * time.Minute)
	if s.count() != 3 {
		t.Errorf("told %d times", s.count())
	}
	dead := newServer(t)
	dead.Server.Close()
	n = h.teller(dead.hook("review"))
	h.becomes(n, trellis.Review)
	for want := range notify.Tries {
		h.until("a try", func() bool { return strings.Count(h.book(), `"hook"`) == want+4 })
		h.pass(24 * time.Hour)
		n.StartSending()
	}
	n.Close(15 * time.Minute)
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.said) != 1 || !strings.Contains(h.said[0], "could not be notified that 02-01-auth is review") || strings.Contains(h.said[0]+h.book(), "secret-path") {
		t.Errorf("said %q\n%s", h.said, h.book())
	}
}

// What a killed process left unsent is sent by the next one, whether the change is in the book or not.
func TestAfterACrash(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	n := h.teller(s.hook("failed", "review", "completed"))
	n.Late = true // nothing is sent, as if the process were killed
	h.becomes(n, trellis.Failed)
	none := &notify.Notifier{} // as if killed after task.json was written and before the book was
	h.becomes(none, trellis.Ready)
	h.becomes(none, trellis.Review)
	next := h.teller(s.hook("failed", "review", "completed"))
	h.becomes(next, trellis.Completed) // its record says that the task was in review before
	h.until("all of it", func() bool { return s.count() == 3 })
	next.Close(15 * time.Minute)
	h.write("task.json", strings.Replace(h.read("task.json"), "completed", "failed", 1)) // by hand
	last := h.teller(s.hook("failed", "review", "completed"))
	task, err := h.store(last).Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	last.CheckChange(task)
	last.CheckChange(task)
	last.Close(15 * time.Minute)
	var got []string
	for _, text := range s.got {
		got = append(got, change(text))
	}
	if want := []string{"02-01-auth@4:failed", "02-01-auth@6:review", "02-01-auth@7:completed", "02-01-auth@7:failed"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q\n%s", got, want, h.book())
	}
}

func (h *house) read(name string) string {
	data, err := os.ReadFile(filepath.Join(h.dir, name))
	if err != nil {
		h.Fatal(err)
	}
	return string(data)
}

// Tasks that existed before are not reported, but one is that ran since, in a process that was killed.
func TestTasksNeverHeardOf(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	h.write("task.json", `{"status": "review"}`)
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(filepath.Join(h.dir, "task.json"), old, old); err != nil {
		t.Fatal(err)
	}
	n := h.teller(s.hook("review"))
	task, err := h.store(n).Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	n.CheckChange(task)
	h.pass(-time.Minute)
	other := *task
	other.ID, other.Dir = "02-02-new", filepath.Join(filepath.Dir(h.dir), "02-02-new")
	if err := os.MkdirAll(filepath.Join(other.Dir, "run"), 0o755); err != nil {
		t.Fatal(err)
	}
	soon := time.Now().Add(time.Minute)
	for _, name := range []string{"task.json", "run/journal.jsonl"} {
		path := filepath.Join(other.Dir, name)
		if err := errors.Join(os.WriteFile(path, []byte(`{"status": "review"}`), 0o644), os.Chtimes(path, soon, soon)); err != nil {
			t.Fatal(err)
		}
	}
	n.CheckChange(&other)
	n.Close(15 * time.Minute)
	if len(s.got) != 1 || !strings.HasPrefix(s.got[0], "02-02-new@") {
		t.Errorf("got %q", s.got)
	}
}

// A hook that hangs, a folder that can't be written and a full disk do not keep a task from its status.
func TestNothingIsStopped(t *testing.T) {
	h := newHouse(t)
	n := h.teller(config.Notify{On: []string{"failed", "ready"}, Command: []string{"sleep", "300"}})
	begin := time.Now()
	h.becomes(n, trellis.Failed)
	n.Disk = &durable.Disk{Fault: func(step, path string) error { return errors.New("the disk is full") }}
	h.becomes(n, trellis.Ready)
	n.Close(100 * time.Millisecond)
	if took := time.Since(begin); took > 2*time.Minute {
		t.Errorf("it took %v", took)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !slices.ContainsFunc(h.said, func(s string) bool { return strings.Contains(s, "the disk is full") }) {
		t.Errorf("said %q", h.said)
	}
}

// The book stays small, and loses nothing that is still to be sent.
func TestBookStaysSmall(t *testing.T) {
	h, s := newHouse(t), newServer(t)
	n := h.teller(s.hook("failed"))
	n.Late = true
	h.becomes(n, trellis.Failed)
	task, err := h.store(n).Load(h.dir)
	if err != nil {
		t.Fatal(err)
	}
	filler := strings.Repeat("x", 100)
	path := filepath.Join(h.root, ".trellis", ".runtime", "notify.jsonl")
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "{\"kind\":\"status\",\"id\":\"02-01-auth@%d:ready\",\"task\":\"02-01-auth\",\"status\":\"ready\",\"error\":%q}\n", i+5, filler)
	}
	if err := os.WriteFile(path, []byte(h.book()+many.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	n.CheckChange(task) // the book does not say that it failed
	if len(h.book()) > 4000 {
		t.Errorf("the book has %d bytes", len(h.book()))
	}
	n.Close(15 * time.Minute)
	if len(s.got) != 1 || !strings.HasPrefix(s.got[0], "02-01-auth@4:failed") {
		t.Errorf("got %q\n%s", s.got, h.book())
	}
}

// Edge S2: a program that somebody else's checkout changed since is not run; the message waits until a program may be run.
func TestProgramThatMayNotRun(t *testing.T) {
	h := newHouse(t)
	file := filepath.Join(h.root, "told")
	n := h.teller(config.Notify{On: []string{"review"}, Command: []string{"touch", file}})
	n.Allowed = func(context.Context) error { return errors.New("it came with a commit of Mallory's") }
	h.becomes(n, trellis.Review)
	n.Close(15 * time.Minute)
	if _, err := os.Stat(file); err == nil {
		t.Fatal("it was run")
	}
	h.pass(time.Hour)
	n = h.teller(config.Notify{On: []string{"review"}, Command: []string{"touch", file}})
	n.StartSending()
	n.Close(15 * time.Minute)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("the news is lost: %v, %q", err, h.said)
	}
}

// What a program prints when it fails is reported after its exit code, and nothing if it prints nothing.
func TestProgramThatFails(t *testing.T) {
	for script, want := range map[string]string{"exit 1": `"error":"exit 1"`, "echo no >&2; exit 1": `"error":"exit 1: no"`} {
		h := newHouse(t)
		n := h.teller(config.Notify{On: []string{"failed"}, Command: []string{"sh", "-c", script}})
		h.becomes(n, trellis.Failed)
		n.Close(15 * time.Minute)
		if !strings.Contains(h.book(), want) {
			t.Errorf("%s: got %s, want %s in it", script, h.book(), want)
		}
	}
}
