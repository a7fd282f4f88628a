package dispatch_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// auto is a roadmap whose steps are planned without a person's asking.
func auto(text string) string { return "---\nauto_advance: true\n---\n" + text }

// A step that fails for good holds up what depends on it and nothing else. When a person tries its task again, the
// objective goes on.
func TestObjectiveOfAFailingStep(t *testing.T) {
	t.Parallel()
	w := newRoad(t, roadwork(), auto(short))
	w.Site.Config.Verify = []string{"sh test.sh && { ! test -e ../../../fail || ! grep -q first notes.txt; }"}
	w.Site.Config.Limits.Rounds, w.Site.Config.Limits.Attempts = 1, 1
	w.write("../fail", "")
	w.works()
	first := filepath.Join(w.Site.Store.Tasks(), today("first"))
	if got := w.task(first).Status; got != trellis.Failed {
		t.Fatalf("it is %s; said %q", got, w.said)
	}
	w.wantRow("1", "| 1 | First | | blocked | plan "+today("first")+" |")
	w.wantRow("2", "| 2 | Second | | | |")
	w.wantRow("3", "| 3 | Beside | none | todo | plan "+today("beside")+" |")
	if w.heard("objective farewells: step 3 is being planned") != 1 || w.heard("objective farewells: step 3 is planned as "+today("beside")) != 1 {
		t.Errorf("said %q", w.said)
	}
	if w.heard(`step 1: Status is now "blocked": `+today("first")+" is failed") != 1 || w.heard("objective farewells: blocked: step 1 is blocked") == 0 {
		t.Errorf("said %q", w.said)
	}
	if err := os.Remove(filepath.Join(w.Dir, "..", "fail")); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Retry(context.Background(), first, false, dispatch.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.works()
	w.wantRow("1", "| 1 | First | | | plan "+today("first")+" |")
	w.wantRow("2", "| 2 | Second | | | plan "+today("second")+" |")
	w.stacked(filepath.Join(w.Site.Store.Tasks(), today("second")), today("first"), w.tip("first"))
}

// Plans that wait for a person hold the roadmap up, and a rejected step says why.
func TestObjectiveWaitsForPeople(t *testing.T) {
	t.Parallel()
	reject := obj{"when": "Step 3 of the objective", "answer": obj{"decision": "reject", "category": "unclear", "details": "beside what?", "suggestions": []string{"say"}}}
	w := newRoad(t, roadwork().with("evaluate", accepted("tiny"), reject), auto(short))
	w.Site.Config.Planning.Approval = "plan"
	found := map[string]trellis.Status{}
	for _, r := range w.works() {
		found[filepath.Base(r.Dir)] = r.Status
	}
	if len(found) != 2 || found[today("first")] != trellis.Waiting || found[today("beside")] != trellis.Rejected {
		t.Errorf("ended as %v", found)
	}
	w.wantRow("2", "| 2 | Second | | | |")
	w.wantRow("3", "| 3 | Beside | none | blocked | plan "+today("beside")+" |")
	if w.heard("objective farewells: step 3: "+today("beside")+" is rejected: beside what?") != 1 {
		t.Errorf("said %q", w.said)
	}
}

// A watcher sees by events that a roadmap changed, writes into all of them what becomes of tasks, and plans those alone
// that say so. It ends while a planning is at work, which another one goes on with.
func TestWatcherHearsOfObjectives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roadwork().String())
	w.Site.Store.Now = func() time.Time { return day }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := w.Site.Watch(ctx, dispatch.WatchOptions{Parallel: 1, Rescan: time.Hour, Objectives: true})
		done <- err
	}()
	dir := w.hand("02-01-by-hand", prdText)
	w.until("the task is done", func() bool { return w.status("02-01-by-hand") == trellis.Review })
	w.write(roadFile, "| Step | Description | PR |\n| --- | --- | --- |\n| 1 | By hand | plan 02-01-by-hand |\n| 2 | Not by itself | |\n")
	w.edit(dir, `"status": "review"`, `"status": "completed", "pr_url": "https://github.example/ann/greet/pull/5"`)
	w.until("the cell says so", func() bool { return strings.Contains(w.read(roadFile), "#5") })
	slow := roadwork()
	slow["research"] = []obj{{"sleep": "1h", "answer": found}}
	w.write(".trellis/rehearsal.yaml", slow.String())
	w.write(".trellis/objectives/auto.md", auto(short))
	w.until("it is planned", func() bool {
		list, _ := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*-first/run/1/research#1"))
		return len(list) == 1
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := w.read(".trellis/objectives/auto.md"); got != auto(short) {
		t.Errorf("interrupted, the roadmap is\n%s", got)
	}
	w.write(".trellis/rehearsal.yaml", roadwork().String())
	w.works()
	for _, name := range []string{"first", "second", "beside"} {
		if got := w.status(today(name)); got != trellis.Review {
			t.Errorf("%s is %q; said %q", name, got, w.said)
		}
	}
	if strings.Contains(w.read(roadFile), "plan") {
		t.Errorf("it went on by itself:\n%s", w.read(roadFile))
	}
}

// Roadmaps that can't be read stop no other, and are said.
func TestBrokenObjective(t *testing.T) {
	t.Parallel()
	w := newRoad(t, roadwork(), auto(short))
	w.write(".trellis/objectives/broken.md", auto(short)+"| 1 | Again | none | | |\n")
	_, err := w.Site.Watch(context.Background(), dispatch.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour, Objectives: true})
	if err == nil || !strings.Contains(err.Error(), "objective broken: ") {
		t.Errorf("got %v", err)
	}
	w.wantRow("2", "| 2 | Second | | | plan "+today("second")+" |")
}

func (w *world) reconcile(o dispatch.ReconcileOptions) []dispatch.Reconciled {
	w.Helper()
	all, err := w.Site.Reconcile(context.Background(), o)
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// A dry run decides what a real one does, and writes nothing.
func TestReconcileObjectives(t *testing.T) {
	t.Parallel()
	w := newRoad(t, roadwork(), auto(short))
	w.write(".trellis/objectives/quiet.md", short)
	w.write(".trellis/objectives/broken.md", auto(short)+"| 1 | Again | none | | |\n")
	steps := func(o dispatch.ReconcileOptions) string {
		said := ""
		for _, r := range w.reconcile(o) {
			said += fmt.Sprintf("%s %v:", r.Name, r.Err != nil)
			for _, s := range r.Steps {
				said += " " + s.ID
			}
			for _, c := range r.Changes {
				said += fmt.Sprintf(" %s=%s", c.Step, c.Value)
			}
			if !o.Dry && len(r.Planned) != len(r.Steps) {
				t.Errorf("planned %+v of %+v", r.Planned, r.Steps)
			}
			said += "; "
		}
		return said
	}
	before := w.git("status", "--porcelain", "-uall")
	for want, o := range map[string]dispatch.ReconcileOptions{
		"broken true:; farewells false: 1; ":   {Dry: true},
		"broken true:; farewells false: 1 3; ": {Dry: true, All: true},
		"quiet false: 1; ":                     {Dry: true, Names: []string{"quiet"}},
		"none true:; ":                         {Dry: true, Names: []string{"none"}},
	} {
		if got := steps(o); got != want {
			t.Errorf("%+v: got %q, want %q", o, got, want)
		}
	}
	if got := w.git("status", "--porcelain", "-uall"); got != before || len(w.tasks()) > 0 {
		t.Errorf("a dry run left\n%s, was\n%s", got, before)
	}
	if got := steps(dispatch.ReconcileOptions{All: true}); got != "broken true:; farewells false: 1 3; " {
		t.Errorf("got %q", got)
	}
	w.wantRow("1", "| 1 | First | | | plan "+today("first")+" |")
	w.edit(filepath.Join(w.Site.Store.Tasks(), today("first")), `"ready"`, `"completed"`)
	for range 2 {
		if got := steps(dispatch.ReconcileOptions{Dry: true, Names: []string{"farewells"}}); got != "farewells false: 2 1=done; " {
			t.Errorf("got %q", got)
		}
	}
	if got := steps(dispatch.ReconcileOptions{Names: []string{"farewells"}}); got != "farewells false: 2 1=done; " {
		t.Errorf("got %q", got)
	}
}

// People type into the file while a watcher writes into it: nothing of either is lost.
func TestEditedByHandMeanwhile(t *testing.T) {
	t.Parallel()
	w := newRoad(t, roadwork(), auto(short))
	desk := roadmap.Desk{Root: w.Dir}
	stop := make(chan struct{})
	var group sync.WaitGroup
	typed := 0
	group.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(60 * time.Millisecond):
			}
			err := desk.Edit(context.Background(), "farewells", func(src []byte) ([]byte, error) {
				return fmt.Appendf(src, "\nline %d\n", typed), nil
			})
			if err != nil {
				t.Error(err)
			}
			typed++
		}
	})
	w.works()
	close(stop)
	group.Wait()
	text := w.read(roadFile)
	for n := range typed {
		if !strings.Contains(text, fmt.Sprintf("\nline %d\n", n)) {
			t.Errorf("line %d of %d is lost", n, typed)
		}
	}
	w.wantRow("1", "| 1 | First | | | plan "+today("first")+" |")
	w.wantRow("2", "| 2 | Second | | | plan "+today("second")+" |")
	w.wantRow("3", "| 3 | Beside | none | todo | plan "+today("beside")+" |")
}

// What was merged by hand is seen at the next look, by reconcile and by the watcher.
func TestMergedStepIsDone(t *testing.T) {
	t.Parallel()
	w := newRoad(t, roadwork(), auto(short))
	w.works()
	first := filepath.Join(w.Site.Store.Tasks(), today("first"))
	if got := w.task(first).Status; got != trellis.Review {
		t.Fatalf("the first step's task is %s", got)
	}
	w.git("merge", "--squash", "-q", w.task(first).BranchName())
	w.git("commit", "-q", "-m", "First, squashed")
	for range 2 {
		r := w.reconcile(dispatch.ReconcileOptions{Names: []string{"farewells"}, Dry: true})[0]
		if r.Err != nil || len(r.Changes) != 1 || r.Changes[0].Step != "1" || r.Changes[0].Value != "done" {
			t.Errorf("a dry look says %+v, %v", r.Changes, r.Err)
		}
	}
	if got := w.task(first).Status; got != trellis.Review {
		t.Errorf("a dry look made it %s", got)
	}
	w.works()
	w.wantRow("1", "| 1 | First | | done | plan "+today("first")+" |")
	if got := w.task(first).Status; got != trellis.Completed {
		t.Errorf("it is %s", got)
	}
}

// A step whose task is gone is said with what to do, by whoever looks. Nothing is built on it, and it is planned again
// only once a person takes it out of the roadmap.
func TestTaskOfAStepIsGone(t *testing.T) {
	t.Parallel()
	w := newRoad(t, roadwork(), auto(short))
	res := w.mustPlan("1")
	linked := w.read(roadFile)
	if err := os.RemoveAll(res.Dir); err != nil {
		t.Fatal(err)
	}
	const where = roadFile + ":8: step 1 is planned as "
	gone := where + res.Task + ", and there is no such task"
	const todo = "bring its directory back, or empty the PR cell of step 1, then: trellis objective plan farewells --step 1"
	for _, dry := range []bool{true, false} {
		list, err := w.Site.Reconcile(context.Background(), dispatch.ReconcileOptions{Names: []string{"farewells"}, All: true, Dry: dry})
		if err != nil || len(list) != 1 || list[0].Err != nil {
			t.Fatalf("got %+v, %v", list, err)
		}
		r := list[0]
		if len(r.Gone) != 1 || r.Gone[0].Error() != gone || r.Gone[0].Hint != todo || len(r.Steps) != 1 || r.Steps[0].ID != "3" {
			t.Errorf("dry %v: gone %+v, steps %+v", dry, r.Gone, r.Steps)
		}
	}
	w.works()
	if w.heard(gone+": "+todo) != 1 {
		t.Errorf("said %q", w.said)
	}
	w.wantRow("1", "| 1 | First | | | plan "+res.Task+" |")
	w.wantRow("2", "| 2 | Second | | | |")
	w.write(roadFile, strings.Replace(linked, "plan "+res.Task, "", 1))
	if again := w.mustPlan("1"); again.Known || again.Task != res.Task {
		t.Errorf("planned anew: %+v", again)
	}

	w.write(filepath.Join(".trellis/tasks", res.Task, "task.json"), "{") // it is there, whatever is wrong with it
	list, err := w.Site.Reconcile(context.Background(), dispatch.ReconcileOptions{Names: []string{"farewells"}, Dry: true})
	if err != nil || len(list[0].Gone) > 0 || !strings.Contains(list[0].Decision.Why, "whose task.json can't be read") {
		t.Errorf("unreadable: %+v, %v", list, err)
	}
}
