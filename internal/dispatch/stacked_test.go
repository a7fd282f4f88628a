package dispatch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// depends makes a ready task that depends on others.
func (w *world) depends(id string, on ...string) string {
	w.Helper()
	dir := filepath.Join(w.Site.Store.Tasks(), id)
	text := `{"status": "ready", "pipeline": {"depends_on": ["` + strings.Join(on, `", "`) + `"]}}`
	if len(on) == 0 {
		text = `{"status": "ready"}`
	}
	if err := errors.Join(lay(dir, "planning"), os.WriteFile(filepath.Join(dir, "task.json"), []byte(text), 0o644)); err != nil {
		w.Fatal(err)
	}
	return dir
}

// once runs a watcher until nothing is left to run.
func (w *world) once() {
	w.Helper()
	if _, err := w.Site.Watch(context.Background(), dispatch.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour}); err != nil {
		w.Fatal(err)
	}
}

// tip is where the branch of a task ends.
func (w *world) tip(name string) string { w.Helper(); return w.git("rev-parse", "feature/"+name) }

func (w *world) stacked(dir, on, commit string) {
	w.Helper()
	if p := w.task(dir).Pipeline; p.StackedOn != on || p.BaseCommit != commit {
		w.Errorf("%s is on %q at %s, want %q at %s", filepath.Base(dir), p.StackedOn, p.BaseCommit, on, commit)
	}
}

// A chain of tasks is worked off in one go: each begins on the branch of the one before, and shows its own work alone.
func TestChain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	c := w.depends("02-01-c", "02-03-b", "02-02-a") // all that a has is on b, too
	b := w.depends("02-03-b", "02-02-a")
	a := w.depends("02-02-a")
	w.once() // which would not end if anything waited for a rescan
	w.stacked(a, "", w.git("rev-parse", "main"))
	w.stacked(b, "02-02-a", w.tip("a"))
	w.stacked(c, "02-03-b", w.tip("b"))
	for _, name := range []string{"a", "b", "c"} {
		dir := map[string]string{"a": a, "b": b, "c": c}[name]
		task := w.task(dir)
		if task.Status != trellis.Review || task.BaseBranch != "main" || task.Commit != w.tip(name) {
			t.Errorf("%s: %s, base branch %s, commit %s", name, task.Status, task.BaseBranch, task.Commit)
		}
		if got := w.git("rev-list", "--count", task.Pipeline.BaseCommit+"..feature/"+name); got != "1" {
			t.Errorf("%s has %s commits of its own", name, got)
		}
		report := w.read(".trellis/tasks/" + filepath.Base(dir) + "/report.md")
		if !strings.Contains(report, "notes.txt +1 -0") {
			t.Errorf("the report of %s does not show its own work alone:\n%s", name, report)
		}
		if on := task.Pipeline.StackedOn; on != "" && !strings.Contains(report, "- Stacked on: "+on) {
			t.Errorf("the report of %s does not say what it is stacked on:\n%s", name, report)
		}
	}
	if got := w.git("show", "feature/c:notes.txt"); got != "02-02-a\n02-03-b\n02-01-c" {
		t.Errorf("the last holds %q", got)
	}
}

// Of several dependencies all but one have to be merged, however people merge.
func TestSeveralUnmerged(t *testing.T) {
	t.Parallel()
	for name, merge := range map[string]func(w *world){
		"merged":    func(w *world) { w.git("merge", "-q", "--no-ff", "-m", "merge", "feature/a") },
		"squashed":  func(w *world) { w.git("merge", "-q", "--squash", "feature/a"); w.git("commit", "-qm", "squashed") },
		"completed": func(w *world) { w.edit(filepath.Join(w.Site.Store.Tasks(), "02-01-a"), `"review"`, `"completed"`) },
		"archived": func(w *world) {
			if _, err := w.Site.Store.Archive(filepath.Join(w.Site.Store.Tasks(), "02-01-a")); err != nil {
				w.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, strings.ReplaceAll(quickly, "notes.txt", "$TRELLIS_TASK_ID.txt"))
			w.program("text", `cat > /dev/null
case $TRELLIS_ROLE in
implement) echo x > $TRELLIS_TASK_ID.txt; echo done;;
accept) echo "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"greet.sh:1\"}]}";;
*) echo fine;;
esac
`)
			w.depends("02-01-a")
			w.depends("02-02-b")
			both := w.depends("02-03-both", "02-01-a", "02-02-b")
			w.once()
			if got := w.status("02-03-both"); got != trellis.Waiting || w.heard("all but one of 02-01-a and 02-02-b to be merged") != 1 {
				t.Fatalf("it is %s; said %q", got, w.said)
			}
			if res := w.start(both); res.Status != trellis.Waiting || len(res.Waits) != 1 || !strings.Contains(res.Waits[0], "all but one") {
				t.Errorf("started: %+v", res)
			}
			w.git("checkout", "-q", "main")
			w.git("add", "README.md")
			w.git("commit", "-q", "--allow-empty", "-m", "meanwhile")
			merge(w)
			w.once()
			if got := w.status("02-03-both"); got != trellis.Review {
				t.Fatalf("it is %s; said %q", got, w.said)
			}
			w.stacked(both, "02-02-b", w.tip("b"))
		})
	}
}

// What is merged already is the base; nothing is stacked on it.
func TestMergedIsTheBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.depends("02-01-a")
	w.once()
	w.git("merge", "-q", "--no-ff", "-m", "merge", "feature/a")
	w.git("worktree", "remove", "--force", w.task(filepath.Join(w.Site.Store.Tasks(), "02-01-a")).WorktreePath)
	w.git("branch", "-q", "-D", "feature/a")
	b := w.depends("02-02-b", "02-01-a")
	w.once()
	w.stacked(b, "", w.git("rev-parse", "main"))
	if got := w.status("02-02-b"); got != trellis.Review {
		t.Errorf("it is %s; said %q", got, w.said)
	}
}

// Edge F10. A dependency that came to no good end is not done by going to the archive: it is told what to do.
func TestArchivedWithoutWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	a, b := w.depends("02-01-a"), w.depends("02-02-b", "02-01-a")
	w.edit(a, `"ready"`, `"failed"`)
	if _, err := w.Site.Store.Archive(a); err != nil {
		t.Fatal(err)
	}
	archived, err := w.Site.Store.Find("02-01-a")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.task(archived).Status; got != trellis.Failed {
		t.Fatalf("the archive makes it %s", got)
	}
	const why = "02-01-a, which is failed and in the archive: take it out of pipeline.depends_on"
	if res := w.start(b); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits[0] != why {
		t.Errorf("got %s, %q", res.Status, res.Waits)
	}
	w.once()
	if w.heard("02-02-b waits for "+why) != 1 {
		t.Errorf("said %q", w.said)
	}
	w.edit(b, `"02-01-a"`, "")
	if res := w.start(b); res.Status != trellis.Review {
		t.Errorf("without it: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

// held makes agents of the implement role wait until free is called, once they are at work.
func (w *world) held() (script string, free func()) {
	return strings.Replace(quickly, "run: [\"", "run: [\"touch $TRELLIS_REPO/../begun; while ! test -f $TRELLIS_REPO/../go; do sleep 0.05; done\", \"", 1),
		func() { w.write("../go", "") }
}

// amend has the branch of a delivered task end in another commit.
func (w *world) amend(name string) {
	w.Helper()
	dir := filepath.Join(filepath.Dir(w.Dir), "repo-worktrees", "feature", name)
	w.git("-C", dir, "commit", "-q", "--amend", "-m", "another")
}

// Whatever becomes of a dependency, a task that has begun keeps its base, in a retry too. Afresh it is asked again.
func TestDependencyGoesBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	a, b := w.depends("02-01-a"), w.depends("02-02-b", "02-01-a")
	w.start(a)
	first := w.tip("a")
	script, free := w.held()
	w.write(".trellis/rehearsal.yaml", script+"  debug: [{answer: hm}]\n")
	w.Site.Config.Verify = []string{"sh test.sh && ! test -e ../../../fail"}
	ended := make(chan dispatch.Result)
	go func() {
		res, err := w.Site.Start(context.Background(), b, dispatch.RunOptions{})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	w.until("b at work", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "..", "begun")); return err == nil })
	w.amend("a")
	w.git("worktree", "remove", "--force", w.task(a).WorktreePath)
	w.git("branch", "-q", "-D", "feature/a")
	w.edit(a, `"review"`, `"cancelled"`)
	w.write("../fail", "")
	free()
	if res := <-ended; res.Status != trellis.Failed || res.Report.Base != first || res.Report.Stacked != "02-01-a" {
		t.Fatalf("got %s, %v, %+v", res.Status, res.Failure, res.Report)
	}
	if err := os.Remove(filepath.Join(w.Dir, "..", "fail")); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Retry(context.Background(), b, false, dispatch.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.edit(b, first, strings.Repeat("0", 40)) // an old copy of the file; the journal knows better
	if res := w.start(b); res.Status != trellis.Review || res.Report.Base != first {
		t.Fatalf("again: %s, %v", res.Status, res.Failure)
	}
	w.stacked(b, "02-01-a", first)
	if got := w.git("rev-list", "--count", first+"..feature/b"); got != "1" {
		t.Errorf("%s commits of its own", got)
	}
	w.edit(b, `"review"`, `"failed"`)
	if err := w.Site.Retry(context.Background(), b, true, dispatch.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.start(b); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits[0] != "02-01-a, which is cancelled: trellis retry 02-01-a, or take it out of pipeline.depends_on" {
		t.Errorf("afresh: %+v", res)
	}
	w.edit(a, `"cancelled"`, `"completed"`)
	if res := w.start(b); res.Status != trellis.Review {
		t.Fatalf("afresh: %s, %v", res.Status, res.Failure)
	}
	w.stacked(b, "", w.git("rev-parse", "main"))
}

// A dependency that goes back between the last look and the claim is waited for; nothing is begun.
func TestDependencyGoesBackAtTheClaim(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"ready", "planning"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quickly)
			a, b := w.depends("02-01-a"), w.depends("02-02-b", "02-01-a")
			w.start(a)
			w.edit(b, `"ready"`, `"`+from+`"`)
			w.Site.Available = func(context.Context, string) error {
				if w.task(a).Status == trellis.Review {
					w.edit(a, `"review"`, `"in_progress"`)
				}
				return nil
			}
			if res := w.start(b); res.Status != trellis.Waiting || len(res.Waits) != 1 || res.Waits[0] != "02-01-a" || w.task(b).Status != trellis.Waiting {
				t.Fatalf("got %+v", res)
			}
			w.Site.Available = func(context.Context, string) error { return nil }
			w.edit(a, `"in_progress"`, `"review"`)
			w.once()
			w.stacked(b, "02-01-a", w.tip("a"))
			if n := w.calls()["02-02-b"]; w.task(b).Status != trellis.Review || n != 1 {
				t.Errorf("it is %s, after %d launches", w.task(b).Status, n)
			}
		})
	}
}

// A task for another base branch can't begin on a branch that was made for this one.
func TestOtherBaseBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.git("branch", "release")
	a, b := w.depends("02-01-a"), w.depends("02-02-b", "02-01-a")
	w.edit(b, `"ready",`, `"ready", "base_branch": "release",`)
	w.start(a)
	if res := w.start(b); res.Status != trellis.Waiting || len(res.Waits) != 1 || !strings.HasPrefix(res.Waits[0], "02-01-a to be merged into release") {
		t.Fatalf("got %+v", res)
	}
	w.git("update-ref", "refs/heads/release", w.tip("a"))
	if res := w.start(b); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.stacked(b, "", w.tip("a"))
}

// A task that needed no change on the branch of another has nothing to begin on: its own base counts.
func TestNoChangeOnABranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	a, b, c := w.depends("02-01-a"), w.depends("02-02-b", "02-01-a"), w.depends("02-03-c", "02-02-b")
	w.start(a)
	w.write(".trellis/tasks/02-02-b/prd.md", "# Notes\n\n## Acceptance Criteria\n\n- [ ] it is noted\n  verify: `grep 02-01-a notes.txt`\n")
	w.write(".trellis/rehearsal.yaml", strings.Replace(quickly, "echo $TRELLIS_TASK_ID >> notes.txt;", "test $TRELLIS_TASK_ID = 02-02-b || echo $TRELLIS_TASK_ID >> notes.txt;", 1))
	w.once()
	if task := w.task(b); task.Status != trellis.Completed || task.Pipeline.Outcome != trellis.NoChangeNeeded {
		t.Fatalf("b is %s (%s)", task.Status, task.Pipeline.Failure.Detail)
	}
	w.stacked(c, "02-01-a", w.tip("a"))
}

// Of those that wait for the same task the most urgent is first, then the oldest.
func TestOrderOfPromotion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, quickly)
	w.depends("02-09-a")
	for id, more := range map[string]string{"02-01-young": `"createdAt": "2026-02-03"`, "02-02-old": `"createdAt": "2026-02-01"`, "02-03-urgent": `"priority": "P0"`} {
		w.edit(w.depends(id, "02-09-a"), `"ready",`, `"ready", `+more+`,`)
	}
	if _, err := w.Site.Watch(context.Background(), dispatch.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(w.read("../calls.log")); strings.Join(got, " ") != "02-09-a 02-03-urgent 02-02-old 02-01-young" {
		t.Errorf("worked on %q", got)
	}
}

// However a dependency ends, with this watcher or without it, those that wait for it move on at once.
func TestPromotedAtOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(w *world, dir string)
		want trellis.Status
		said string
	}{
		"completed by hand": {func(w *world, dir string) { w.edit(dir, `"in_progress"`, `"completed"`) }, trellis.Review, ""},
		"cancelled":         {func(w *world, dir string) { _ = w.Site.Cancel(dir) }, trellis.Waiting, "02-02-b waits for 02-01-a, which is cancelled"},
		"failed by hand":    {func(w *world, dir string) { w.edit(dir, `"in_progress"`, `"failed"`) }, trellis.Waiting, "02-02-b waits for 02-01-a, which is failed"},
		"archived": {func(w *world, dir string) {
			w.edit(dir, `"in_progress"`, `"completed"`)
			if _, err := w.Site.Store.Archive(dir); err != nil {
				w.Error(err)
			}
		}, trellis.Review, ""},
		"archived, after nobody could read it": {func(w *world, dir string) {
			text, err := os.ReadFile(filepath.Join(dir, "task.json"))
			if err != nil {
				w.Error(err)
			}
			w.write(".trellis/tasks/02-01-a/task.json", "")
			w.until("a to be read", func() bool { return w.heard("02-02-b waits for 02-01-a, whose task.json can't be read") == 1 })
			w.write(".trellis/tasks/archive/2026-02/02-01-a/task.json", strings.Replace(string(text), "in_progress", "completed", 1))
			if err := os.RemoveAll(dir); err != nil {
				w.Error(err)
			}
		}, trellis.Review, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, quickly)
			a := w.depends("02-01-a")
			w.edit(a, `"ready"`, `"in_progress"`) // somewhere else
			w.watching(dispatch.WatchOptions{})
			w.depends("02-02-b", "02-01-a")
			w.until("b waiting", func() bool { return w.status("02-02-b") == trellis.Waiting })
			c.end(w, a)
			w.until(name+" to be seen", func() bool { return w.status("02-02-b") == c.want && (c.said == "" || w.heard(c.said) == 1) })
		})
	}
}
