package cli

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

	"github.com/creack/pty"
)

// pager runs trellis on a terminal, in a repository with a task.
type pager struct {
	*testing.T
	dir string
	env []string
}

// newPager creates a repository with a task that changed one file, which has this many lines.
func newPager(t *testing.T, lines int) *pager {
	t.Helper()
	home := t.TempDir()
	k := &pager{T: t, dir: filepath.Join(home, "app"), env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "TERM=xterm", "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8", "XDG_STATE_HOME=" + home}}
	k.write("../.gitconfig", "[user]\n\tname = Ada\n\temail = ada@example.org\n[init]\n\tdefaultBranch = main\n")
	k.write("old.txt", "old\n")
	k.write(".trellis/config.yaml", "")
	k.git("init", "-q")
	k.git("add", "-A")
	k.git("commit", "-q", "-m", "first")
	base := strings.TrimSpace(k.git("rev-parse", "HEAD"))
	k.git("switch", "-q", "-c", "feature/note")
	k.write("old.txt", "new\n"+strings.Repeat("a line\n", lines-1))
	k.git("commit", "-q", "-a", "-m", "work")
	k.git("switch", "-q", "main")
	k.write(".trellis/tasks/02-01-note/task.json", fmt.Sprintf(`{"status": "review", "branch": "feature/note", "pipeline": {"base_commit": %q}}`, base))
	return k
}

func (k *pager) write(name, text string) {
	k.Helper()
	path := filepath.Join(k.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
		k.Fatal(err)
	}
}

func (k *pager) git(args ...string) string {
	k.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = k.dir, k.env
	out, err := cmd.CombinedOutput()
	if err != nil {
		k.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// command returns a command that runs trellis with env added to its environment.
func (k *pager) command(env string, args ...string) *exec.Cmd {
	k.Helper()
	program, err := built()
	if err != nil {
		k.Fatal(err)
	}
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env = k.dir, append(k.env[:len(k.env):len(k.env)], strings.Fields(env)...)
	return cmd
}

// shown is the output on a terminal so far.
type shown struct {
	mu   sync.Mutex
	text bytes.Buffer
	over chan struct{}
	new  chan struct{} // there is new output
}

func (s *shown) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// typeIn starts a command on a terminal, and types a key each time that the next text is shown. It returns the output after the
// command has ended with exit code 0 and left no process.
func (k *pager) typeIn(cmd *exec.Cmd, texts, keys []string) string {
	k.Helper()
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 20, Cols: 80})
	if err != nil {
		k.Fatal(err)
	}
	defer screen.Close()
	s := &shown{over: make(chan struct{}), new: make(chan struct{}, 1)}
	go func() {
		defer close(s.over)
		buf := make([]byte, 4096)
		for {
			n, err := screen.Read(buf)
			s.mu.Lock()
			s.text.Write(buf[:n])
			s.mu.Unlock()
			select {
			case s.new <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	seen := 0
	for i, want := range texts {
		for deadline := time.After(15 * time.Minute); !strings.Contains(s.String()[seen:], want); {
			select {
			case <-s.new:
			case <-s.over:
				k.Fatalf("%v: it ended before %q was shown:\n%q", cmd.Args, want, s)
			case <-deadline:
				k.Fatalf("%v: %q was not shown:\n%q", cmd.Args, want, s)
			}
		}
		seen = len(s.String())
		if _, err := screen.WriteString(keys[i]); err != nil {
			k.Fatal(err)
		}
	}
	for again := time.NewTicker(200 * time.Millisecond); ; { // the terminal drops what was typed before Ctrl-C reached less
		select {
		case <-s.over:
		case <-again.C:
			if len(keys) > 0 {
				_, _ = screen.WriteString("q") // the command may have ended
			}
			continue
		}
		again.Stop()
		break
	}
	if err := cmd.Wait(); err != nil {
		k.Errorf("%v: %v\n%q", cmd.Args, err, s)
	}
	if err := syscall.Kill(-cmd.Process.Pid, 0); !errors.Is(err, syscall.ESRCH) {
		k.Errorf("%v: a process is left: %v", cmd.Args, err)
	}
	return s.String()
}

// On a terminal a diff has colours and is shown in git's pager. In a pipe it has neither.
func TestDiffOnTerminal(t *testing.T) {
	t.Parallel()
	k := newPager(t, 1)
	const red, green = "\x1b[31m-old\x1b[0m", "\x1b[32m+new\x1b[0m"
	for _, test := range []struct{ env, config, want string }{
		{env: "GIT_PAGER=cat", want: green},
		{env: "GIT_PAGER= PAGER=false", want: green},
		{env: "GIT_PAGER=1-pager PAGER=2-pager", config: "3-pager", want: "1-pager: " + green},
		{env: "PAGER=2-pager", config: "3-pager", want: "3-pager: " + green},
		{env: "PAGER=2-pager", want: "2-pager: " + green},
		{env: "GIT_PAGER=cat NO_COLOR=1", want: "+new"},
		{env: "GIT_PAGER=1-pager TERM=dumb", want: "+new"},
	} {
		k.write("../.gitconfig", "[core]\n\tpager = "+test.config+"\n")
		for _, name := range []string{"1-pager", "2-pager", "3-pager"} {
			k.write("../bin/"+name, "#!/bin/sh\nexec sed s/^/"+name+":\\ /\n")
			if err := os.Chmod(filepath.Join(k.dir, "../bin", name), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		cmd := k.command(test.env, "diff", "note")
		cmd.Env = append(cmd.Env, "PATH="+filepath.Join(k.dir, "../bin")+":"+os.Getenv("PATH"))
		got := k.typeIn(cmd, nil, nil)
		if !strings.Contains(got, "\n"+test.want+"\r\n") || strings.Contains(test.want, "\x1b") != strings.Contains(got, red) {
			t.Errorf("%s, core.pager %q: got %q, want in it %q", test.env, test.config, got, test.want)
		}
	}
	if got := k.typeIn(k.command("GIT_PAGER=cat", "diff", "note", "--stat"), nil, nil); !strings.Contains(got, " old.txt | 2 \x1b[32m+\x1b[0m\x1b[31m-\x1b[0m\r\n") {
		t.Errorf("--stat: got %q", got)
	}
	if got := k.typeIn(k.command("GIT_PAGER=cat", "diff", "note", "--name-only"), nil, nil); got != "old.txt\r\n" {
		t.Errorf("--name-only: got %q", got)
	}
	out, err := k.command("GIT_PAGER=false", "diff", "note").Output()
	if err != nil || strings.Contains(string(out), "\x1b") || !strings.Contains(string(out), "\n-old\n+new\n") {
		t.Errorf("into a pipe: got %v\n%q", err, out)
	}
}

// Leaving the pager early, or by Ctrl-C, is not an error and leaves no process.
func TestDiffLeavesThePager(t *testing.T) {
	t.Parallel()
	k := newPager(t, 50_000)
	if got := k.typeIn(k.command("GIT_PAGER=head${IFS}-n1", "diff", "note"), nil, nil); !strings.HasPrefix(got, "\x1b[1mdiff --git") || strings.Contains(got, "trellis:") {
		t.Errorf("one line: got %q", got)
	}
	if _, err := exec.LookPath("less"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("less is not installed")
	}
	for what, keys := range map[string]string{"at the first page": "q", "after Ctrl-C": "\x03"} {
		if got := k.typeIn(k.command("PAGER=less", "diff", "note"), []string{"\r\n:"}, []string{keys}); strings.Contains(got, "trellis:") || !strings.Contains(got, "+new") {
			t.Errorf("%s: got %q", what, got)
		}
	}
}
