package faults

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// notes plays agents for any task: the work is a file that is named after it.
const notes = `
roles:
  implement:
    - run: ["echo implement-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log", "mkdir -p notes; echo $TRELLIS_TASK_ID > notes/$TRELLIS_TASK_ID; sleep 0.1"]
      answer: done
  check:
    - run: ["echo check-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log"]
      answer: fine
  debug:
    - run: ["echo debug-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log"]
      answer: tried
  accept:
    - answer: {criteria: [{id: A1, verdict: met, evidence: "greet.sh:1"}]}
`

// crowd is a world with n tasks that have nothing to do with each other.
func crowd(t testing.TB, n int) (w *world, ids []string) {
	t.Helper()
	w = openWorld(t, t.TempDir()).lay(notes)
	for i := range n {
		ids = append(ids, fmt.Sprintf("02-01-t%d", i))
		w.task(ids[i], map[string]string{"prd.md": "# Note " + ids[i] + "\n\n## Acceptance Criteria\n\n- [ ] it is noted\n"})
	}
	return w, ids
}

// done makes sure that each task was delivered once, and that no agent was called twice for it but when it was cut off.
func (w *world) done(ids []string, cut int) {
	w.Helper()
	w.gone()
	want := map[string]int{}
	for _, id := range ids {
		w.delivered(id, "feature/"+strings.TrimPrefix(id, "02-01-"))
		want["implement-"+id], want["check-"+id] = 1, 1
	}
	if again, lost := w.repeated(want); again > cut || len(lost) > 0 {
		w.Errorf("calls %v", w.calls())
	}
}

// One process watches a repository: a second ends with 11 and names it. Killed, it is followed by one that goes on with
// every task, once.
func TestTwoWatchers(t *testing.T) {
	for _, who := range victims {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			w, ids := crowd(t, 3)
			first := w.begin([]string{"watch", "--parallel", "2"})
			w.until(func() bool { return w.read("calls.log") != "" })
			worker := w.worker(first)
			if e := w.trellis([]string{"watch", "--once"}); e.Code != 11 || !strings.Contains(e.Said, fmt.Sprintf("another watcher runs here: process %d on ", worker)) {
				t.Errorf("the second: exit %d, want 11, with process %d\n%s", e.Code, worker, e.Said)
			}
			w.strike(first, who)
			w.wait(first)
			if e := w.again([]string{"watch", "--once", "--parallel", "2"}); e.Code != 0 {
				t.Errorf("the next: exit %d\n%s", e.Code, e.Said)
			}
			w.done(ids, 2)
		})
	}
}

// A watcher, and people who start its tasks at the same time, from several terminals: each task is run once, and those who
// come too late and can't hand it over are told who runs it, as soon as that has written down who it is.
func TestWatcherAndStarts(t *testing.T) {
	t.Parallel()
	w, ids := crowd(t, 2)
	watcher := w.begin([]string{"watch", "--parallel", "2"})
	var starts []*process
	for range 3 {
		for _, id := range ids {
			starts = append(starts, w.begin([]string{"start", id}))
		}
	}
	for _, p := range starts {
		if e := w.wait(p); e.Code != 0 && (e.Code != 11 || !strings.Contains(e.Said, "held by process") && !strings.Contains(e.Said, "held by another process")) {
			t.Errorf("%v: exit %d\n%s", p.Args[1:], e.Code, e.Said)
		}
	}
	w.until(func() bool { // what a start ran, when the watcher was not there yet, is done; the rest is the watcher's
		return len(ids) == strings.Count(w.git("log", "--branches", "--format=%B"), "Trellis-Task: ") && !w.at(ids, "in_progress") && !w.at(ids, "ready")
	})
	if err := watcher.Process.Signal(syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	if e := w.wait(watcher); e.Code != 143 {
		t.Errorf("the watcher: exit %d, want 143\n%s", e.Code, e.Said)
	}
	w.done(ids, 0)
}

// at reports whether one of the tasks has this status.
func (w *world) at(ids []string, status string) bool {
	w.Helper()
	return slices.ContainsFunc(ids, func(id string) bool { return w.status(id) == status })
}

// worker is the process that works below a guard.
func (w *world) worker(p *process) (pid int) {
	w.Helper()
	w.until(func() bool { pid = childOf(p.Process.Pid); return pid != 0 })
	return pid
}

// childOf is the worker of a guard, the child of its child, 0 when there is none.
func childOf(guard int) int {
	entries, _ := os.ReadDir("/proc") // none: the tests that look are skipped
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		env, _ := os.ReadFile("/proc/" + e.Name() + "/environ")
		if up := parentOf(pid); up != 0 && parentOf(up) == guard && strings.Contains("\x00"+string(env), "\x00TRELLIS_GUARD=") {
			return pid
		}
	}
	return 0
}

// parentOf is the pid of a process's parent, 0 when it is not there.
func parentOf(pid int) (up int) {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if _, rest, ok := strings.Cut(string(status), "\nPPid:\t"); ok {
		line, _, _ := strings.Cut(rest, "\n")
		up, _ = strconv.Atoi(line)
	}
	return up
}

// strike kills the worker, the guard or both. Who is gone already is.
func (w *world) strike(p *process, who string) {
	w.Helper()
	worker := childOf(p.Process.Pid)
	if who != "worker" {
		_ = p.Process.Kill()
	}
	if who != "guard" && worker != 0 {
		_ = syscall.Kill(worker, syscall.SIGKILL)
	}
}
