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

// notes plays agents for any task: the work is a file that is named after the task.
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

// crowd returns a world with n tasks that are independent of each other, and their ids.
func crowd(t testing.TB, n int) (w *world, ids []string) {
	t.Helper()
	w = openWorld(t, t.TempDir()).lay(notes)
	for i := range n {
		ids = append(ids, fmt.Sprintf("02-01-t%d", i))
		w.task(ids[i], map[string]string{"prd.md": "# Note " + ids[i] + "\n\n## Acceptance Criteria\n\n- [ ] it is noted\n"})
	}
	return w, ids
}

// done checks that each task was delivered once, and that at most cut calls, those that were cut off, were made again.
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

// One process watches a repository: a second watcher exits with 11 and names the first. When the first is killed, the next
// one resumes every task, once.
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

// A watcher, and people who start its tasks at the same time, from several terminals: each task is run once, and a start that
// comes too late and can't hand the task over reports the process that runs it, as soon as that has recorded who it is.
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
	w.until(func() bool { // a task that a start ran, before the watcher was ready, is done; the watcher does the rest
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

// at reports whether any of the tasks has this status.
func (w *world) at(ids []string, status string) bool {
	w.Helper()
	return slices.ContainsFunc(ids, func(id string) bool { return w.status(id) == status })
}

// worker waits for the worker of the guard p, and returns its pid.
func (w *world) worker(p *process) (pid int) {
	w.Helper()
	w.until(func() bool { pid = childOf(p.Process.Pid); return pid != 0 })
	return pid
}

// childOf returns the pid of a guard's worker, which is the child of its child, or 0 if there is none.
func childOf(guard int) int {
	entries, _ := os.ReadDir("/proc") // no /proc: the tests that need it are skipped
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

// parentOf returns the pid of a process's parent, or 0 if the process does not exist.
func parentOf(pid int) (up int) {
	status, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if _, rest, ok := strings.Cut(string(status), "\nPPid:\t"); ok {
		line, _, _ := strings.Cut(rest, "\n")
		up, _ = strconv.Atoi(line)
	}
	return up
}

// strike kills the worker, the guard or both. It ignores a process that has ended already.
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
