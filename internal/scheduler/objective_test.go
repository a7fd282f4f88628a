package scheduler_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// farewells has three phases and seven steps: one is blocked, one is skipped, and the work on 1.2 needs the debug agent.
const farewells = `---
auto_advance: true
---
# Objective: Farewells

The program says more than hello. | This is | no table |

## Roadmap

### Phase 1: Words (1 PR)

| Step | Description | Depends On | Status | PR |
| :--- | ----------- | ---------- | ------ | --- |
| 1.1 | Say **bye** | | | |
| 1.2 |Say it twice  ||  |   |
| **1.3** | An old idea \| dropped | | skipped | | <!-- nobody wants it -->

### Phase 2: Ways

| Step | Description | Depends On | Status | PR |
| --- | --- | --- | --- | --- |
| 2.1 | Say it loud | | | – |
| 2.2 | Say it abroad | 1.1 | blocked | |
| 2.3 | Say it in verse | 2.1 | | |

### Phase 3: The end

| Step | Description | Depends On | Status | PR |
| --- | --- | --- | --- | --- |
| 3.1 | Leave | 1.1 | | |

Nothing below a table is touched.
`

// works runs watch --once for objectives and tasks.
func (w *world) works() []runner.Result {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), runnertest.Hang)
	defer cancel()
	list, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour, Objectives: true, Creator: "ann"})
	if err != nil || ctx.Err() != nil {
		w.Fatalf("%v, %v; said %q", ctx.Err(), err, w.Said)
	}
	return list
}

// linked returns the roadmap of farewells after all possible steps are in review.
func linked() string {
	text := farewells
	for _, c := range [][2]string{
		{"| 1.1 | Say **bye** | | | |", "| 1.1 | Say **bye** | | | plan " + runnertest.Today("say-bye") + " |"},
		{"| 1.2 |Say it twice  ||  |   |", "| 1.2 |Say it twice  ||  | plan " + runnertest.Today("say-it-twice") + " |"},
		{"| 2.1 | Say it loud | | | – |", "| 2.1 | Say it loud | | | plan " + runnertest.Today("say-it-loud") + " |"},
		{"| 2.3 | Say it in verse | 2.1 | | |", "| 2.3 | Say it in verse | 2.1 | | plan " + runnertest.Today("say-it-in-verse") + " |"},
		{"| 3.1 | Leave | 1.1 | | |", "| 3.1 | Leave | 1.1 | | plan " + runnertest.Today("leave") + " |"},
	} {
		text = strings.Replace(text, c[0], c[1], 1)
	}
	return text
}

// A watcher works on an objective by itself: each possible step gets its own branch, based on that of its dependency, and the roadmap
// changes only in the cells that name the plans.
func TestObjectiveIsWorkedOff(t *testing.T) {
	t.Parallel()
	w := newRoad(t, runnertest.Roadwork(), farewells)
	for _, r := range w.works() { // would not end if anything waited for a rescan
		if r.Status != trellis.Review {
			t.Errorf("%s ended as %s: %v", r.Dir, r.Status, r.Failure)
		}
	}
	w.SameRoad(linked())
	for _, c := range []struct{ name, step, on, base string }{
		{"say-bye", "1.1", "", w.Git("rev-parse", "main")},
		{"say-it-twice", "1.2", "say-bye", w.Tip("say-bye")},
		{"say-it-loud", "2.1", "", w.Git("rev-parse", "main")}, // its dependency is skipped
		{"say-it-in-verse", "2.3", "say-it-loud", w.Tip("say-it-loud")},
		{"leave", "3.1", "say-bye", w.Tip("say-bye")},
	} {
		dir := filepath.Join(w.Site.Store.Tasks(), runnertest.Today(c.name))
		on := c.on
		if on != "" {
			on = runnertest.Today(on)
		}
		w.Stacked(dir, on, c.base)
		task := w.Task(dir)
		if of := task.Pipeline.Objective; task.Status != trellis.Review || of.Name != "farewells" || of.Step != c.step || task.Creator != "ann" {
			t.Errorf("%s: %s, %+v, by %q", c.name, task.Status, of, task.Creator)
		}
		if got := strings.Join(task.Pipeline.DependsOn, " "); got != on {
			t.Errorf("%s depends on %q, want %q", c.name, got, on)
		}
		if said := w.File(dir, ".plan-log") + w.File(dir, "report.md"); strings.Contains(said, "was changed while") {
			t.Errorf("%s takes the roadmap for an agent's work:\n%s", c.name, said)
		}
		if prd := w.File(dir, "prd.md"); !strings.Contains(prd, "\nPart of Objective farewells, Step "+c.step+"\n") {
			t.Errorf("%s does not say what it is part of:\n%s", c.name, prd)
		}
	}
	if got := w.Calls()["debug-"+runnertest.Today("say-it-twice")]; got != 1 {
		t.Errorf("calls %v", w.Calls())
	}
	if got := w.Git("branch", "--list", "feature/*", "--format=%(refname:short)"); strings.Count(got, "\n") != 4 {
		t.Errorf("branches\n%s", got)
	}
	w.works()
	w.SameRoad(linked())
	if got := len(w.Tasks()); got != 5 {
		t.Errorf("%d tasks after watching again", got)
	}
}
