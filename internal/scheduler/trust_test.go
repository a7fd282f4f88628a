package scheduler_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust/subject"
)

// Edge S2: a watcher leaves the task of a stranger waiting and reports that once, while other tasks run. The task begins by itself after
// somebody here agrees to it.
func TestWatcherWaitsForTrust(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Quickly)
	if _, err := w.Site.Trust.Base(context.Background(), w.Git("rev-parse", "HEAD")); err != nil { // main becomes the trusted branch
		t.Fatal(err)
	}
	dir := w.Hand("02-02-theirs", "# Theirs\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	task := w.Read(".trellis/tasks/02-02-theirs/task.json")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	w.Brings(".trellis/tasks/02-02-theirs/task.json", strings.Replace(task, "{", `{"base_branch": "main", "title": "Theirs", "pipeline": {"verify": ["sh greet.sh"]}, `, 1))
	w.Write(".trellis/tasks/02-02-theirs/prd.md", "# Theirs\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	w.Write(".trellis/tasks/02-02-theirs/implement.jsonl", `{"file": "greet.sh", "reason": "the program"}`+"\n")
	w.Write(".trellis/tasks/02-02-theirs/check.jsonl", `{"file": "test.sh", "reason": "its test"}`+"\n")
	mine := w.Hand("02-03-mine", "# Mine\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	w.Write(".trellis/tasks/02-03-mine/task.json", `{"status": "ready", "base_branch": "main", "title": "Mine"}`)
	w.watching(scheduler.WatchOptions{})
	w.Until("the other one is done", func() bool { return w.Task(mine).Status == trellis.Review })
	if got := w.Task(dir).Status; got != trellis.Ready {
		t.Errorf("the stranger's is %s", got)
	}
	if n := w.Heard("Mallory"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	of, err := subject.Task(w.Dir, ".trellis/tasks/02-02-theirs")
	if err != nil {
		t.Fatal(err)
	}
	v, err := w.Site.Trust.Subject(context.Background(), of)
	if err != nil || v.Trusted() {
		t.Fatalf("the judge says %+v, %v", v, err)
	}
	if err := w.Site.Trust.Agree(v); err != nil {
		t.Fatal(err)
	}
	w.Until("it begins by itself", func() bool { return w.Task(dir).Status == trellis.Review })
}
