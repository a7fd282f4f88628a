package e2e

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// pane is a terminal with a shell in it, driven by tmux.
type pane struct {
	*site
	socket string
}

// open opens a terminal of 80×24 with a shell in the repository.
func (s *site) open(t *testing.T) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("make setup installs it: %v", err)
		}
		t.Skipf("trellis ui is looked at with tmux, which make setup installs: %v", err)
	}
	dir, err := os.MkdirTemp("", "t") // the path of a socket has to be short
	if err != nil {
		t.Fatal(err)
	}
	p := &pane{s, filepath.Join(dir, "s")}
	t.Cleanup(func() {
		_, _, _ = s.try("tmux", "-S", p.socket, "kill-server")
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	p.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "env", "PS1=% ", "HISTFILE=", "bash", "--norc", "--noprofile", "-i")
	p.until("%")
	return p
}

func (p *pane) tmux(args ...string) string {
	p.Helper()
	return p.run("tmux", append([]string{"-S", p.socket}, args...)...)
}

// press presses keys, as tmux names them.
func (p *pane) press(keys ...string) {
	p.Helper()
	p.tmux(append([]string{"send-keys"}, keys...)...)
}

// enter types a line and ends it with Enter.
func (p *pane) enter(text string) {
	p.Helper()
	p.tmux("send-keys", "-l", text)
	p.press("Enter")
}

func (p *pane) screen() string {
	p.Helper()
	return p.tmux("capture-pane", "-p")
}

// until waits until the screen shows all of want, and returns the screen.
func (p *pane) until(want ...string) string {
	p.Helper()
	got := ""
	for end := time.Now().Add(hang); ; time.Sleep(60 * time.Millisecond) {
		got = p.screen()
		lacks := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return strings.Contains(got, w) })
		if len(lacks) == 0 {
			return got
		}
		if time.Now().After(end) {
			p.Fatalf("the screen never shows %q:\n%s", lacks, got)
		}
	}
}

// ui starts trellis ui and waits for its list.
func (p *pane) ui() {
	p.Helper()
	p.enter("clear; " + program + " ui")
	p.until("repo · ", "[now]")
}

// ended waits until the UI has ended with a code, and checks that the terminal is restored for the shell.
func (p *pane) ended(code int) {
	p.Helper()
	p.waitFor(func() bool { return !strings.Contains(p.screen(), "repo · ") }, "it does not end")
	p.enter("echo ended with $?")
	p.until(fmt.Sprintf("\nended with %d", code))
	p.sane()
}

// back returns to the UI after the program that had the terminal has ended.
func (p *pane) back(want ...string) {
	p.Helper()
	p.waitFor(func() bool {
		got := strings.TrimSpace(p.screen())
		return strings.HasPrefix(got[strings.LastIndex(got, "\n")+1:], "trellis: enter goes back")
	}, "it never says how to go back")
	p.press("Enter")
	p.until(want...)
}

// choose selects a task.
func (p *pane) choose(id string) {
	p.Helper()
	p.press("/", "C-u")
	p.enter(id)
	p.until("> "+id, "search: "+id)
}

// pid returns the pid of the UI.
func (p *pane) pid() int {
	p.Helper()
	shell, err := strconv.Atoi(p.tmux("display-message", "-p", "#{pane_pid}"))
	if err != nil {
		p.Fatal(err)
	}
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%[1]d/children", shell))
	if err != nil {
		p.Skipf("no process can be looked for here: %v", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		p.Fatalf("the children of the shell are %q", data)
	}
	return pid
}

// sane checks that the terminal is restored for the shell, and that nothing is left of the UI's screen.
func (p *pane) sane() {
	p.Helper()
	p.press("Enter")
	p.enter("stty -a | tr ';' '\\n' | grep -c -e '-icanon' -e ' -echo ' -e '-isig' -e '-opost'; echo looked")
	got := p.until("\nlooked")
	if !strings.Contains(got, "\n0\nlooked") {
		p.Errorf("the terminal is left otherwise:\n%s", got)
	}
	if flags := p.tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag}"); flags != "0 0 1" {
		p.Errorf("screen, mouse and cursor are left as %s, want 0 0 1", flags)
	}
}

func (s *site) status(id string) string {
	s.Helper()
	m := regexp.MustCompile(`"status": ?"([a-z_]*)"`).FindStringSubmatch(s.read(".trellis/tasks/" + id + "/task.json"))
	if m == nil {
		return ""
	}
	return m[1]
}

// stands waits until a task has the status want.
func (s *site) stands(id, want string) {
	s.Helper()
	s.waitFor(func() bool { return s.status(id) == want }, id+" never is "+want)
}

const waits = `{"status": "waiting", "pipeline": {"approval": {"required": true, "approvers": 1}}}`

// script writes a program and returns its path.
func (s *site) script(name, text string) string {
	s.Helper()
	path := filepath.Join(filepath.Dir(s.Dir), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		s.Fatal(err)
	}
	return path
}

// acted returns a repository with tasks for every key.
func acted(t *testing.T) *site {
	t.Helper()
	s := played(t, sleepy)
	for _, id := range []string{"02-02-agree", "02-03-no", "02-04-off"} {
		s.hand(id)
	}
	s.write(".trellis/tasks/02-02-agree/task.json", waits)
	s.write(".trellis/tasks/02-03-no/task.json", waits)
	s.write(".trellis/tasks/02-05-bad/task.json", "{\n  \"title\": \"x\"\n  \"status\": \"ready\"\n}\n")
	s.Env = append(s.Env, "SHELL="+s.script("shell", "pwd >../in && mv ../in ../in-shell\n"), "EDITOR="+s.script("editor", "if [ -d \"$1\" ]; then pwd >../in && mv ../in ../in-editor; else echo edited here >>\"$1\"; fi\n"))
	return s
}

// Every key that has an action performs it, as the files show.
func TestUIActions(t *testing.T) {
	t.Parallel()
	s := acted(t)
	p := s.open(t)
	p.ui()
	p.until("5 tasks", "WAITING 2 tasks", "BROKEN 1 task", "READY 2 tasks")

	p.choose("02-05-bad")
	p.until("task.json:3:3: not valid JSON")

	p.choose("02-02-agree")
	p.until("[now]", "waits for")
	p.press("a")
	p.until("[plan]", "this is the plan of 02-02-agree: a approves it", "Say bye")
	prd := s.read(".trellis/tasks/02-02-agree/prd.md")
	s.write(".trellis/tasks/02-02-agree/prd.md", prd+"- [ ] and much more\n")
	p.until("it was changed since it was shown; this is what it is now")
	p.press("a")
	p.until("a approves what is shown now")
	if got := s.status("02-02-agree"); got != "waiting" {
		t.Errorf("what was not seen is approved: it is %s", got)
	}
	p.press("a")
	p.until("02-02-agree is approved by Ada", "next: trellis")
	s.stands("02-02-agree", "ready")
	p.press("h")
	p.until("[now]")

	p.choose("02-03-no")
	p.press("x")
	p.until("[plan]", "this is the plan of 02-03-no: x rejects it")
	p.press("x")
	p.enter("the API goes")
	p.until("reject 02-03-no? Undo: trellis plan --retry 02-03-no (y/n)")
	p.press("n")
	p.until("nothing was done")
	if got := s.status("02-03-no"); got != "waiting" {
		t.Errorf("after a no it is %s", got)
	}
	p.press("x")
	p.enter("the API goes")
	p.until("(y/n)")
	p.press("y")
	p.until("02-03-no is rejected")
	s.stands("02-03-no", "rejected")
	if got := s.read(".trellis/tasks/02-03-no/REJECTED.md"); !strings.Contains(got, "the API goes") {
		t.Errorf("REJECTED.md is\n%s", got)
	}
	p.press("h") // leaves the plan that was rejected
	p.until("[now]")

	p.choose("02-04-off")
	p.press("c")
	p.until("cancel 02-04-off?", "undo: R, or trellis undo (y/n)")
	p.press("Enter")
	p.until("nothing was done")
	p.press("c")
	p.until("(y/n)")
	p.press("y")
	p.until("02-04-off is cancelled")
	s.stands("02-04-off", "cancelled")
	p.press("R")
	p.until("02-04-off will run again")
	s.stands("02-04-off", "ready")

	p.choose("02-01-bye")
	p.press("s")
	p.until("runs in the background", "IN PROGRESS")
	s.begun()
	p.press("S")
	p.until("stop 02-01-bye?", "(y/n)")
	p.press("y")
	p.until("02-01-bye is paused")
	s.stands("02-01-bye", "paused")
	if err := os.WriteFile(s.beside("go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	p.press("s")
	s.stands("02-01-bye", "review")
	p.until("REVIEW 1 task")

	p.press("Tab")
	p.until("[plan]", "Say bye", "Criteria")
	p.press("Tab")
	p.until("[diff]", "greet.sh  +1 -1", "+if [")
	p.press("Tab")
	p.until("[log]", "ended after")
	p.press("Tab")
	p.until("[report]", "02-01-bye")
	p.press("Tab")
	p.until("[proofs]", "nothing to prove")

	p.press("d")
	p.until("push the branch of 02-01-bye", "(y/n)")
	p.press("y")
	p.until("nothing was pushed")
	if got := s.status("02-01-bye"); got != "review" {
		t.Errorf("after a delivery without a remote it is %s", got)
	}

	p.press("o")
	s.waitFor(func() bool { return exists(s.beside("in-shell")) }, "no shell was started")
	if got := strings.TrimSpace(readFile(t, s.beside("in-shell"))); got != s.beside("bye") {
		t.Errorf("the shell was in %s", got)
	}
	p.until("[proofs]")
	p.press("O")
	s.waitFor(func() bool { return exists(s.beside("in-editor")) }, "no editor was started")
	p.until("[proofs]")

	p.choose("02-04-off")
	p.press("e")
	p.back("[proofs]", "02-04-off")
	if got := s.read(".trellis/tasks/02-04-off/prd.md"); !strings.Contains(got, "edited here") {
		t.Errorf("after e prd.md is\n%s", got)
	}
	p.press("r")
	p.until("what becomes of 02-04-off?")
	p.enter("l")
	p.back("[proofs]", "02-04-off")
	p.press("n")
	p.back("[proofs]", "02-04-off")

	p.press("q")
	p.ended(0)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// The screen follows its size, changes of tasks, and the shell; however the UI ends, the terminal is restored.
func TestUIOnATerminal(t *testing.T) {
	t.Parallel()
	s := acted(t)
	wild := s.script("wild", "stty raw -echo; printf '\\033[?1000h\\033[?1049h\\033[?25l\\033[31m'; kill -9 $$\n")
	s.Env = append(s.Env, "SHELL="+wild)
	p := s.open(t)
	p.ui()

	if err := os.RemoveAll(filepath.Join(s.Dir, ".trellis/tasks/02-03-no")); err != nil {
		t.Fatal(err)
	}
	p.until("4 tasks", "WAITING 1 task")
	s.hand("02-06-new")
	p.until("5 tasks", "02-06-new")

	p.tmux("resize-window", "-x", "60", "-y", "20")
	p.until("WAITING 1 task")
	s.waitFor(func() bool { return !strings.Contains(p.screen(), "[now]") }, "at 60 columns the page stands beside the list")
	p.press("Enter")
	p.until("[now]", "esc back")
	p.press("Escape")
	p.tmux("resize-window", "-x", "100", "-y", "30")
	p.until("[now]", "WAITING 1 task")

	p.press("C-z")
	p.until("Stopped")
	p.sane()
	p.enter("clear; fg")
	p.until("[now]", "WAITING 1 task")

	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} { // with exit codes as a shell reports them
		if err := syscall.Kill(p.pid(), sig); err != nil {
			t.Fatal(err)
		}
		p.ended(128 + int(sig))
		p.ui()
	}

	s.write(".trellis/tasks/02-04-off/task.json", `{"status": "paused", "worktree_path": "`+s.Dir+`"}`)
	p.choose("02-04-off")
	p.press("o") // a shell that leaves all terminal modes on and is killed
	p.until("signal: killed", "[now]")
	p.press("?")
	p.until("next task, or one line down")
	p.press("?")
	p.until("[now]")
	p.press("C-c")
	p.ended(0)
}

// Random keys break nothing, and delete nothing unless somebody says yes.
func TestUIRandomKeys(t *testing.T) {
	t.Parallel()
	keys, until := 300, time.Now()
	if soak.Asked() {
		until = until.Add(30 * time.Minute)
	}
	seed := uint64(time.Now().UnixNano())
	if named := os.Getenv("TRELLIS_SEED"); named != "" {
		n, err := strconv.ParseUint(named, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seed = n
	} else if !soak.Asked() {
		seed = 1
	}
	r := rand.New(rand.NewPCG(seed, 0))
	s := acted(t)
	s.Env = append(s.Env, "SHELL=/bin/true", "EDITOR=/bin/true")
	s.write(".trellis/tasks/02-01-bye/task.json", `{"status": "review"}`)
	s.write(".trellis/tasks/02-04-off/task.json", `{"status": "failed"}`)
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		s.pressAtRandom(t, r, keys, fmt.Sprintf("TRELLIS_SEED=%d, round %d", seed, round))
		for id, may := range map[string][]string{"02-01-bye": {"review"}, "02-02-agree": {"waiting", "ready"}, "02-03-no": {"waiting", "ready"}, "02-04-off": {"failed", "ready"}} {
			if got := s.status(id); !slices.Contains(may, got) {
				t.Fatalf("TRELLIS_SEED=%d, round %d: %s is %s", seed, round, id, got)
			}
		}
	}
}

// pressAtRandom presses keys, none of which says yes, starts a task or ends the UI, and then ends the UI.
func (s *site) pressAtRandom(t *testing.T, r *rand.Rand, n int, which string) {
	t.Helper()
	cmd := exec.Command(program, "ui")
	cmd.Dir, cmd.Env = s.Dir, s.Env
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	shown, began := make(chan []byte, 1), make(chan bool)
	first := began
	go func() {
		var last []byte
		for data := make([]byte, 4096); ; {
			n, err := tty.Read(data)
			if last = append(last, data[:n]...); began != nil && (err != nil || bytes.Contains(last, []byte("[now]"))) {
				close(began)
				began = nil
			}
			last = last[max(0, len(last)-20_000):]
			if err != nil {
				shown <- last
				return
			}
		}
	}()
	select {
	case <-first:
	case <-time.After(hang):
		t.Fatalf("%s: it shows nothing", which)
	}
	some := []string{"\r", "\x1b", "\t", "\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[Z", "\x1b[5~", "\x1b[6~", "\x7f", "\x15", "語", "\x1b[200~pasted\x1b[201~", "\x1b[<0;3;4M"}
	for c := ' '; c <= '~'; c++ {
		if !strings.ContainsRune("yqsr", c) {
			some = append(some, string(c))
		}
	}
	for range n {
		if r.IntN(40) == 0 {
			if err := pty.Setsize(tty, &pty.Winsize{Rows: uint16(1 + r.IntN(40)), Cols: uint16(1 + r.IntN(140))}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := tty.WriteString(some[r.IntN(len(some))]); err != nil {
			t.Fatalf("%s: it ended: %v\n%s", which, err, <-shown)
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-ended:
	case <-time.After(hang):
		_ = cmd.Process.Kill()
		t.Fatalf("%s: it does not end", which)
	}
	if got := cmd.ProcessState.ExitCode(); got != 143 {
		t.Fatalf("%s: it ended with %d, want 143\n%s", which, got, <-shown)
	}
}
