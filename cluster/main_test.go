package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"github.com/trellis-tasks/trellis/cluster"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

const childVar = "TRELLIS_TEST_CLUSTER" // makes this program trellis-cluster

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(cluster.Main())
	}
	os.Exit(m.Run())
}

// server is a development server of Temporal in a process of its own.
type server struct {
	t       *testing.T
	program string
	dir     string
	port    int
	cmd     *exec.Cmd
}

// newServer starts a server, or skips the test if none is installed.
func newServer(t *testing.T) *server {
	t.Helper()
	program, err := filepath.Abs("../.tools/temporal")
	if _, serr := os.Stat(program); err != nil || serr != nil {
		t.Skip("no Temporal development server in .tools: make setup-cluster builds it")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, program: program, dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *server) address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

func (s *server) start() {
	s.t.Helper()
	s.cmd = exec.Command(s.program, "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", strconv.Itoa(s.port), "--db-filename", filepath.Join(s.dir, "db"),
		"--sqlite-pragma", "journal_mode=wal", "--sqlite-pragma", "synchronous=normal", "--log-level", "error")
	s.cmd.Env = append(os.Environ(), "HOME="+s.dir)
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	until(s.t, "the server answers", func() bool {
		c, err := client.Dial(client.Options{HostPort: s.address(), Logger: silent{}})
		if err != nil {
			return false
		}
		defer c.Close()
		_, err = c.CheckHealth(context.Background(), &client.CheckHealthRequest{})
		return err == nil
	})
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()
}

// silent is a logger that discards everything.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}

// events returns the length of the history of the workflow of a task.
func (s *server) events(task string) (n int) {
	s.t.Helper()
	c, err := client.Dial(client.Options{HostPort: s.address(), Logger: silent{}})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	for it := c.GetWorkflowHistory(s.t.Context(), "acme/"+task, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); n++ {
		if _, err := it.Next(); err != nil {
			s.t.Fatal(err)
		}
	}
	return n
}

// until waits for a condition that has no event here.
func until(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(90 * time.Second); !holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// world is a bare remote with clones that share tasks through a server.
type world struct {
	t   *testing.T
	dir string
	srv *server
}

// agent records each call, and does the work of its role. While hold exists in its folder, implement and evaluate wait for go.
const agent = `cat >/dev/null
W=%s
echo "$TRELLIS_ROLE $TRELLIS_TASK_ID" >>$W/begun
case $TRELLIS_ROLE in
implement) if test -e $W/hold; then touch $W/at-work-$TRELLIS_TASK_ID; while ! test -e $W/go; do sleep 0.1; done; fi; echo $TRELLIS_TASK_ID >work.txt; echo done;;
check) echo ALL_CHECKS_FINISH;;
accept) echo '{"criteria": [{"id": "A1", "verdict": "met", "evidence": "work.txt:1"}]}';;
evaluate) if test -e $W/unwanted; then echo '{"decision":"reject","category":"unclear","details":"better names no outcome","suggestions":["name one"],"size":"tiny","confidence":0.9}'
	else echo '{"decision":"accept","category":"","details":"A file.","suggestions":[],"size":"tiny","confidence":0.9}'; fi
	if test -e $W/hold; then touch $W/at-work-plan; while ! test -e $W/go; do sleep 0.1; done; fi;;
research) printf '## Codebase Context\n\ngreet.sh is all.\n\n## implement.jsonl\n\n- path: greet.sh, reason: the program\n\n## check.jsonl\n\n- path: test.sh, reason: its test\n\n## debug.jsonl\n\n- path: test.sh, reason: its test\n\n## Suggested Scope\n\ngreet\n\n## Verification Plan\n\n- test: sh test.sh\n\n## Risks\n\nNone.\n';;
prd) echo '{"title":"Say bye","summary":"It says bye.","requirements":["it says bye"],"acceptance":[{"criterion":"it says bye","verify":null,"level":"must"}],"technical_notes":"","out_of_scope":[]}';;
*) echo fine;;
esac
echo "$TRELLIS_ROLE $TRELLIS_TASK_ID" >>$W/ended
`

func newWorld(t *testing.T, silence time.Duration) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir(), srv: newServer(t)}
	first := &machine{world: w, dir: filepath.Join(w.dir, "first", "repo")}
	w.write("agent.sh", fmt.Sprintf(agent, w.dir))
	for name, text := range runnertest.Program {
		first.write(name, text)
	}
	first.write(".trellis/config.yaml", fmt.Sprintf("agents: {default: mine, commands: {mine: {command: [sh, %q]}}}\nverify: [\"true\"]\nlimits: {attempts: 1, rounds: 1}\nshared: {remote: origin, silence: %s}\ncluster: {address: %q, repo: acme, prefer_last: 3s}\n", filepath.Join(w.dir, "agent.sh"), silence, w.srv.address()))
	first.git("init", "-q", "-b", "main")
	first.git("add", "-A")
	first.git("commit", "-q", "-m", "first")
	first.git("clone", "-q", "--bare", first.dir, filepath.Join(w.dir, "bare.git"))
	return w
}

func (w *world) write(name, text string) {
	w.t.Helper()
	path := filepath.Join(w.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) has(name string) bool {
	_, err := os.Stat(filepath.Join(w.dir, name))
	return err == nil
}

// calls returns how often a role was called for a task, according to a file that the agents write.
func (w *world) calls(file, role, task string) int {
	data, _ := os.ReadFile(filepath.Join(w.dir, file)) // no file: nobody was asked
	return strings.Count(string(data), role+" "+task+"\n")
}

// machine is a clone in a folder of its own.
type machine struct {
	*world
	dir  string
	more []string // additional environment
}

func (w *world) machine(name string) *machine {
	w.t.Helper()
	m := &machine{world: w, dir: filepath.Join(w.dir, name, "in", "repo")}
	w.write(filepath.Join(name, ".gitconfig"), "[user]\n\tname = "+name+"\n\temail = "+name+"@example.org\n")
	(&machine{world: w, dir: w.dir}).git("clone", "-q", filepath.Join(w.dir, "bare.git"), m.dir)
	return m
}

func (m *machine) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

// env returns an environment with a home of the machine's own.
func (m *machine) env() []string {
	return append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Dir(filepath.Dir(m.dir)), "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=T", "GIT_AUTHOR_EMAIL=t@example.org", "GIT_COMMITTER_NAME=T", "GIT_COMMITTER_EMAIL=t@example.org",
		"TRELLIS_TRUST=checkout", "GORACE=atexit_sleep_ms=0", childVar + "=1"}, m.more...)
}

func (m *machine) git(args ...string) string {
	m.t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = m.dir, m.env()
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// lay makes a ready task.
func (m *machine) lay(task string) {
	m.t.Helper()
	if err := runnertest.Lay(filepath.Join(m.dir, ".trellis", "tasks", task), "ready"); err != nil {
		m.t.Fatal(err)
	}
}

// says runs trellis-cluster to its end, and returns its exit code and output.
func (m *machine) says(args ...string) (code int, said string) {
	m.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Dir, cmd.Env = m.dir, m.env()
	out, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		m.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// must is says for a command that has to succeed.
func (m *machine) must(args ...string) string {
	m.t.Helper()
	code, said := m.says(args...)
	if code != 0 {
		m.t.Fatalf("trellis-cluster %v: exit %d\n%s", args, code, said)
	}
	return said
}

// document parses the output of a command with --json, which must be JSON and nothing else.
func (m *machine) document(into any, args ...string) {
	m.t.Helper()
	if said := m.must(append(args, "--json")...); json.Unmarshal([]byte(said), into) != nil {
		m.t.Fatalf("trellis-cluster %v --json prints %s", args, said)
	}
}

// status fetches, and returns the status of a task.
func (m *machine) status(task string) string {
	m.t.Helper()
	m.says("pull")
	return m.told(task)
}

// told returns the status of a task as it was last fetched.
func (m *machine) told(task string) string {
	data, _ := os.ReadFile(filepath.Join(m.dir, ".trellis", "tasks", task, "task.json")) // no file: nothing was fetched of it
	_, rest, _ := strings.Cut(string(data), `"status": "`)
	word, _, _ := strings.Cut(rest, `"`)
	return word
}

// reaches waits until a task has a status.
func (m *machine) reaches(task, status string) {
	m.t.Helper()
	until(m.t, task+" is "+status, func() bool { return m.status(task) == status })
}

// commits returns the number of commits on the branch of a task that the remote's main branch lacks.
func (m *machine) commits(task string) string {
	_, name, _ := strings.Cut(task, "02-01-")
	return m.git("rev-list", "--count", "origin/main..feature/"+name)
}

// serving is a process that takes tasks.
type serving struct {
	*exec.Cmd
	m    *machine
	said *lines
}

// lines is the output of a process so far.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (m *machine) serve(args ...string) *serving {
	m.t.Helper()
	s := &serving{exec.Command(os.Args[0], append([]string{"serve"}, args...)...), m, &lines{}}
	s.Dir, s.Env, s.Stdout, s.Stderr = m.dir, m.env(), s.said, s.said
	s.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // some tests stop it, which must not affect the tests' own group
	if err := s.Start(); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		s.kill()
		if m.t.Failed() {
			m.t.Logf("%s:\n%s", m.dir, s.said)
		}
	})
	until(m.t, "it waits for tasks", func() bool {
		return s.pid() != 0
	})
	return s
}

// pid returns the pid of the process that takes tasks, below those that clean up after it, or 0 until it has printed it.
func (s *serving) pid() int {
	_, rest, ok := strings.Cut(s.said.String(), "at once, process ")
	if !ok {
		return 0
	}
	line, _, _ := strings.Cut(rest, "\n")
	n, _ := strconv.Atoi(strings.TrimSpace(line)) // 0 while the line is incomplete
	return n
}

// kill ends the process as if its machine lost power.
func (s *serving) kill() {
	if s.ProcessState == nil {
		_ = s.Process.Kill() // it may have ended
		_ = s.Wait()
	}
}

func (s *serving) signal(sig syscall.Signal) {
	s.m.t.Helper()
	if err := syscall.Kill(s.pid(), sig); err != nil {
		s.m.t.Fatal(err)
	}
}
