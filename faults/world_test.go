package faults

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/gittest"
)

// world is a folder with a repository, a home, and a log of the calls of agents.
type world struct {
	testing.TB
	Root string // the folder; the repository is repo in it
	Env  []string
}

// script plays the agents: the first work breaks the project's test, and is debugged. Each call writes a line outside of
// the repository.
const script = `
roles:
  implement:
    - run: ["echo implement >> $TRELLIS_REPO/../calls.log"]
      files: {greet.sh: "echo Bye\n"}
      answer: done
  check:
    - run: ["echo check >> $TRELLIS_REPO/../calls.log"]
      answer: fine
  debug:
    - run: ["echo debug >> $TRELLIS_REPO/../calls.log"]
      files: {greet.sh: "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"}
      answer: mended
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "greet.sh:1"}]}
`

// newWorld returns a repository with a small program and its test, and .trellis with the script.
func newWorld(t testing.TB, script string) *world {
	t.Helper()
	return openWorld(t, t.TempDir()).lay(script)
}

// laid has a repository for each script of agents, from which all later worlds with that script are copied.
var laid = struct {
	sync.Mutex
	at map[string]string
}{at: map[string]string{}}

func (w *world) lay(script string) *world {
	w.Helper()
	laid.Lock()
	defer laid.Unlock()
	if laid.at[script] == "" {
		dir, err := os.MkdirTemp(filepath.Dir(program), "laid-")
		if err != nil {
			w.Fatal(err)
		}
		first := &world{w.TB, dir, w.Env}
		first.make(script)
		laid.at[script] = first.path("repo")
	}
	if out, err := exec.Command("cp", "-a", laid.at[script], w.path("repo")).CombinedOutput(); err != nil {
		w.Fatalf("%v: %s", err, out)
	}
	return w
}

// make makes the repository with a script.
func (w *world) make(script string) {
	w.Helper()
	w.fill(map[string]string{
		"repo/greet.sh": "echo \"Hello, ${1:-world}!\"\n", "repo/README.md": "# greet\n",
		"repo/test.sh":             "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'\n",
		"repo/.trellis/.gitignore": ".runtime/\ntasks/.new-*\n", "repo/.trellis/workflow.md": "# Workflow\n", "repo/.trellis/spec/index.md": "# Guidelines\n",
		"repo/.trellis/config.yaml":    "agents: {default: rehearsal}\nverify: [sh test.sh]\n",
		"repo/.trellis/rehearsal.yaml": script,
	})
	w.git("init", "-q", "-b", "main")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "first")
}

// openWorld returns the world in root, which has no repository until lay is called.
func openWorld(t testing.TB, root string) *world {
	gittest.Gone(t, root)
	when := "2026-01-02T03:04:05Z" // so that all worlds begin at the same commit
	return &world{t, root, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "TMPDIR=" + root, "GORACE=atexit_sleep_ms=0", "GOGC=" + os.Getenv("GOGC"), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org",
		"GIT_AUTHOR_DATE=" + when, "GIT_COMMITTER_DATE=" + when, "FAULTS_ROOT=" + root, "FAULTS_CLOCK=" + filepath.Join(root, "clock")}}
}

func (w *world) path(name string) string { return filepath.Join(w.Root, filepath.FromSlash(name)) }

func (w *world) fill(files map[string]string) {
	w.Helper()
	for name, text := range files {
		if err := errors.Join(os.MkdirAll(filepath.Dir(w.path(name)), 0o755), os.WriteFile(w.path(name), []byte(text), 0o644)); err != nil {
			w.Fatal(err)
		}
	}
}

// read returns a file of the world, or "" if it does not exist.
func (w *world) read(name string) string {
	w.Helper()
	data, err := os.ReadFile(w.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		w.Fatal(err)
	}
	return string(data)
}

func (w *world) git(args ...string) string {
	w.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = w.path("repo"), w.Env
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// task makes a ready task as a person would; files are added to it or replace those that every task has.
func (w *world) task(id string, files map[string]string) {
	w.Helper()
	dir := "repo/.trellis/tasks/" + id + "/"
	w.fill(map[string]string{
		dir + "prd.md":          "# Say bye\n\n## Acceptance Criteria\n\n- [ ] greet.sh --bye says Bye\n- [ ] it still greets\n  verify: `sh greet.sh Ada | grep -q Hello`\n",
		dir + "implement.jsonl": `{"file": "greet.sh", "reason": "the program"}` + "\n",
		dir + "check.jsonl":     `{"file": "test.sh", "reason": "its test"}` + "\n",
		dir + "task.json":       `{"status": "ready"}`,
	})
	for name, text := range files {
		w.fill(map[string]string{dir + name: text})
	}
}

// ended is the result of a command.
type ended struct {
	Code int // -1: it was killed by a signal
	Said string
}

// limit is the longest time that a command may take. The longest back-off that a run waits for is ten seconds.
const limit = 15 * time.Minute

// trellis runs the command to its end. more has additional variables of its environment, which name the fault.
func (w *world) trellis(args []string, more ...string) ended {
	w.Helper()
	return w.wait(w.begin(args, more...))
}

// process is a running command.
type process struct {
	*exec.Cmd
	out *os.File // not a pipe, which a surviving process would keep open
}

func (w *world) begin(args []string, more ...string) *process {
	w.Helper()
	out, err := os.CreateTemp(w.Root, "said-*")
	if err != nil {
		w.Fatal(err)
	}
	p := &process{exec.Command(program, args...), out}
	p.Dir, p.Env, p.Stdout, p.Stderr = w.path("repo"), append(append([]string{}, w.Env...), more...), out, out
	p.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.Start(); err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) wait(p *process) ended {
	w.Helper()
	hung := time.AfterFunc(limit, func() { _ = p.Process.Kill() })
	err := p.Wait()
	if !hung.Stop() {
		w.Errorf("%v: no end after %v", p.Args[1:], limit)
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		w.Fatal(err)
	}
	data, err := os.ReadFile(p.out.Name())
	if err := errors.Join(err, p.out.Close(), os.Remove(p.out.Name())); err != nil {
		w.Fatal(err)
	}
	return ended{p.ProcessState.ExitCode(), string(data)}
}

// again runs the command after a kill. A process that the kill left may still be dying and hold the lock: again retries
// for some moments.
func (w *world) again(args []string, more ...string) (e ended) {
	w.Helper()
	const moments = 100
	for range moments {
		if e = w.trellis(args, more...); e.Code != 11 {
			return e
		}
		time.Sleep(20 * time.Millisecond)
	}
	return e
}

// processes returns the processes that have the world in their environment.
func (w *world) processes() (list []string) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		w.Skipf("this system has no /proc to look for processes in: %v", err)
	}
	for _, e := range entries {
		env, err := os.ReadFile("/proc/" + e.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte(w.Root+"/repo")) || bytes.Contains(env, []byte("HOME="+w.Root)) {
			line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
			list = append(list, fmt.Sprintf("%s %q", e.Name(), line))
		}
	}
	return list
}
