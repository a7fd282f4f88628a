package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// held makes implement agents wait, once they work, until free is called.
func (w *world) held() (script string, free func()) {
	return strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"touch $TRELLIS_REPO/../begun; while ! test -f $TRELLIS_REPO/../go; do sleep 0.05; done\", \"", 1),
		func() { w.Write("../go", "") }
}

// amend replaces the commit of a delivered task's branch.
func (w *world) amend(name string) {
	w.Helper()
	dir := filepath.Join(filepath.Dir(w.Dir), "repo-worktrees", "feature", name)
	w.Git("-C", dir, "commit", "-q", "--amend", "-m", "another")
}

// Whatever happens to its dependency, a task that has begun keeps its base, also in a retry. With --fresh it waits for the dependency again.
func TestDependencyGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	a, b := w.Depends("02-01-a"), w.Depends("02-02-b", "02-01-a")
	w.Start(a)
	first := w.Tip("a")
	script, free := w.held()
	w.Write(".trellis/rehearsal.yaml", script+"  debug: [{answer: hm}]\n")
	w.Site.Config.Verify = []string{"sh test.sh && ! test -e ../../../fail"}
	ended := make(chan runner.Result)
	go func() {
		res, err := w.Site.Starter().Start(context.Background(), b, runner.RunOptions{})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	w.Until("b at work", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "..", "begun")); return err == nil })
	w.amend("a")
	w.Git("worktree", "remove", "--force", w.Task(a).WorktreePath)
	w.Git("branch", "-q", "-D", "feature/a")
	w.Edit(a, `"review"`, `"cancelled"`)
	w.Write("../fail", "")
	free()
	if res := <-ended; res.Status != trellis.Failed || res.Report.Base != first || res.Report.Stacked != "02-01-a" {
		t.Fatalf("got %s, %v, %+v", res.Status, res.Failure, res.Report)
	}
	if err := os.Remove(filepath.Join(w.Dir, "..", "fail")); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Orders().Retry(context.Background(), b, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Edit(b, first, strings.Repeat("0", 40)) // an old copy of task.json; the journal has the right base
	if res := w.Start(b); res.Status != trellis.Review || res.Report.Base != first {
		t.Fatalf("again: %s, %v", res.Status, res.Failure)
	}
	w.Stacked(b, "02-01-a", first)
	if got := w.Git("rev-list", "--count", first+"..feature/b"); got != "1" {
		t.Errorf("%s commits of its own", got)
	}
	w.Edit(b, `"review"`, `"failed"`)
	if err := w.Site.Orders().Retry(context.Background(), b, true, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(b); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits.String() != "02-01-a, which is cancelled; next: trellis retry 02-01-a, or take it out of pipeline.depends_on" {
		t.Errorf("afresh: %+v", res)
	}
	w.Edit(a, `"cancelled"`, `"completed"`)
	if res := w.Start(b); res.Status != trellis.Review {
		t.Fatalf("afresh: %s, %v", res.Status, res.Failure)
	}
	w.Stacked(b, "", w.Git("rev-parse", "main"))
}

// A task for another base branch can't begin on a branch for this one: it waits until the dependency is merged.
func TestOtherBaseBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Git("branch", "release")
	a, b := w.Depends("02-01-a"), w.Depends("02-02-b", "02-01-a")
	w.Edit(b, `"ready",`, `"ready", "base_branch": "release",`)
	w.Start(a)
	if res := w.Start(b); res.Status != trellis.Waiting || len(res.Waits) != 1 || !strings.HasPrefix(res.Waits.String(), "02-01-a to be merged into release") {
		t.Fatalf("got %+v", res)
	}
	w.Git("update-ref", "refs/heads/release", w.Tip("a"))
	if res := w.Start(b); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.Stacked(b, "", w.Tip("a"))
}
