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
	"sync"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/agents/agentstest"
	"github.com/trellis-tasks/trellis/internal/gittest"
	"github.com/trellis-tasks/trellis/internal/programtest"
)

// hang is the time after which a test considers something hung: less than the 3,000 s for which its processes sleep.
const hang = agentstest.Hang

// program is the built trellis.
var program string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == attacker {
		os.Exit(attackBy(os.Args[1:]))
	}
	agentstest.Offline()
	gittest.HearSignals()
	gittest.OnDisk()                                       // the agents are large, and the sandbox has a /dev/shm of its own
	if err := flag.Set("test.parallel", "4"); err != nil { // the tests wait for processes; the flag -parallel overrides this
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

// site is a repository with the environment to run trellis in.
type site struct {
	testing.TB
	Dir string
	Env []string
}

// laid returns the repository that all sites are copied from: a small program and its test, and .trellis as init makes it.
var laid = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(program), "laid")
	out, err := exec.Command("sh", "-c", `set -e
mkdir -p "$1/repo"; cd "$1/repo"
export HOME="$1" GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.org GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.org
printf 'echo "Hello, ${1:-world}!"\n' > greet.sh
printf '# greet\n\n\140sh greet.sh NAME\140 says hello.\n' > README.md
printf "test \"\$(sh greet.sh Ada)\" = 'Hello, Ada!'\n" > test.sh
git init -q -b main; git add -A; git commit -q -m first
"$2" init --agent rehearsal
printf '%s' "$3" > .trellis/config.yaml
git add -A; git commit -q -m trellis`, "sh", dir, program, settingsOf("default: rehearsal")).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return filepath.Join(dir, "repo"), nil
})

// settingsOf returns the settings of a site with these agents.
func settingsOf(agents string) string {
	return "agents: {" + agents + "}\nverify: [sh test.sh]\nlimits: {attempts: 1, rounds: 2, idle: 10m}\n"
}

// newSite returns a copy of that repository, with settings for agent.
func newSite(t testing.TB, env []string, agent string) *site {
	t.Helper()
	from, err := laid()
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t, filepath.Join(t.TempDir(), "repo"), append(env, "GOGC="+os.Getenv("GOGC"))}
	gittest.Gone(t, filepath.Dir(s.Dir))
	if out, err := exec.Command("cp", "-a", from, s.Dir).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if agent != "rehearsal" {
		s.employ(agent)
	}
	return s
}

// employ replaces the settings by those for an agent, and commits them.
func (s *site) employ(agent string) {
	s.Helper()
	which := "default: " + agent
	if agent == agentstest.Gemini { // not a built-in agent: a command that speaks a protocol
		command := agentstest.GeminiCommand()
		argv, err := json.Marshal(command.Argv)
		if err != nil {
			s.Fatal(err)
		}
		which += fmt.Sprintf(", commands: {gemini: {type: acp, command: %s, env_pass: [%s]}}", argv, strings.Join(command.EnvPass, ", "))
	}
	s.write(".trellis/config.yaml", settingsOf(which))
	s.run("git", "commit", "-q", "-a", "-m", "agent")
}

// rehearse lets a script play the roles that judge, which finds the criterion met: only the work of the agent itself is under test.
func (s *site) rehearse(criterion string) {
	s.Helper()
	s.write(".trellis/config.yaml", strings.Replace(s.read(".trellis/config.yaml"), "agents: {", "agents: {roles: {check: {agent: rehearsal}, accept: {agent: rehearsal}}, ", 1))
	s.write(".trellis/rehearsal.yaml", fmt.Sprintf("roles:\n  check: [{answer: fine}]\n  accept: [{answer: {criteria: [{id: %s, verdict: met, evidence: \"greet.sh:1\"}]}}]\n", criterion))
}

// initialized lets trellis init make .trellis again for a real agent, which starts each of the agent's programs a few times.
func (s *site) initialized(agent string) {
	s.Helper()
	s.run("rm", "-r", ".trellis")
	s.trellis(0, "init", "--agent", agent)
	s.run("git", "add", "-A")
	s.run("git", "commit", "-q", "-m", "init")
	s.employ(agent)
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

// run runs a program that must succeed, and returns its standard output.
func (s *site) run(name string, args ...string) string {
	s.Helper()
	code, out, errs := s.try(name, args...)
	if code != 0 {
		s.Fatalf("%s %v: exit %d\n%s%s", name, args, code, out, errs)
	}
	return strings.TrimSpace(out)
}

// trellis runs a command that must exit with the code want, and returns its standard output and error.
func (s *site) trellis(want int, args ...string) (string, string) {
	s.Helper()
	code, out, errs := s.try(program, args...)
	if code != want {
		s.Fatalf("trellis %v: exit %d, want %d\n%s%s", args, code, want, out, errs)
	}
	return strings.TrimSpace(out), errs
}

// apart runs a program in a process group of its own. Agents stop and kill Trellis here: if a process of a group is stopped and the
// last parent outside of the group dies, the kernel sends SIGHUP to the whole group, which would be all the tests.
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

// untouched returns the state that must not change in the main checkout: HEAD, index, and everything outside of the tasks
// and the runtime folder.
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
