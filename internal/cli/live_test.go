package cli

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/soak"
)

// pane is a program in a terminal of tmux, which shows what a person sees.
type pane struct {
	*testing.T
	dir    string // the repository
	socket string
	env    []string
}

func (p *pane) tmux(args ...string) string {
	p.Helper()
	c := exec.Command("tmux", append([]string{"-u", "-S", p.socket, "-f", "/dev/null"}, args...)...)
	c.Dir, c.Env = p.dir, p.env
	out, err := c.CombinedOutput()
	if err != nil {
		p.Fatalf("tmux %s: %v\n%s", args[0], err, out)
	}
	return string(out)
}

// screen returns the text on the screen and above it, with wrapped lines joined.
func (p *pane) screen() string {
	p.Helper()
	var lines []string
	for line := range strings.Lines(p.tmux("capture-pane", "-p", "-J", "-S", "-")) {
		lines = append(lines, strings.TrimRight(line, " \n"))
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n") + "\n"
}

// failed matches the message of a command that failed.
var failed = regexp.MustCompile(`\nended with [1-9]`)

// until waits until the screen shows a text, and returns the screen.
func (p *pane) until(text string) string {
	p.Helper()
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(60 * time.Millisecond) {
		shown := p.screen()
		if strings.Contains(shown, text) {
			return shown
		}
		if time.Now().After(end) || failed.MatchString(shown) {
			p.Fatalf("waited in vain for %q; the screen shows\n%s", text, shown)
		}
	}
}

// let allows the agents of a task to continue.
func (p *pane) let(task string) {
	p.Helper()
	if err := os.WriteFile(filepath.Join(p.dir, "..", "go-"+task), nil, 0o644); err != nil {
		p.Fatal(err)
	}
}

// types types a command.
func (p *pane) types(line string) {
	p.Helper()
	p.tmux("send-keys", "clear; "+line+"; echo ended with $?", "Enter")
}

// threeTasks starts a shell in a terminal of this width, in a repository with three tasks: one fails its check once, one crashes, one asks.
func threeTasks(t *testing.T, width int) *pane {
	t.Helper()
	if _, err := exec.LookPath("tmux"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("tmux is missing: make setup installs it")
		}
		t.Skip("there is no tmux here")
	}
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	sockets, err := os.MkdirTemp("/tmp", "tmux") // the name of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(sockets, "threetasks") // makes the path long enough for a screen to wrap it at the same place each time
	home, bin := filepath.Join(root, "home"), filepath.Join(root, "bin")
	p := &pane{T: t, dir: filepath.Join(root, "app"), socket: filepath.Join(sockets, "s"),
		env: []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TZ=UTC", "LC_ALL=C.UTF-8", "TERM=xterm-256color", "GIT_CONFIG_NOSYSTEM=1", "TMPDIR=" + os.TempDir()}}
	files := map[string]string{
		"home/.gitconfig":          "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n",
		"app/greet.sh":             "echo hello\n",
		"app/check.sh":             "test ! -e notes.txt || test -e ok || { echo 'one test'; echo 'FAIL: nothing says ok'; exit 1; }\n",
		"app/.trellis/config.yaml": "agents: {default: rehearsal}\nverify: [sh check.sh]\nbaseline: false\nlimits: {parallel: 3, attempts: 3}\n", // with a baseline, one task might wait for the other
		"app/.trellis/rehearsal.yaml": "roles:\n  implement: [{run: [\"sh $TRELLIS_REPO/../work.sh\"], answer: done}, {run: [\"sh $TRELLIS_REPO/../work.sh\"], answer: done}]\n  check: [{answer: fine}]\n  debug: [{run: [\"touch ok\"], answer: mended}]\n" +
			"  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"notes.txt:1\"}]}}]\n",
		"work.sh": "while ! test -e $TRELLIS_REPO/../go-$TRELLIS_TASK_ID; do sleep 0.05; done\ncase $TRELLIS_TASK_ID in *-crash) exit 3;; esac\necho $TRELLIS_TASK_ID >notes.txt\n",
	}
	for name, pipeline := range map[string]string{"02-01-mend": "", "02-02-crash": "", "02-03-asks": `"approval": {"required": true}`} {
		dir, row := "app/.trellis/tasks/"+name+"/", `{"file": "greet.sh", "reason": "the program"}`+"\n"
		files[dir+"prd.md"] = "# Notes\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n"
		files[dir+"implement.jsonl"], files[dir+"check.jsonl"] = row, row
		files[dir+"task.json"] = fmt.Sprintf(`{"status": "ready", "base_branch": "main", "pipeline": {%s}}`+"\n", pipeline)
	}
	for name, text := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.MkdirAll(bin, 0o755), os.Symlink(program, filepath.Join(bin, "trellis"))); err != nil {
		t.Fatal(err)
	}
	for _, words := range [][]string{{"init", "-q"}, {"add", "-A", "--", ".", ":!.trellis/tasks"}, {"commit", "-q", "-m", "first"}} {
		c := exec.Command("git", words...)
		c.Dir, c.Env = p.dir, p.env
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("git %s: %v\n%s", words[0], err, out)
		}
	}
	p.tmux("new-session", "-d", "-x", strconv.Itoa(width), "-y", "30", "PS1='$ ' sh")
	t.Cleanup(func() {
		p.tmux("kill-server")
		os.RemoveAll(sockets)
	})
	return p
}

// blanks replace the parts of a screen that differ from run to run.
var blanks = []struct {
	of *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`\b\d\d:\d\d:\d\d\b`), "TIME"},
	{regexp.MustCompile(`\b[0-9a-f]{12}\b`), "COMMIT"},
	{regexp.MustCompile(`worktree  .*`), "worktree  WORKTREE"},
	{regexp.MustCompile(`\bin \d+ s\b`), "in N s"},
	{regexp.MustCompile(`\b(in|·) (\d+m)?\d+s\b`), "$1 TOOK"},
}

// The watcher's screen shows the state of three tasks at once, on narrow and wide terminals: a check when it fails, a crash with the next
// attempt, who is asked, how a run ended, and what to type next.
func TestWatchOnTerminal(t *testing.T) {
	for _, width := range soak.Of([]int{60, 80, 140}, 60, 140) {
		t.Run(strconv.Itoa(width), func(t *testing.T) {
			t.Parallel()
			p := threeTasks(t, width)
			p.types("trellis watch")
			p.until("trellis approve 02-03-asks")
			p.until("\n1 waiting for approval: 02-03-asks")
			p.let("02-01-mend")
			p.until("next: git merge feature/mend")
			p.let("02-02-crash")
			p.until("trellis: 02-02-crash: agent crashed")
			shown := p.until("‖")
			shown = regexp.MustCompile(`(?m)^.*no model is involved.*\n`).ReplaceAllString(shown, "") // of two tasks, in any order
			for _, m := range blanks {
				shown = m.of.ReplaceAllString(shown, m.to)
			}
			golden := filepath.Join("testdata", "screens", fmt.Sprintf("watch-%d.txt", width))
			if os.Getenv("TRELLIS_UPDATE_DOCS") != "" {
				if err := os.WriteFile(golden, []byte(shown), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if want, err := os.ReadFile(golden); err != nil || string(want) != shown {
				t.Errorf("%v: got\n%s\nwant\n%s", err, shown, want)
			}
			p.narrower(width - 15)
			p.tmux("send-keys", "C-c")
			p.until("ended with 130")
		})
	}
}

// narrower makes the terminal narrower, and waits until nothing is left of the lines that were too wide.
func (p *pane) narrower(width int) {
	p.Helper()
	p.tmux("resize-window", "-x", strconv.Itoa(width))
	for end := time.Now().Add(15 * time.Minute); ; time.Sleep(60 * time.Millisecond) {
		shown := p.screen()
		rows := regexp.MustCompile(`(?m)^.*[▰▱].*$`).FindAllString(shown, -1)
		if len(rows) == 1 && utf8.RuneCountInString(rows[0]) < width && strings.Count(shown, "1 waiting for approval") == 1 {
			return
		}
		if time.Now().After(end) {
			p.Fatalf("after it got %d wide it shows\n%s", width, shown)
		}
	}
}

// Starting a task that a watcher runs shows what the watcher does, and how the run ended.
func TestStartFollowsWatcher(t *testing.T) {
	t.Parallel()
	p := threeTasks(t, 140)
	p.types("trellis watch --json >../log & until trellis status | grep -q 02-01-mend.*implement; do sleep 0.05; done; trellis start 02-01-mend --plain")
	p.until("02-01-mend: implement, round 1\n")
	p.let("02-01-mend")
	shown := p.until("ended with 0")
	for _, want := range []string{" 02-01-mend: verify ✗ 1 of 1: sh check.sh (exit 1): FAIL: nothing says ok\n", " 02-01-mend: debug, round 2\n", " 02-01-mend: review in ", "next: git merge feature/mend\n"} {
		if strings.Count(shown, want) != 1 {
			t.Errorf("got %d times %q in\n%s", strings.Count(shown, want), want, shown)
		}
	}
	p.tmux("send-keys", "kill $!; wait; echo all is over: $?", "Enter")
	p.until("all is over: 0")
	log, err := os.ReadFile(filepath.Join(p.dir, "..", "log"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"msg":"check failed","task":"02-01-mend","phase":"verify","command":"sh check.sh","n":1,"of":1,"exit":1,"last":"FAIL: nothing says ok"`, `"msg":"ended","task":"02-01-mend","status":"review"`} {
		if !strings.Contains(string(log), want) {
			t.Errorf("no %s in\n%s", want, log)
		}
	}
}
