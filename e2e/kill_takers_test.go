package e2e

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
)

const begunFile = "../repo-worktrees/feature/begun" // holds the pid of the sleepy agent

// crashed kills the guard and the worker of a run whose agent is at work, and returns that agent.
func (s *site) crashed(t *testing.T) proc.ID {
	t.Helper()
	cmd, out := s.background("start", "02-01-bye")
	s.begun()
	for s.read(begunFile) == "" {
		time.Sleep(time.Millisecond)
	}
	worker := child(t, cmd.Process.Pid)
	_ = cmd.Process.Kill()
	_ = syscall.Kill(worker, syscall.SIGKILL) // already gone if it died with the guard
	if err := cmd.Wait(); err == nil {
		t.Errorf("it ended well: %s", out)
	}
	for end := time.Now().Add(hang); (proc.ID{PID: worker}).Alive() && time.Now().Before(end); {
		time.Sleep(time.Millisecond) // it holds its locks until it is dead
	}
	pid, err := strconv.Atoi(strings.TrimSpace(s.read(begunFile)))
	if err != nil {
		t.Fatal(err)
	}
	return proc.ID{PID: pid}
}

// Edge F2: every command that takes over the task of a killed run first of all ends the agent that the run left; a command
// that refuses to take the task over keeps the record of that agent for the next one.
func TestWhoeverTakesTheTaskEndsWhatIsLeft(t *testing.T) {
	for name, c := range map[string]struct {
		args string
		code int
		ends bool // the command ends the agent of the killed run
	}{
		"archive": {"task archive 02-01-bye", 3, true},
		"cancel":  {"cancel 02-01-bye", 0, true},
		"cleanup": {"cleanup 02-01-bye", 3, true},
		"rm":      {"task rm 02-01-bye", 2, false},
		"retry":   {"retry 02-01-bye", 0, true},
		"deliver": {"deliver 02-01-bye", 2, false},
		"start":   {"status 02-01-bye", 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := played(t, sleepy)
			agent := s.crashed(t)
			code, out, errs := s.try(program, strings.Fields(c.args)...)
			if code != c.code {
				t.Errorf("%s: exit %d, want %d\n%s%s", c.args, code, c.code, out, errs)
			}
			if c.ends {
				s.gone(t)
			}
			if name == "cancel" {
				s.trellis(0, "retry", "02-01-bye")
			}
			s.finish(t)
			if agent.Alive() {
				t.Errorf("the agent of the killed run is alive beside the next")
			}
			s.gone(t)
		})
	}
}
