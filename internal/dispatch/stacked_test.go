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
	begun := time.Now()
	w.once()
	if took := time.Since(begun); took > 25*time.Second {
		t.Errorf("it took %v: something waited for a rescan", took)
	}
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
