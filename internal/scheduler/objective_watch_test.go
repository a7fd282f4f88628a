package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A step that fails for good blocks only the steps that depend on it. After a person retries its task, the objective continues.
func TestObjectiveOfAFailingStep(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Auto(runnertest.Short))
	w.Site.Config.Verify = []string{"sh test.sh && { ! test -e ../../../fail || ! grep -q first notes.txt; }"}
	w.Site.Config.Limits.Rounds, w.Site.Config.Limits.Attempts = 1, 1
	w.Write("../fail", "")
	w.works()
	first := filepath.Join(w.Site.Store.Tasks(), runnertest.Today("first"))
	if got := w.Task(first).Status; got != trellis.Failed {
		t.Fatalf("it is %s; said %q", got, w.Said)
	}
	w.WantRow("1", "| 1 | First | | blocked | plan "+runnertest.Today("first")+" |")
	w.WantRow("2", "| 2 | Second | | | |")
	w.WantRow("3", "| 3 | Beside | none | todo | plan "+runnertest.Today("beside")+" |")
	if w.Heard("objective farewells: step 3 is being planned") != 1 || w.Heard("objective farewells: step 3 is planned as "+runnertest.Today("beside")) != 1 {
		t.Errorf("said %q", w.Said)
	}
	if w.Heard(`step 1: Status is now "blocked": `+runnertest.Today("first")+" is failed") != 1 || w.Heard("objective farewells: blocked: step 1 is blocked") == 0 {
		t.Errorf("said %q", w.Said)
	}
	if err := os.Remove(filepath.Join(w.Dir, "..", "fail")); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Orders().Retry(context.Background(), first, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.works()
	w.WantRow("1", "| 1 | First | | | plan "+runnertest.Today("first")+" |")
	w.WantRow("2", "| 2 | Second | | | plan "+runnertest.Today("second")+" |")
	w.Stacked(filepath.Join(w.Site.Store.Tasks(), runnertest.Today("second")), runnertest.Today("first"), w.Tip("first"))
}

// A step whose plan waits for approval holds up the steps that depend on it, and a rejected step is reported with the reason.
func TestObjectiveWaitsForPeople(t *testing.T) {
	t.Parallel()
	reject := runnertest.Obj{"when": "Step 3 of the objective", "answer": runnertest.Obj{"decision": "reject", "category": "unclear", "details": "beside what?", "suggestions": []string{"say"}}}
	w := newRoad(t, runnertest.Roadwork().With("evaluate", runnertest.Accepted("tiny"), reject), runnertest.Auto(runnertest.Short))
	w.Site.Config.Planning.Approval = "plan"
	found := map[string]trellis.Status{}
	for _, r := range w.works() {
		found[filepath.Base(r.Dir)] = r.Status
	}
	if len(found) != 2 || found[runnertest.Today("first")] != trellis.Waiting || found[runnertest.Today("beside")] != trellis.Rejected {
		t.Errorf("ended as %v", found)
	}
	w.WantRow("2", "| 2 | Second | | | |")
	w.WantRow("3", "| 3 | Beside | none | blocked | plan "+runnertest.Today("beside")+" |")
	if w.Heard("objective farewells: step 3: "+runnertest.Today("beside")+" is rejected: beside what?") != 1 {
		t.Errorf("said %q", w.Said)
	}
}

// A watcher notices by events that a roadmap changed, updates the cells of every roadmap, and plans the steps of those with auto_advance
// only. A planning that is running when the watcher ends is resumed by the next watcher.
func TestWatcherHearsOfObjectives(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Roadwork().String())
	w.Site.Store.Now = func() time.Time { return runnertest.Day }
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error)
	go func() {
		_, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Parallel: 1, Rescan: time.Hour, Objectives: true})
		done <- err
	}()
	dir := w.Hand("02-01-by-hand", runnertest.PrdText)
	w.Until("the task is done", func() bool { return w.status("02-01-by-hand") == trellis.Review })
	w.Write(runnertest.RoadFile, "| Step | Description | PR |\n| --- | --- | --- |\n| 1 | By hand | plan 02-01-by-hand |\n| 2 | Not by itself | |\n")
	w.Edit(dir, `"status": "review"`, `"status": "completed", "pr_url": "https://github.example/ann/greet/pull/5"`)
	w.Until("the cell says so", func() bool { return strings.Contains(w.Read(runnertest.RoadFile), "#5") })
	slow := runnertest.Roadwork()
	slow["research"] = []runnertest.Obj{{"sleep": "1h", "answer": runnertest.Found}}
	w.Write(".trellis/rehearsal.yaml", slow.String())
	w.Write(".trellis/objectives/auto.md", runnertest.Auto(runnertest.Short))
	w.Until("it is planned", func() bool {
		list, _ := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*-first/run/1/research/research#1"))
		return len(list) == 1
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := w.Read(".trellis/objectives/auto.md"); got != runnertest.Auto(runnertest.Short) {
		t.Errorf("interrupted, the roadmap is\n%s", got)
	}
	w.Write(".trellis/rehearsal.yaml", runnertest.Roadwork().String())
	w.works()
	for _, name := range []string{"first", "second", "beside"} {
		if got := w.status(runnertest.Today(name)); got != trellis.Review {
			t.Errorf("%s is %q; said %q", name, got, w.Said)
		}
	}
	if strings.Contains(w.Read(runnertest.RoadFile), "plan") {
		t.Errorf("it went on by itself:\n%s", w.Read(runnertest.RoadFile))
	}
}

// newPaidForNothing returns a world with one step, whose planning fails with an error after each call of the prd agent. asked is called then.
func newPaidForNothing(t *testing.T, asked func()) *world {
	w := newRoad(t, runnertest.Roadwork(), runnertest.Auto("| Step | Description | PR |\n| --- | --- | --- |\n| 1 | First | |\n"))
	w.Site.Disk = &durable.Disk{Fault: func(_, path string) error {
		if filepath.Base(path) == "result.json" && strings.Contains(path, "prd#1") {
			asked()
			return syscall.ENOSPC
		}
		return nil
	}}
	return w
}

// A step whose planning fails after paid calls is planned four times. Then watch --once ends.
func TestPlanningThatComesToNothing(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), runnertest.Hang)
	defer cancel()
	var asked atomic.Int32
	w := newPaidForNothing(t, func() {
		if asked.Add(1) > 4 {
			cancel()
		}
	})
	_, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: 200 * time.Millisecond, Objectives: true})
	if n := asked.Load(); n != 4 || !errors.Is(err, syscall.ENOSPC) || ctx.Err() != nil || w.Heard("next: trellis objective plan farewells --step 1") != 1 {
		t.Errorf("asked %d times, ended with %v, %v, said %q", n, err, ctx.Err(), w.Said)
	}
}

// After its objective changes, such a step is planned again.
func TestPlanningThatComesToNothingIsChanged(t *testing.T) {
	t.Parallel()
	w := newPaidForNothing(t, func() {})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Parallel: 2, Rescan: 200 * time.Millisecond, Objectives: true})
		done <- err
	}()
	w.Until("a word", func() bool { return w.Heard("asked agents 4 times and came to nothing: ") == 1 })
	w.Write(runnertest.RoadFile, w.Read(runnertest.RoadFile)+"\n")
	w.Until("another try", func() bool { return w.Heard("asked agents 5 times and came to nothing: ") == 1 })
	cancel()
	if err := <-done; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("it ended with %v", err)
	}
}

// A roadmap that can't be read does not hold up others, and all its problems are reported at the same time.
func TestBrokenObjective(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Auto(runnertest.Short))
	w.Write(".trellis/objectives/broken.md", runnertest.Auto(runnertest.Short)+"| 1 | Again | none | | |\n| 7 | Seventh | 9 | | |\n")
	_, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour, Objectives: true})
	if err == nil || !strings.Contains(err.Error(), "objective broken: ") {
		t.Errorf("got %v", err)
	}
	for _, said := range []string{"step 1 appears 2 times", "step 7 depends on 9, which is not a step"} {
		if w.Heard(said) != 1 {
			t.Errorf("%q was said %d times in %q", said, w.Heard(said), w.Said)
		}
	}
	w.WantRow("2", "| 2 | Second | | | plan "+runnertest.Today("second")+" |")
}

// If people edit a roadmap while the watcher writes it, no change of either is lost.
func TestEditedByHandMeanwhile(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Auto(runnertest.Short))
	store := roadmap.Store{Root: w.Dir}
	stop := make(chan struct{})
	var group sync.WaitGroup
	end := sync.OnceFunc(func() {
		close(stop)
		group.Wait()
	})
	defer end()
	typed := 0
	group.Go(func() {
		for typed < 100 { // with --once, the watcher reads the roadmap again after each line before it ends
			select {
			case <-stop:
				return
			case <-time.After(60 * time.Millisecond):
			}
			err := store.Edit(context.Background(), "farewells", func(src []byte) ([]byte, error) {
				return fmt.Appendf(src, "\nline %d\n", typed), nil
			})
			if err != nil {
				t.Error(err)
			}
			typed++
		}
	})
	w.works()
	end()
	text := w.Read(runnertest.RoadFile)
	for n := range typed {
		if !strings.Contains(text, fmt.Sprintf("\nline %d\n", n)) {
			t.Errorf("line %d of %d is lost", n, typed)
		}
	}
	w.WantRow("1", "| 1 | First | | | plan "+runnertest.Today("first")+" |")
	w.WantRow("2", "| 2 | Second | | | plan "+runnertest.Today("second")+" |")
	w.WantRow("3", "| 3 | Beside | none | todo | plan "+runnertest.Today("beside")+" |")
}

// A step that was merged by hand is found to be done, by reconcile and by the watcher. A dry reconcile changes nothing.
func TestMergedStepIsDone(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Auto(runnertest.Short))
	w.works()
	first := filepath.Join(w.Site.Store.Tasks(), runnertest.Today("first"))
	if got := w.Task(first).Status; got != trellis.Review {
		t.Fatalf("the first step's task is %s", got)
	}
	w.Git("merge", "--squash", "-q", w.Task(first).BranchName())
	w.Git("commit", "-q", "-m", "First, squashed")
	for range 2 {
		r := w.Reconcile(runner.ReconcileOptions{Names: []string{"farewells"}, Dry: true})[0]
		if r.Err != nil || len(r.Changes) != 1 || r.Changes[0].Step != "1" || r.Changes[0].Value != "done" {
			t.Errorf("a dry look says %+v, %v", r.Changes, r.Err)
		}
	}
	if got := w.Task(first).Status; got != trellis.Review {
		t.Errorf("a dry look made it %s", got)
	}
	w.works()
	w.WantRow("1", "| 1 | First | | done | plan "+runnertest.Today("first")+" |")
	if got := w.Task(first).Status; got != trellis.Completed {
		t.Errorf("it is %s", got)
	}
}

// A step whose task is gone is reported with a hint, by reconcile and by the watcher. No step builds on it, and it is planned again only
// after a person empties its PR cell.
func TestTaskOfAStepIsGone(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), runnertest.Auto(runnertest.Short))
	res := w.MustPlan("1")
	linked := w.Read(runnertest.RoadFile)
	if err := os.RemoveAll(res.Dir); err != nil {
		t.Fatal(err)
	}
	const where = runnertest.RoadFile + ":8: step 1 is planned as "
	gone := where + res.Task + ", and there is no such task"
	const todo = "bring its directory back, or empty the PR cell of step 1, then: trellis objective plan farewells --step 1"
	for _, dry := range []bool{true, false} {
		list, err := w.Site.Objectives().Reconcile(context.Background(), runner.ReconcileOptions{Names: []string{"farewells"}, All: true, Dry: dry})
		if err != nil || len(list) != 1 || list[0].Err != nil {
			t.Fatalf("got %+v, %v", list, err)
		}
		r := list[0]
		if len(r.Gone) != 1 || r.Gone[0].Error() != gone || r.Gone[0].Hint != todo || len(r.Steps) != 1 || r.Steps[0].ID != "3" {
			t.Errorf("dry %v: gone %+v, steps %+v", dry, r.Gone, r.Steps)
		}
	}
	w.works()
	if w.Heard(gone+": "+todo) != 1 {
		t.Errorf("said %q", w.Said)
	}
	w.WantRow("1", "| 1 | First | | | plan "+res.Task+" |")
	w.WantRow("2", "| 2 | Second | | | |")
	w.Write(runnertest.RoadFile, strings.Replace(linked, "plan "+res.Task, "", 1))
	if again := w.MustPlan("1"); again.Known || again.Task != res.Task {
		t.Errorf("planned anew: %+v", again)
	}

	w.Write(filepath.Join(".trellis/tasks", res.Task, "task.json"), "{") // the directory exists, although it is broken
	list, err := w.Site.Objectives().Reconcile(context.Background(), runner.ReconcileOptions{Names: []string{"farewells"}, Dry: true})
	if err != nil || len(list[0].Gone) > 0 || !strings.Contains(list[0].Decision.Why, "whose task.json can't be read") {
		t.Errorf("unreadable: %+v, %v", list, err)
	}
}
