package scheduler_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// rewinds are git commands by which people take a task directory back to an earlier state, and return it.
var rewinds = map[string]struct {
	committed  bool // the directory was committed when the task was ready
	back, fore []string
}{
	"stash":            {true, []string{"stash -q"}, []string{"stash pop -q"}},
	"reset":            {true, []string{"reset -q --hard"}, nil},
	"switch":           {true, []string{"commit -q -a -m later", "switch -q older"}, []string{"switch -q tasks"}},
	"switch away":      {true, []string{"commit -q -a -m later", "switch -q main"}, []string{"switch -q tasks"}},
	"checkout a file":  {true, []string{"checkout -q older -- .trellis/tasks/02-01-x/task.json"}, nil},
	"stash untracked":  {false, []string{"stash -q -u"}, []string{"stash pop -q"}},
	"reset, untracked": {false, []string{"reset -q --hard"}, nil},
}

// rewound returns a repository with one task, committed or not, on a branch.
func rewound(t *testing.T, name, script string) (w *world, dir string, back, fore func()) {
	r := rewinds[name]
	w = newWorld(t, script)
	w.Git("switch", "-q", "-c", "tasks")
	dir = filepath.Join(w.Site.Store.Tasks(), "02-01-x")
	if err := runnertest.Lay(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	w.Write(".trellis/tasks/02-01-x/task.json", `{"status": "ready", "base_branch": "main"}`)
	if r.committed {
		w.Git("add", "-A")
		w.Git("commit", "-q", "-m", "a task")
		w.Git("branch", "older")
	}
	do := func(lines []string) func() {
		return func() {
			for _, line := range lines {
				if strings.HasPrefix(line, "stash pop") { // git refuses to pop over changed files
					w.Git("checkout", "-q", "--", ".")
				}
				w.Git(strings.Fields(line)...)
			}
		}
	}
	return w, dir, do(r.back), do(r.fore)
}

// worked checks that the task was worked on once.
func (w *world) worked(dir string) {
	w.Helper()
	if n := w.Calls()["02-01-x"]; n != 1 {
		w.Errorf("%d launches", n)
	}
	if n := w.Git("rev-list", "--count", "main..feature/x"); n != "1" {
		w.Errorf("%s commits", n)
	}
}

// A delivered task that git takes back is not run again, and is complete after git returns it.
func TestRewoundAfterDelivery(t *testing.T) {
	t.Parallel()
	for name := range soak.Rows(t, rewinds, "stash", "reset", "switch", "stash untracked") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir, back, fore := rewound(t, name, runnertest.Quickly)
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			back()
			w.once()
			if got := w.status("02-01-x"); got == trellis.Ready && w.Heard("trellis retry 02-01-x") != 1 {
				t.Errorf("it is %s; said %q", got, w.Said)
			}
			fore()
			w.once()
			w.worked(dir)
		})
	}
}

// A run that was interrupted is not begun a second time after git took the task back. A task that is still in_progress resumes.
func TestRewoundWhileCutOff(t *testing.T) {
	t.Parallel()
	for name := range soak.Rows(t, rewinds, "checkout a file", "switch away", "reset, untracked") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir, back, fore := rewound(t, name, runnertest.Quickly)
			if killed, _ := w.Child(dir, 60); !killed { // after the agent's work
				t.Fatal("the run came to its end")
			}
			if got := w.status("02-01-x"); got != trellis.InProgress {
				t.Fatalf("it is %s", got)
			}
			back()
			rewoundTo := w.status("02-01-x")
			w.once()
			if rewoundTo == trellis.Ready {
				if got := w.status("02-01-x"); got != trellis.Ready || w.Heard("git took task.json back") != 1 {
					t.Errorf("it is %s; said %q", got, w.Said)
				}
				fore()
				if w.status("02-01-x") == trellis.Ready {
					if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
						t.Fatal(err)
					}
				}
			} else {
				fore()
			}
			w.once()
			if got := w.status("02-01-x"); got != trellis.Review {
				t.Errorf("it is %s; said %q", got, w.Said)
			}
			w.worked(dir)
		})
	}
}

// If git takes back a task that runs, the run restores task.json, or sleeps until the directory is back.
func TestRewoundWhileItRuns(t *testing.T) {
	t.Parallel()
	for name := range soak.Rows(t, rewinds, "stash", "reset", "switch away", "stash untracked") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir, back, fore := rewound(t, name, strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"touch $TRELLIS_REPO/../begun; while ! test -f $TRELLIS_REPO/../go; do sleep 0.05; done; ", 1))
			w.watching(scheduler.WatchOptions{Rescan: 200 * time.Millisecond})
			w.Until("the agent at work", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "..", "begun")); return err == nil })
			back()
			w.Write("../go", "")
			if gone := w.status("02-01-x") == ""; gone {
				w.Until("the run to sleep", func() bool { _, held := runner.Held(dir); return !held })
				fore()
			}
			w.Until("the task in review", func() bool { return w.status("02-01-x") == trellis.Review })
			w.Until("the end of its run", func() bool { _, held := runner.Held(dir); return !held })
			w.worked(dir)
		})
	}
}

// A task that git takes back to before it was ready does not begin. After git returns it, it runs.
func TestRewoundWhileReady(t *testing.T) {
	t.Parallel()
	for name, r := range rewinds {
		if len(r.fore) == 0 || name == "switch" { // the task is ready on both branches
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir, back, fore := rewound(t, name, runnertest.Quickly)
			w.Edit(dir, `"ready"`, `"planning"`)
			if r.committed {
				w.Git("commit", "-q", "-a", "-m", "not yet")
			}
			w.Edit(dir, `"planning"`, `"ready"`)
			back()
			w.once()
			if got := w.status("02-01-x"); got == trellis.Review {
				t.Error("it was run")
			}
			fore()
			w.once()
			if got := w.status("02-01-x"); got != trellis.Review {
				t.Errorf("it is %s; said %q", got, w.Said)
			}
			w.worked(dir)
		})
	}
}

// A cancellation that git checks out while a run holds the task ends the run.
func TestCancelledByCheckout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"touch $TRELLIS_REPO/../begun; sleep 3000\", \"", 1))
	w.Git("switch", "-q", "-c", "off")
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-x")
	if err := runnertest.Lay(dir, "cancelled"); err != nil {
		t.Fatal(err)
	}
	w.Git("add", "-A")
	w.Git("commit", "-q", "-m", "called off")
	w.Edit(dir, `"cancelled"`, `"ready"`)
	w.watching(scheduler.WatchOptions{})
	w.Until("the agent at work", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "..", "begun")); return err == nil })
	w.Git("checkout", "-q", "--", ".trellis/tasks/02-01-x/task.json")
	w.Until("the end of its run", func() bool { _, held := runner.Held(dir); return !held && w.status("02-01-x") == trellis.Cancelled })
	w.Until("the run's word", func() bool { return w.Task(dir).Pipeline.Outcome == trellis.OutcomeCancel })
}
