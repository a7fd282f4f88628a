package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// leaving is the sleepy script whose agent also starts a process without environment, session, parent or mark, each time.
var leaving = strings.Replace(sleepy, "test -f ../go", "sleep 0.2; env -i setsid bash -c 'ulimit -R unlimited; sleep 304 >/dev/null 2>&1 & echo $! >>../escaped'; test -f ../go", 1)

// escaped returns the pids of the processes that the agent left.
func (s *site) escaped() (pids []int) {
	s.Helper()
	data, err := os.ReadFile(s.beside("escaped"))
	if err != nil {
		s.Fatal(err)
	}
	for _, word := range strings.Fields(string(data)) {
		pid, err := strconv.Atoi(word)
		if err != nil || pid <= 1 {
			s.Fatalf("the agent left %q", data)
		}
		pids = append(pids, pid)
	}
	return pids
}

// survivors fails for each of these processes that is alive, and kills it.
func (s *site) survivors(when string) {
	s.Helper()
	for _, pid := range s.escaped() {
		if (proc.ID{PID: pid}).Alive() {
			s.Errorf("%s: process %d is alive", when, pid)
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				s.Error(err)
			}
		}
	}
}

// TestNoToolSurvives: a process that an agent left with no tie to anything is ended with the agent or, if everything that
// could do so was killed, when the task is started again.
func TestNoToolSurvives(t *testing.T) {
	if _, err := os.Stat("/proc/self/limits"); err != nil {
		t.Skipf("this system has nothing that tells where such a process came from: %v", err)
	}
	for _, killed := range []string{"nobody", "worker", "guard", "both", "all"} {
		t.Run(killed, func(t *testing.T) {
			t.Parallel()
			if _, err := proc.CgroupFolder(); err != nil && killed == "all" {
				t.Skipf("where nobody is left and calls have no control groups, nothing tells where such a process came from: %v", err)
			}
			s := played(t, leaving)
			if killed != "nobody" {
				cmd, out := s.background("start", "02-01-bye")
				s.begun()
				worker := child(t, cmd.Process.Pid)
				if killed == "all" {
					_ = cmd.Process.Signal(syscall.SIGSTOP) // otherwise it would end the rest before it is killed itself
					_ = syscall.Kill(parent(worker), syscall.SIGKILL)
				}
				if killed != "worker" {
					_ = cmd.Process.Kill()
				}
				if killed != "guard" {
					_ = syscall.Kill(worker, syscall.SIGKILL) // already gone if the guard is
				}
				if err := cmd.Wait(); err == nil {
					t.Errorf("it ended well: %s", out)
				}
				if killed == "worker" {
					s.survivors("after the guard")
				}
			} else if err := os.MkdirAll(filepath.Dir(s.beside("go")), 0o755); err != nil {
				t.Fatal(err)
			}
			s.finish(t)
			s.survivors("after the run")
			s.gone(t)
		})
	}
}

// TestOrphansAreKnownByTheirStart: the record of a former claim names processes that ended long ago. Processes that have
// their pids now are left alone.
func TestOrphansAreKnownByTheirStart(t *testing.T) {
	t.Parallel()
	s := played(t, sleepy)
	innocent := exec.Command("sleep", "3000")
	if err := innocent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := innocent.Process.Kill(); err != nil {
			t.Errorf("the process that has the pid now was ended: %v", err)
		}
		_ = innocent.Wait()
	}()
	pid := innocent.Process.Pid
	record, err := json.Marshal(durable.Holder{Claim: 1, PID: pid, Start: "1", Guard: pid, GuardStart: "1", BootID: proc.BootID(), Marker: "task-of-long-ago"})
	if err != nil {
		t.Fatal(err)
	}
	s.write(".trellis/tasks/02-01-bye/run/lock", string(record)+"\n")
	if err := os.MkdirAll(filepath.Dir(s.beside("go")), 0o755); err != nil {
		t.Fatal(err)
	}
	s.finish(t)
	if !(proc.ID{PID: pid}).Alive() {
		t.Error("the process that has the pid now was ended")
	}
}
