package scheduler_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// once runs watch --once.
func (w *world) once() {
	w.Helper()
	if _, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour}); err != nil {
		w.Fatal(err)
	}
}

// A chain of tasks is done in one watch --once: each begins on the branch of its dependency, and its report shows only its own work.
func TestChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	c := w.Depends("02-01-c", "02-03-b", "02-02-a") // b has all that a has
	b := w.Depends("02-03-b", "02-02-a")
	a := w.Depends("02-02-a")
	w.once() // would not end if anything waited for a rescan
	w.Stacked(a, "", w.Git("rev-parse", "main"))
	w.Stacked(b, "02-02-a", w.Tip("a"))
	w.Stacked(c, "02-03-b", w.Tip("b"))
	for _, name := range []string{"a", "b", "c"} {
		dir := map[string]string{"a": a, "b": b, "c": c}[name]
		task := w.Task(dir)
		if task.Status != trellis.Review || task.BaseBranch != "main" || task.Commit != w.Tip(name) {
			t.Errorf("%s: %s, base branch %s, commit %s", name, task.Status, task.BaseBranch, task.Commit)
		}
		if got := w.Git("rev-list", "--count", task.Pipeline.BaseCommit+"..feature/"+name); got != "1" {
			t.Errorf("%s has %s commits of its own", name, got)
		}
		report := w.Read(".trellis/tasks/" + filepath.Base(dir) + "/report.md")
		if !strings.Contains(report, "notes.txt +1 -0") {
			t.Errorf("the report of %s does not show its own work alone:\n%s", name, report)
		}
		if on := task.Pipeline.StackedOn; on != "" && !strings.Contains(report, "- Stacked on: "+on) {
			t.Errorf("the report of %s does not say what it is stacked on:\n%s", name, report)
		}
	}
	if got := w.Git("show", "feature/c:notes.txt"); got != "02-02-a\n02-03-b\n02-01-c" {
		t.Errorf("the last holds %q", got)
	}
}

// A task with several dependencies waits until all but one are merged, whichever way people merge.
func TestSeveralUnmerged(t *testing.T) {
	t.Parallel()
	for name, merge := range soak.Rows(t, map[string]func(w *world){
		"merged":    func(w *world) { w.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/a") },
		"squashed":  func(w *world) { w.Git("merge", "-q", "--squash", "feature/a"); w.Git("commit", "-qm", "squashed") },
		"completed": func(w *world) { w.Edit(filepath.Join(w.Site.Store.Tasks(), "02-01-a"), `"review"`, `"completed"`) },
		"archived": func(w *world) {
			if _, err := w.Site.Store.Archive(filepath.Join(w.Site.Store.Tasks(), "02-01-a")); err != nil {
				w.Fatal(err)
			}
		},
	}, "squashed", "archived") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, strings.ReplaceAll(runnertest.Quickly, "notes.txt", "$TRELLIS_TASK_ID.txt"))
			w.Program("text", `cat > /dev/null
case $TRELLIS_ROLE in
implement) echo x > $TRELLIS_TASK_ID.txt; echo done;;
accept) echo "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"greet.sh:1\"}]}";;
*) echo fine;;
esac
`)
			w.Depends("02-01-a")
			w.Depends("02-02-b")
			both := w.Depends("02-03-both", "02-01-a", "02-02-b")
			w.once()
			if got := w.status("02-03-both"); got != trellis.Waiting || w.Heard("all but one of 02-01-a and 02-02-b to be merged") != 1 {
				t.Fatalf("it is %s; said %q", got, w.Said)
			}
			if res := w.Start(both); res.Status != trellis.Waiting || len(res.Waits) != 1 || !strings.Contains(res.Waits.String(), "all but one") {
				t.Errorf("started: %+v", res)
			}
			w.Git("checkout", "-q", "main")
			w.Git("add", "README.md")
			w.Git("commit", "-q", "--allow-empty", "-m", "meanwhile")
			merge(w)
			w.once()
			if got := w.status("02-03-both"); got != trellis.Review {
				t.Fatalf("it is %s; said %q", got, w.Said)
			}
			w.Stacked(both, "02-02-b", w.Tip("b"))
		})
	}
}

// If the dependency is merged, the task begins on the base branch, and is not stacked.
func TestMergedIsTheBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Depends("02-01-a")
	w.once()
	w.Git("merge", "-q", "--no-ff", "-m", "merge", "feature/a")
	w.Git("worktree", "remove", "--force", w.Task(filepath.Join(w.Site.Store.Tasks(), "02-01-a")).WorktreePath)
	w.Git("branch", "-q", "-D", "feature/a")
	b := w.Depends("02-02-b", "02-01-a")
	w.once()
	w.Stacked(b, "", w.Git("rev-parse", "main"))
	if got := w.status("02-02-b"); got != trellis.Review {
		t.Errorf("it is %s; said %q", got, w.Said)
	}
}

// Edge F10: a failed dependency does not count as done once it is archived. The task waits, with a hint.
func TestArchivedWithoutWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	a, b := w.Depends("02-01-a"), w.Depends("02-02-b", "02-01-a")
	w.Edit(a, `"ready"`, `"failed"`)
	if _, err := w.Site.Store.Archive(a); err != nil {
		t.Fatal(err)
	}
	archived, err := w.Site.Store.Find("02-01-a")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Task(archived).Status; got != trellis.Failed {
		t.Fatalf("the archive makes it %s", got)
	}
	const why = "02-01-a, which is failed and in the archive: take it out of pipeline.depends_on"
	if res := w.Start(b); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits.String() != why {
		t.Errorf("got %s, %q", res.Status, res.Waits)
	}
	if next, err := w.Site.Assessor().Next(t.Context(), b); err != nil || next != "trellis edit 02-02-b task" {
		t.Errorf("got %q, %v for what comes next", next, err)
	}
	w.once()
	if w.Heard("02-02-b waits for "+why) != 1 {
		t.Errorf("said %q", w.Said)
	}
	w.Edit(b, `"02-01-a"`, "")
	if res := w.Start(b); res.Status != trellis.Review {
		t.Errorf("without it: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

// If a dependency is no longer done when the run claims the task, the task waits and no run begins.
func TestDependencyGoesBackAtTheClaim(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"ready", "planning"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Quickly)
			a, b := w.Depends("02-01-a"), w.Depends("02-02-b", "02-01-a")
			w.Start(a)
			w.Edit(b, `"ready"`, `"`+from+`"`)
			w.Site.Available = func(context.Context, string) error {
				if w.Task(a).Status == trellis.Review {
					w.Edit(a, `"review"`, `"in_progress"`)
				}
				return nil
			}
			if res := w.Start(b); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits.String() != "02-01-a" || w.Task(b).Status != trellis.Waiting {
				t.Fatalf("got %+v", res)
			}
			w.Site.Available = func(context.Context, string) error { return nil }
			w.Edit(a, `"in_progress"`, `"review"`)
			w.once()
			w.Stacked(b, "02-01-a", w.Tip("a"))
			if n := w.Calls()["02-02-b"]; w.Task(b).Status != trellis.Review || n != 1 {
				t.Errorf("it is %s, after %d launches", w.Task(b).Status, n)
			}
		})
	}
}

// If a dependency needed no change, the next task begins on the branch on which the dependency was based.
func TestNoChangeOnABranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	a, b, c := w.Depends("02-01-a"), w.Depends("02-02-b", "02-01-a"), w.Depends("02-03-c", "02-02-b")
	w.Start(a)
	w.Write(".trellis/tasks/02-02-b/prd.md", "# Notes\n\n## Acceptance Criteria\n\n- [ ] it is noted\n  verify: `grep 02-01-a notes.txt`\n")
	w.Write(".trellis/rehearsal.yaml", strings.Replace(runnertest.Quickly, "echo $TRELLIS_TASK_ID >> notes.txt;", "test $TRELLIS_TASK_ID = 02-02-b || echo $TRELLIS_TASK_ID >> notes.txt;", 1))
	w.once()
	if task := w.Task(b); task.Status != trellis.Completed || task.Pipeline.Outcome != trellis.NoChangeNeeded {
		t.Fatalf("b is %s (%s)", task.Status, task.Pipeline.Failure.Detail)
	}
	w.Stacked(c, "02-01-a", w.Tip("a"))
}

// Of the tasks that wait for the same dependency, those of higher priority run first, then the older ones.
func TestOrderOfPromotion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Depends("02-09-a")
	for id, more := range map[string]string{"02-01-young": `"createdAt": "2026-02-03"`, "02-02-old": `"createdAt": "2026-02-01"`, "02-03-urgent": `"priority": "P0"`} {
		w.Edit(w.Depends(id, "02-09-a"), `"ready",`, `"ready", `+more+`,`)
	}
	if _, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(w.Read("../calls.log")); strings.Join(got, " ") != "02-09-a 02-03-urgent 02-02-old 02-01-young" {
		t.Errorf("worked on %q", got)
	}
}

// However a dependency ends, also without this watcher, the tasks that wait for it are updated at once.
func TestPromotedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		end  func(w *world, dir string)
		want trellis.Status
		said string
	}{
		"completed by hand": {func(w *world, dir string) { w.Edit(dir, `"in_progress"`, `"completed"`) }, trellis.Review, ""},
		"cancelled":         {func(w *world, dir string) { _ = w.Site.Orders().Cancel(dir) }, trellis.Waiting, "02-02-b waits for 02-01-a, which is cancelled"},
		"failed by hand":    {func(w *world, dir string) { w.Edit(dir, `"in_progress"`, `"failed"`) }, trellis.Waiting, "02-02-b waits for 02-01-a, which is failed"},
		"archived": {func(w *world, dir string) {
			w.Edit(dir, `"in_progress"`, `"completed"`)
			if _, err := w.Site.Store.Archive(dir); err != nil {
				w.Error(err)
			}
		}, trellis.Review, ""},
		"archived, after nobody could read it": {func(w *world, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, "task.json"))
			if err != nil {
				w.Error(err)
			}
			w.Write(".trellis/tasks/02-01-a/task.json", "")
			w.Until("a to be read", func() bool { return w.Heard("02-02-b waits for 02-01-a, whose task.json can't be read") == 1 })
			w.Write(".trellis/tasks/archive/2026-02/02-01-a/task.json", strings.Replace(string(text), "in_progress", "completed", 1))
			if err := os.RemoveAll(dir); err != nil {
				w.Error(err)
			}
		}, trellis.Review, ""},
	}, "completed by hand", "cancelled", "archived, after nobody could read it") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Quickly)
			a := w.Depends("02-01-a")
			w.Edit(a, `"ready"`, `"in_progress"`) // as if it runs elsewhere
			w.watching(scheduler.WatchOptions{})
			w.Depends("02-02-b", "02-01-a")
			w.Until("b waiting", func() bool { return w.status("02-02-b") == trellis.Waiting })
			c.end(w, a)
			w.Until(name+" to be seen", func() bool { return w.status("02-02-b") == c.want && (c.said == "" || w.Heard(c.said) == 1) })
		})
	}
}
