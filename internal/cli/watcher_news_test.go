package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/pulse"
)

// team is a repository with notifications about watchers and budgets, and records each message.
type team struct {
	*gitWorld
	mu   sync.Mutex
	got  []string
	slow time.Duration // how long the endpoint takes to answer
}

func newTeam(t *testing.T, roles, settings string) *team {
	w := &team{gitWorld: newGitWorld(t, realTrellis(t))}
	server := httptest.NewServer(http.HandlerFunc(func(out http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.mu.Lock()
		slow := w.slow
		w.got = append(w.got, string(body))
		w.mu.Unlock()
		time.Sleep(slow)
		_, _ = io.WriteString(out, "ok")
	}))
	t.Cleanup(server.Close)
	w.Env = append(w.Env, "CHAT_URL="+server.URL+"/services/T0SECRETPATH")
	w.write(".trellis/config.yaml", gitFaultConfig+settings+"notify: [{kind: slack, url_env: CHAT_URL, on: [watcher, budget]}]\n")
	w.write(".trellis/rehearsal.yaml", roles)
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "tell people")
	return w
}

// told returns the number of messages that contain a text.
func (w *team) told(text string) (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, message := range w.got {
		if strings.Contains(message, text) {
			n++
		}
	}
	return n
}

func (w *team) until(what string, done func() bool) {
	w.Helper()
	for end := time.Now().Add(15 * time.Minute); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			w.Fatalf("%s: not within minutes", what)
		}
	}
}

// watching starts a watcher and waits for its own heartbeat, not one that an earlier watcher left.
func (w *team) watching(args ...string) (cmd *exec.Cmd, said *bytes.Buffer) {
	w.Helper()
	before := w.beat().PID
	cmd, said = exec.Command(realTrellis(w.T), append([]string{"watch"}, args...)...), new(bytes.Buffer)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.Dir, w.Env, said, said
	if err := cmd.Start(); err != nil {
		w.Fatal(err)
	}
	w.until("a beat", func() bool {
		now := w.beat().PID
		return now != 0 && now != before && pulse.Look(w.Dir, time.Now()).Beat.PID != 0
	})
	return cmd, said
}

func (w *team) beat() (b pulse.Beat) {
	data, err := os.ReadFile(pulse.File(w.Dir))
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		return pulse.Beat{}
	}
	return b
}

// end stops a watcher as a person does.
func (w *team) end(cmd *exec.Cmd) {
	w.Helper()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		w.Fatal(err)
	}
	_ = cmd.Wait()
}

// kill kills a watcher.
func (w *team) kill(cmd *exec.Cmd) {
	w.Helper()
	if err := syscall.Kill(w.beat().PID, syscall.SIGKILL); err != nil {
		w.Fatal(err)
	}
	_ = cmd.Wait()
}

const resting = `roles: {implement: [{run: ["sleep 3000"]}]}` + "\n"

// The message that the watcher stopped is sent even to a slow endpoint, and the watcher says what it waits for.
func TestLastWordOfAWatcher(t *testing.T) {
	t.Parallel()
	w := newTeam(t, resting, "")
	cmd, said := w.watching()
	w.mu.Lock()
	w.slow = 1500 * time.Millisecond
	w.mu.Unlock()
	w.end(cmd)
	book, err := os.ReadFile(w.path(".trellis/.runtime/notify.jsonl"))
	if err != nil || w.told("the watcher: stopped") != 1 || !strings.Contains(string(book), `"kind":"sent"`) {
		t.Errorf("told %q, %v\n%s\n%s", w.got, err, book, said)
	}
	if !strings.Contains(said.String(), "telling people that the watcher stopped, for 10s at most; Ctrl-C ends it at once") {
		t.Errorf("it said %s", said)
	}
}

// A watcher that was killed is reported once, by the next one. A killed watch --once is not reported.
func TestKilledWatcherIsTold(t *testing.T) {
	t.Parallel()
	w := newTeam(t, resting, "")
	cmd, _ := w.watching("--once")
	w.kill(cmd)
	for n, want := range []int{0, 1, 1} {
		cmd, said := w.watching()
		if n == 0 {
			w.kill(cmd)
			continue
		}
		w.end(cmd)
		if got := w.told("it was killed, or the machine stopped"); got != want {
			t.Errorf("start %d: told %d times, want %d: %q\n%s", n+1, got, want, w.got, said)
		}
	}
}

// While the watcher works, each budget of the day is reported once when it is used up or nearly so.
func TestBudgetIsTold(t *testing.T) {
	t.Parallel()
	w := newTeam(t, "roles: {}\n", "limits: {day_tokens: 2000, day_cost_usd: 0.6}\n")
	w.write("../agent.sh", `cat >/dev/null
echo '{"type": "usage", "usage": {"input_tokens": 900, "output_tokens": 200, "cost_usd": 0.25}}'
test "$TRELLIS_ROLE" != implement || echo x >>new.txt
echo '{"type": "result", "text": "done"}'
`)
	path := ".trellis/config.yaml"
	config, err := os.ReadFile(w.path(path))
	if err != nil {
		t.Fatal(err)
	}
	w.write(path, strings.Replace(string(config), "{default: rehearsal}", "{default: mine, commands: {mine: {command: [sh, "+w.path("../agent.sh")+"], output: events}}}", 1))
	w.git("commit", "-q", "-a", "-m", "another agent")
	cmd, said := w.watching()
	w.until("both are told", func() bool { return w.told("$0.50 of $0.60") == 1 && w.told("2200 of 2000 tokens") == 1 })
	w.end(cmd)
	if w.told("$0.50 of $0.60") != 1 || w.told("2200 of 2000 tokens") != 1 {
		t.Errorf("told %q\n%s", w.got, said)
	}
}
