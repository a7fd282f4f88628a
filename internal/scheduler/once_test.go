package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// launches returns how often agents worked on the tasks, by directory name.
func (w *world) launches() map[string]int {
	w.Helper()
	if _, err := os.Stat(filepath.Join(w.Dir, "..", "calls.log")); err != nil {
		return nil
	}
	return w.Calls()
}

// Tasks that end well and tasks that fail at once begin only once each, however often the watcher rescans.
func TestNoStorm(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("text", `cat > /dev/null
test $TRELLIS_ROLE != implement || echo $TRELLIS_TASK_ID >> "$TRELLIS_REPO/../calls.log"
case $TRELLIS_TASK_ID in *-fails*) echo no such model >&2; exit 3;; esac
case $TRELLIS_ROLE in
implement) echo x > $TRELLIS_TASK_ID.txt; echo done;;
accept) echo "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"greet.sh:1\"}]}";;
*) echo fine;;
esac
`)
	w.Site.Config.Limits.Attempts = 1
	each := 2
	if soak.Asked() {
		each = 5
	}
	for i := range each {
		w.Depends(fmt.Sprintf("02-%02d-works-%d", i+1, i))
		w.Depends(fmt.Sprintf("02-%02d-fails-%d", i+1, i))
	}
	w.watching(scheduler.WatchOptions{Rescan: 20 * time.Millisecond})
	count := func(s trellis.Status) (n int) {
		entries, err := w.Site.Store.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if e.Task != nil && e.Task.Status == s {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(runnertest.Hang); count(trellis.Review) < each || count(trellis.Failed) < each; {
		if time.Now().After(end) {
			t.Fatalf("%d in review, %d failed", count(trellis.Review), count(trellis.Failed))
		}
		time.Sleep(20 * time.Millisecond)
	}
	time.Sleep(200 * time.Millisecond) // time for many more rescans
	for id, n := range w.launches() {
		if n != 1 {
			t.Errorf("%s was launched %d times", id, n)
		}
	}
	if n := len(w.launches()); n != 2*each {
		t.Errorf("%d were launched", n)
	}
	if n := w.Git("for-each-ref", "refs/heads/feature", "--format=x"); strings.Count(n, "x") != 2*each {
		t.Errorf("the branches are %q", n)
	}
}

// Whatever a crash left of a task, one watch --once resumes it, fails it with a code, or reports it.
func TestReconcile(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	me := fmt.Sprintf(`{"claim":1,"host":"elsewhere","boot_id":%q,"pid":%d,"start":"1","marker":"task-of-nobody"}`, proc.BootID(), os.Getppid())
	file := func(name, text string) func(dir string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	for name, c := range soak.Rows(t, map[string]struct {
		at    int // step of the journal at which the run is killed
		spoil func(dir string) error
		want  trellis.Status
		said  string
	}{
		"as-it-was":     {40, func(string) error { return nil }, trellis.Review, ""},
		"pid-reused":    {40, file(taskdir.RunLock, me), trellis.Review, ""},
		"lock-empty":    {40, file(taskdir.RunLock, ""), trellis.Review, ""},
		"lock-torn":     {40, file(taskdir.RunLock, me[:20]), trellis.Review, ""},
		"lock-gone":     {40, func(dir string) error { return os.Remove(filepath.Join(dir, taskdir.RunLock)) }, trellis.Review, ""},
		"torn-tail":     {40, appendTo(taskdir.Journal, `{"n":99,"k":"sta`), trellis.Review, ""},
		"damaged":       {40, file(taskdir.Journal, "{}\nnonsense\n"), trellis.Failed, ""},
		"empty-journal": {40, file(taskdir.Journal, ""), trellis.Failed, ""},
		"no-journal":    {40, func(dir string) error { return os.Remove(filepath.Join(dir, taskdir.Journal)) }, trellis.InProgress, "trellis retry"},
		"just-begun":    {4, func(string) error { return nil }, trellis.Review, ""},
		"nearly-done":   {90, func(string) error { return nil }, trellis.Review, ""},
		"no-worktree": {40, func(string) error {
			return os.RemoveAll(filepath.Join(w.Dir, "..", "repo-worktrees", "feature", "no-worktree"))
		}, trellis.Failed, ""},
	}, "as-it-was", "pid-reused", "lock-torn", "torn-tail", "damaged", "no-journal", "just-begun", "nearly-done", "no-worktree") {
		id := "02-01-" + name
		dir := w.Depends(id)
		if killed, _ := w.Child(dir, c.at); !killed {
			t.Fatalf("%s came to its end", name)
		}
		if err := c.spoil(dir); err != nil {
			t.Fatal(err)
		}
		defer func() {
			task := w.Task(dir)
			code := map[string]trellis.Code{"no-worktree": trellis.WorktreeFailed, "damaged": trellis.JournalDamaged, "empty-journal": trellis.JournalDamaged}[name]
			if task.Status != c.want || task.Pipeline.Failure.Code != code && c.want == trellis.Failed {
				t.Errorf("%s is %s (%s: %s)", name, task.Status, task.Pipeline.Failure.Code, task.Pipeline.Failure.Detail)
			}
			if c.said != "" && w.Heard(c.said+" "+id) != 1 {
				t.Errorf("%s: said %q", name, w.Said)
			}
		}()
	}
	w.once()
}

func appendTo(name, text string) func(dir string) error {
	return func(dir string) error {
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString(text)
		return errors.Join(err, f.Close())
	}
}

// Attempts are counted over a task's lifetime, whatever git does to task.json. Each retry grants as many again, and nothing else does.
func TestAttemptsForLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Site.Config.Limits.Attempts = 1
	w.Program("text", "cat > /dev/null\necho $TRELLIS_ATTEMPT >> \"$TRELLIS_REPO/../attempts.log\"\nexit 3\n")
	dir := w.Depends("02-01-x")
	w.Git("add", "-A")
	w.Git("commit", "-q", "-m", "a task")
	failed := func(what string, attempts int) {
		t.Helper()
		task := w.Task(dir)
		if got := strings.Fields(w.Read("../attempts.log")); len(got) != attempts || task.Status != trellis.Failed || task.Pipeline.Failure.Code != trellis.AgentExit {
			t.Fatalf("after %s: attempts %q, %s (%s)", what, got, task.Status, task.Pipeline.Failure.Code)
		}
	}
	w.Start(dir)
	failed("the first run", 1)
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.once()
	failed("a retry", 2)
	w.Git("checkout", "-q", "--", ".trellis/tasks") // task.json is ready, and has no revision
	w.once()
	if got := strings.Fields(w.Read("../attempts.log")); len(got) != 2 {
		t.Errorf("git's old copy was run: %q", got)
	}
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.once()
	failed("a retry of a rewound one", 3)
	if got := w.Read("../attempts.log"); got != "1\n2\n3\n" {
		t.Errorf("the attempts were %q", got)
	}
}
