package e2e

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// played returns a repository whose agents are played by a script, with a ready task.
func played(t *testing.T, script string) *site {
	t.Helper()
	home := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=xterm", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org", "GIT_CONFIG_NOSYSTEM=1"}
	s := newSite(t, env, "rehearsal")
	s.write(".trellis/rehearsal.yaml", script)
	s.hand("02-01-bye")
	return s
}

// sleepy is an agent that, unless the file ../go exists, starts a process in a session of its own and sleeps before it works.
const sleepy = `
roles:
  implement:
    - run: ["test -f ../go || { setsid sleep 3001 & echo $$ > ../begun; sleep 3000; }"]
      files: {greet.sh: "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"}
      answer: done
  check: [{answer: fine}]
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "greet.sh:1"}]}}]
`

// begun waits until the agent of the sleepy script is at work. The script's files are beside the agent's worktree.
func (s *site) begun() {
	s.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(s.beside("begun")); err == nil {
			return
		} else if !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
			s.Fatalf("the agent did not begin: %v", err)
		}
	}
}

func (s *site) beside(name string) string {
	return filepath.Join(filepath.Dir(s.Dir), "repo-worktrees", "feature", name)
}

// background starts trellis and returns its process and its output.
func (s *site) background(args ...string) (*exec.Cmd, *bytes.Buffer) {
	s.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = s.Dir, s.Env
	cmd.SysProcAttr = apart()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return cmd, &out
}

// gone waits until no process of the repository's agents is left.
func (s *site) gone(t *testing.T) {
	t.Helper()
	var left []string
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if left = processes(t, s.Dir); len(left) == 0 {
			return
		}
	}
	t.Errorf("processes are left: %q", left)
}

// finish lets the sleepy agent work, starts the task again and checks that it ends well.
func (s *site) finish(t *testing.T) {
	t.Helper()
	if err := os.WriteFile(s.beside("go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	s.trellis(0, "start", "02-01-bye")
	if n := s.run("git", "rev-list", "--count", "main..feature/bye"); n != "1" {
		t.Errorf("%s commits", n)
	}
}

// A signal ends the command with the code for that signal, ends its agents, and the run is resumed later.
func TestSignals(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := played(t, sleepy)
			cmd, out := s.background("start", "02-01-bye")
			s.begun()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			err := cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != code {
				t.Errorf("exit %d (%v), want %d\n%s", got, err, code, out)
			}
			s.gone(t)
			if task := s.read(".trellis/tasks/02-01-bye/task.json"); !strings.Contains(task, `"in_progress"`) || !strings.Contains(task, `"interrupted"`) {
				t.Errorf("task.json is %s", task)
			}
			s.finish(t)
		})
	}
}

// SIGKILL of the worker, or of its guard, ends all processes of the run; then the run is resumed.
func TestKilled(t *testing.T) {
	for _, who := range []string{"worker", "guard"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := played(t, sleepy)
			cmd, out := s.background("start", "02-01-bye")
			s.begun()
			pid, worker := cmd.Process.Pid, child(t, cmd.Process.Pid)
			if who == "worker" {
				pid = worker
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Errorf("it ended well: %s", out)
			}
			ended(t, worker)
			s.gone(t) // edge A4
			s.finish(t)
			s.gone(t)
		})
	}
}

// child returns the pid of the worker, in which trellis runs the command: the child of the guard's child.
func child(t *testing.T, pid int) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Skipf("this system has no /proc to find the worker in: %v", err)
	}
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ") // that of the worker names its parent
		if up := parent(n); up != 0 && parent(up) == pid && strings.Contains("\x00"+string(env), "\x00TRELLIS_GUARD=") {
			return n
		}
	}
	t.Fatalf("the guard %d has no worker", pid)
	return 0
}

// parent returns the pid of a process's parent, or 0 if the process does not exist.
func parent(pid int) (up int) {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if _, rest, ok := strings.Cut(string(status), "\nPPid:\t"); ok {
		line, _, _ := strings.Cut(rest, "\n")
		up, _ = strconv.Atoi(line)
	}
	return up
}

// ended waits for the end of a worker, which holds its locks a moment longer than its guard lives.
func ended(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil || strings.Contains(string(status), "\nState:\tZ") {
			return
		}
	}
	t.Errorf("the worker %d is left", pid)
}

// untilSeen is a script that waits for a file beside it, which a test creates when it has seen what it waits for.
const untilSeen = "i=0; until test -e ${0%/*}/$1 || test $((i+=1)) -gt 18000; do sleep 0.05; done\n"

// onTerminal runs trellis on a terminal of this width, and returns its output. It calls seen with the output so far as that grows.
func (s *site) onTerminal(columns uint16, seen func(shown string), args ...string) (string, error) {
	s.Helper()
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = s.Dir, s.Env
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: columns})
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	var shown strings.Builder
	for data := make([]byte, 4096); ; {
		n, err := f.Read(data)
		shown.Write(data[:n])
		if err != nil { // a terminal ends with EIO
			return shown.String(), cmd.Wait()
		}
		seen(shown.String())
	}
}

// On a terminal one line per task is drawn repeatedly: the phase, the clock, and the tool that was used last.
func TestProgressOnATerminal(t *testing.T) {
	s := played(t, strings.Replace(sleepy, "test -f ../go || { setsid sleep 3001 & echo $$ > ../begun; sleep 3000; }", "sh ../wait drawn", 1))
	s.write("../repo-worktrees/feature/wait", untilSeen)
	const line, used = "02-01-bye  ▰▰▱▱▱▱▱ implement 1 · ", "run \"sh ../wait drawn\""
	screen, err := s.onTerminal(100, func(shown string) {
		if _, later, ok := strings.Cut(shown, used); ok && strings.Contains(later, line) {
			s.write("../repo-worktrees/feature/drawn", "")
		}
	}, "start", "02-01-bye")
	if err != nil {
		t.Fatalf("%v\n%s", err, screen)
	}
	for _, want := range []string{line, "\x1b[1A\x1b[J", used, "trellis: commit    "} {
		if !strings.Contains(screen, want) {
			t.Errorf("the terminal never showed %q:\n%q", want, screen)
		}
	}
	if _, later, _ := strings.Cut(screen, used); !strings.Contains(later, line) {
		t.Errorf("the line was not drawn again: %q", screen)
	}
	for _, line := range strings.Split(screen, "\n") {
		drawn := strings.Split(line, "\x1b[J")
		if plain := strings.TrimRight(drawn[len(drawn)-1], "\r"); len([]rune(plain)) > 100 && strings.Contains(plain, " · ") {
			t.Errorf("a line is wider than the terminal: %q", plain)
		}
	}
}
