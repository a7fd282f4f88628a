package e2e

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// stepwise returns a repository with a file of steps. Processes that its commands start have the repository in their environment.
func stepwise(t *testing.T, steps string) *site {
	t.Helper()
	home := t.TempDir()
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TERM=xterm", "GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.org",
		"GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.org", "GIT_CONFIG_NOSYSTEM=1"}
	s := newSite(t, env, "rehearsal")
	s.Env = append(s.Env, "TRELLIS_REPO="+s.Dir)
	s.write("steps.yaml", "schema_version: 1\ntitle: Steps\nsteps:\n"+steps)
	return s
}

// lingering are steps; unless the file go exists, the third starts processes in groups and sessions of their own, and sleeps.
const lingering = `
  - {id: a, command: "echo a >>log"}
  - {id: l, repeat: 2, command: "echo l{{item}} >>log"}
  - {id: w, command: "test -e go && exit 0; setsid sleep 3001 & sleep 3002 & echo $$ >began; sleep 3003; echo never >>log", continue_on_error: true}
  - {id: z, command: "echo z >>log"}
`

// came waits until a file exists.
func (s *site) came(name string) {
	s.Helper()
	for end := time.Now().Add(hang); ; time.Sleep(5 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(s.Dir, name)); err == nil {
			return
		} else if !errors.Is(err, fs.ErrNotExist) || time.Now().After(end) {
			s.Fatalf("%s did not come: %v", name, err)
		}
	}
}

var anID = regexp.MustCompile(`\d{6}-\d{6}-[a-z2-7]{4}`)

// goOn resumes a run that was cut off, and checks that each step was done once.
func (s *site) goOn(t *testing.T) {
	t.Helper()
	ids, err := filepath.Glob(filepath.Join(s.Dir, ".trellis/.runtime/runs/*"))
	if err != nil || len(ids) != 1 {
		t.Fatalf("the runs are %q, %v", ids, err)
	}
	s.write("go", "")
	out, errs := s.trellis(0, "run", "--resume", filepath.Base(ids[0]))
	if out != filepath.Base(ids[0]) || !strings.Contains(errs, "is done: 4 done") {
		t.Errorf("it goes on to %q\n%s", out, errs)
	}
	if got := s.read("log"); got != "a\nl1\nl2\nz\n" {
		t.Errorf("log %q", got)
	}
}

// A signal during a command ends it and all processes that it started, begins no further step, and says how to resume.
func TestRunIsInterrupted(t *testing.T) {
	for sig, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			s := stepwise(t, lingering)
			cmd, out := s.background("run", "steps.yaml")
			s.came("began")
			ids, err := filepath.Glob(filepath.Join(s.Dir, ".trellis/.runtime/runs/*"))
			if err != nil || len(ids) != 1 {
				t.Fatalf("the runs are %q, %v", ids, err)
			}
			if _, errs := s.trellis(11, "run", "--resume", filepath.Base(ids[0])); !strings.Contains(errs, "is held by process") {
				t.Errorf("a second process is told %s", errs)
			}
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			err = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != code {
				t.Errorf("exit %d (%v), want %d\n%s", got, err, code, out)
			}
			s.gone(t)
			if got := s.read("log"); got != "a\nl1\nl2\n" {
				t.Errorf("log %q", got)
			}
			if !regexp.MustCompile(`(?m)^trellis: next: trellis run --resume ` + anID.String() + `$`).MatchString(out.String()) {
				t.Errorf("it does not say how to go on:\n%s", out)
			}
			s.goOn(t)
		})
	}
}

// SIGKILL of the worker, or of its guard, leaves nothing running; no finished step is done again.
func TestRunIsKilled(t *testing.T) {
	for _, who := range []string{"worker", "guard"} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			s := stepwise(t, lingering)
			cmd, out := s.background("run", "steps.yaml")
			s.came("began")
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
			s.goOn(t)
			s.gone(t)
		})
	}
}

// A run that is killed again and again at any moment of many short steps, later each time so that a busy machine gets on too, ends
// with each step done, and only a step that was cut off is done twice.
func TestRunIsKilledAnytime(t *testing.T) {
	t.Parallel()
	s := stepwise(t, "  - {id: each, repeat: 60, command: \"echo {{item}} >>log\"}\n  - {id: pool, repeat: 60, as: n, concurrency: 3, command: \"echo p{{n}} >>log\"}\n")
	id, kills := "", 0
	for n := 1; ; n++ {
		args := []string{"run", "steps.yaml"}
		if id != "" {
			args = []string{"run", "--resume", id}
		}
		cmd, out := s.background(args...)
		timer := time.AfterFunc(time.Duration(20+11*n%40+2*n+n*n/20)*time.Millisecond, func() { _ = syscall.Kill(cmd.Process.Pid, syscall.SIGKILL) })
		err := cmd.Wait()
		timer.Stop()
		if ids, _ := filepath.Glob(filepath.Join(s.Dir, ".trellis/.runtime/runs/*/run/journal.jsonl")); len(ids) == 1 {
			id = filepath.Base(filepath.Dir(filepath.Dir(ids[0])))
		} else if len(ids) > 1 {
			t.Fatalf("the runs are %q", ids)
		}
		if err == nil {
			break
		}
		if cmd.ProcessState.ExitCode() == 11 {
			continue // processes that the kill left are still dying
		}
		if kills++; cmd.ProcessState.ExitCode() >= 0 || kills > 300 {
			t.Fatalf("try %d: %v\n%s", n, err, out)
		}
	}
	lines := map[string]int{}
	for _, line := range strings.Fields(s.read("log")) {
		lines[line]++
	}
	again := 0
	for i := range 60 {
		for _, line := range []string{strconv.Itoa(i + 1), "p" + strconv.Itoa(i+1)} {
			if lines[line] == 0 {
				t.Errorf("%s was not done", line)
			}
			again += max(0, lines[line]-1)
		}
	}
	if again > 3*kills || kills < 2 {
		t.Errorf("%d steps were done again after %d kills", again, kills)
	}
	t.Logf("%d kills, %d steps cut off", kills, again)
	s.gone(t)
}

// On a terminal the tree of steps is drawn repeatedly, within the window, and is gone at the end.
func TestTreeOnATerminal(t *testing.T) {
	s := stepwise(t, `
  - {id: quick, command: "echo quick"}
  - id: each
    for_each: [api, web]
    steps: [{id: build, command: "echo building {{item}}; sh ../wait {{item}}"}]
  - {id: bad, command: "echo no such luck; exit 3"}
  - {id: late, command: "echo late"}
`)
	s.write("../wait", untilSeen)
	screen, err := s.onTerminal(60, func(shown string) {
		for _, item := range []string{"api", "web"} {
			if strings.Contains(shown, " · building "+item) {
				s.write("../"+item, "")
			}
		}
	}, "run", "steps.yaml")
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Fatalf("%v\n%s", err, screen)
	}
	screen = regexp.MustCompile(` (\d+m)?\d+s `).ReplaceAllString(screen, " 0s ") // on a busy machine a step takes seconds
	for _, want := range []string{"Steps: 0s · 1 of 4 steps", "✓ quick", "▸ each · 0s · 1 of 2", "▸ each.2 · 0s · web", "▸ build · 0s · building web", "· late", "trellis: bad: failed: its command exited with 3", "trellis:   no such luck",
		"trellis: late: blocked: blocked by bad, which failed", "failed: 4 done, 1 failed, 1 blocked"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the terminal never showed %q:\n%q", want, screen)
		}
	}
	for line := range strings.SplitSeq(screen, "\n") {
		if plain := strings.TrimRight(line[strings.LastIndexByte(line, 'J')+1:], "\r"); strings.Contains(plain, " · ") && !strings.HasPrefix(plain, "trellis:") && len([]rune(plain)) > 60+10 {
			t.Errorf("a line is wider than the terminal: %q", plain)
		}
	}
}
