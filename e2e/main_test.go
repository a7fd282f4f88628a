// Package e2e runs the built program as users do: with the real agent programs against a scripted model,
// and on a terminal.
package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/programtest"
)

// hang is after how long a test takes something for hung: less than the 3,000 s for which its processes stay.
const hang = agentstest.Hang

// program is the built trellis.
var program string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == attacker {
		os.Exit(attackBy(os.Args[1:]))
	}
	agentstest.Offline()
	gittest.HearSignals()
	gittest.OnDisk()                                       // the agents are large, and /dev/shm is another in the sandbox
	if err := flag.Set("test.parallel", "4"); err != nil { // the tests wait for processes; -parallel goes before this
		panic(err)
	}
	dir, err := os.MkdirTemp("", "trellis-e2e-")
	if err == nil {
		program = filepath.Join(dir, "trellis")
		err = programtest.Build("..", program)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// site is a repository and the environment to run trellis in.
type site struct {
	testing.TB
	Dir string
	Env []string
}

// newSite is a repository with a small program and its test, and .trellis as init makes it.
func newSite(t testing.TB, env []string, agent string) *site {
	t.Helper()
	s := &site{t, filepath.Join(t.TempDir(), "repo"), env}
	gittest.Gone(t, filepath.Dir(s.Dir))
	for name, text := range map[string]string{
		"greet.sh": "echo \"Hello, ${1:-world}!\"\n", "README.md": "# greet\n\n`sh greet.sh NAME` says hello.\n",
		"test.sh": "test \"$(sh greet.sh Ada)\" = 'Hello, Ada!'\n",
	} {
		s.write(name, text)
	}
	s.run("git", "init", "-q", "-b", "main")
	s.run("git", "add", "-A")
	s.run("git", "commit", "-q", "-m", "first")
	s.trellis(0, "init", "--agent", agent)
	which := "default: " + agent
	if agent == agentstest.Gemini { // no kind of its own: a command that speaks a protocol
		command, err := json.Marshal(agentstest.GeminiCommand().Argv)
		if err != nil {
			t.Fatal(err)
		}
		which += fmt.Sprintf(", commands: {gemini: {type: acp, command: %s, env_pass: [GEMINI_API_KEY, GOOGLE_GEMINI_BASE_URL]}}", command)
	}
	s.write(".trellis/config.yaml", "agents: {"+which+"}\nverify: [sh test.sh]\nlimits: {attempts: 1, rounds: 2, idle: 10m}\n")
	s.run("git", "add", "-A")
	s.run("git", "commit", "-q", "-m", "trellis")
	return s
}

func (s *site) write(name, text string) {
	s.Helper()
	path := filepath.Join(s.Dir, filepath.FromSlash(name))
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		s.Fatal(err)
	}
}

func (s *site) read(name string) string {
	s.Helper()
	data, err := os.ReadFile(filepath.Join(s.Dir, filepath.FromSlash(name)))
	if err != nil {
		s.Fatal(err)
	}
	return string(data)
}

// run runs a program that has to succeed.
func (s *site) run(name string, args ...string) string {
	s.Helper()
	code, out, errs := s.try(name, args...)
	if code != 0 {
		s.Fatalf("%s %v: exit %d\n%s%s", name, args, code, out, errs)
	}
	return strings.TrimSpace(out)
}

// trellis runs a command that has to end with this code, and returns its standard output and error.
func (s *site) trellis(want int, args ...string) (string, string) {
	s.Helper()
	code, out, errs := s.try(program, args...)
	if code != want {
		s.Fatalf("trellis %v: exit %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return strings.TrimSpace(out), errs
}

// apart has a program run in a group of its own. Agents stop and kill Trellis here: where one of a group is stopped and the last parent
// from outside of it dies, the kernel hangs up on the whole group, which would be all the tests.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

func (s *site) try(name string, args ...string) (int, string, string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = s.Dir, s.Env
	cmd.SysProcAttr = apart()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatalf("%s %v: %v", name, args, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

// untouched is what must not change in the main checkout: HEAD, index, and all outside of the tasks and the
// runtime folder.
func (s *site) untouched() string {
	s.Helper()
	return s.run("git", "rev-parse", "HEAD") + s.run("git", "ls-files", "-s") +
		s.run("git", "status", "--porcelain", "--ignored", "--", ":!.trellis/tasks", ":!.trellis/.runtime")
}

// hand makes a ready task as a person would.
func (s *site) hand(id string) {
	s.Helper()
	dir := ".trellis/tasks/" + id + "/"
	s.write(dir+"prd.md", "# Say bye\n\n## Acceptance Criteria\n\n- [ ] greet.sh --bye says Bye\n")
	s.write(dir+"implement.jsonl", `{"file": "greet.sh", "reason": "the program"}`+"\n")
	s.write(dir+"check.jsonl", `{"file": "test.sh", "reason": "its test"}`+"\n")
	s.write(dir+"task.json", `{"status": "ready"}`)
}
