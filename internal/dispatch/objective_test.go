package dispatch_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// farewells has three phases and seven steps: one is blocked, one is skipped, and what is planned of 1.2 fails at first.
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

// roadwork is a script for objectives: small plannings, and work that leaves a line in notes.txt. Each call of an agent
// that plans or works leaves one outside of the repository, with its task.
func roadwork() script {
	note := func(role string) string { return "echo " + role + "-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log" }
	s := careful("tiny")
	s["prd"] = []obj{answer(obj{"title": "Say bye", "summary": "It says bye.", "requirements": []string{"bye"}, "acceptance": []obj{{"criterion": "it says bye"}}})}
	s["implement"] = []obj{
		{"run": []string{note("implement"), "echo $TRELLIS_TASK_ID >> notes.txt"}, "answer": "done"},
		{"when": "Part of Objective farewells, Step 1.2", "run": []string{note("implement"), "echo $TRELLIS_TASK_ID >> notes.txt; echo broken > greet.sh"}, "answer": "done"}}
	s["debug"] = []obj{{"run": []string{note("debug")}, "files": obj{"greet.sh": program["greet.sh"]}, "answer": "mended"}}
	s["check"] = []obj{answer("fine")}
	s["accept"] = []obj{answer(obj{"criteria": []obj{{"id": "A1", "verdict": "met", "evidence": "notes.txt:1"}}})}
	return s
}

const roadFile = ".trellis/objectives/farewells.md"

// road makes a world with an objective.
func newRoad(t *testing.T, s script, text string) *world {
	t.Helper()
	w := newWorld(t, s.String())
	w.write(roadFile, text)
	w.Site.Store.Now = func() time.Time { return day }
	return w
}

// today is the directory name of a task that is made today.
func today(name string) string { return day.Format("01-02-") + name }

// day is when tasks of these tests are made: it does not change at midnight.
var day = time.Now()

// works runs a watcher that works on objectives until nothing is left to do.
func (w *world) works() []dispatch.Result {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	list, err := w.Site.Watch(ctx, dispatch.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour, Objectives: true, Creator: "ann"})
	if err != nil || ctx.Err() != nil {
		w.Fatalf("%v, %v; said %q", ctx.Err(), err, w.said)
	}
	return list
}

// linked is the roadmap of farewells once all that can be done of it is in review.
func linked() string {
	text := farewells
	for _, c := range [][2]string{
		{"| 1.1 | Say **bye** | | | |", "| 1.1 | Say **bye** | | | plan " + today("say-bye") + " |"},
		{"| 1.2 |Say it twice  ||  |   |", "| 1.2 |Say it twice  ||  | plan " + today("say-it-twice") + " |"},
		{"| 2.1 | Say it loud | | | – |", "| 2.1 | Say it loud | | | plan " + today("say-it-loud") + " |"},
		{"| 2.3 | Say it in verse | 2.1 | | |", "| 2.3 | Say it in verse | 2.1 | | plan " + today("say-it-in-verse") + " |"},
		{"| 3.1 | Leave | 1.1 | | |", "| 3.1 | Leave | 1.1 | | plan " + today("leave") + " |"},
	} {
		text = strings.Replace(text, c[0], c[1], 1)
	}
	return text
}

func (w *world) sameRoad(want string) {
	w.Helper()
	if got := w.read(roadFile); got != want {
		w.Errorf("the roadmap is\n%s\nwant\n%s", got, want)
	}
}

// A watcher works off an objective by itself: every step that can be done has a branch of its own, on that of what it
// depends on, and nothing but the cells that name the plans is written.
func TestObjectiveIsWorkedOff(t *testing.T) {
	t.Parallel()
	w := newRoad(t, roadwork(), farewells)
	for _, r := range w.works() { // which would not end if anything waited for a rescan
		if r.Status != trellis.Review {
			t.Errorf("%s ended as %s: %v", r.Dir, r.Status, r.Failure)
		}
	}
	w.sameRoad(linked())
	for _, c := range []struct{ name, step, on, base string }{
		{"say-bye", "1.1", "", w.git("rev-parse", "main")},
		{"say-it-twice", "1.2", "say-bye", w.tip("say-bye")},
		{"say-it-loud", "2.1", "", w.git("rev-parse", "main")}, // what it depends on is skipped
		{"say-it-in-verse", "2.3", "say-it-loud", w.tip("say-it-loud")},
		{"leave", "3.1", "say-bye", w.tip("say-bye")},
	} {
		dir := filepath.Join(w.Site.Store.Tasks(), today(c.name))
		on := c.on
		if on != "" {
			on = today(on)
		}
		w.stacked(dir, on, c.base)
		task := w.task(dir)
		if of := task.Pipeline.Objective; task.Status != trellis.Review || of.Name != "farewells" || of.Step != c.step || task.Creator != "ann" {
			t.Errorf("%s: %s, %+v, by %q", c.name, task.Status, of, task.Creator)
		}
		if got := strings.Join(task.Pipeline.DependsOn, " "); got != on {
			t.Errorf("%s depends on %q, want %q", c.name, got, on)
		}
		if said := w.file(dir, ".plan-log") + w.file(dir, "report.md"); strings.Contains(said, "was changed while") {
			t.Errorf("%s takes the roadmap for an agent's work:\n%s", c.name, said)
		}
		if prd := w.file(dir, "prd.md"); !strings.Contains(prd, "\nPart of Objective farewells, Step "+c.step+"\n") {
			t.Errorf("%s does not say what it is part of:\n%s", c.name, prd)
		}
	}
	if got := w.calls()["debug-"+today("say-it-twice")]; got != 1 {
		t.Errorf("calls %v", w.calls())
	}
	if got := w.git("branch", "--list", "feature/*", "--format=%(refname:short)"); strings.Count(got, "\n") != 4 {
		t.Errorf("branches\n%s", got)
	}
	w.works()
	w.sameRoad(linked())
	if got := len(w.tasks()); got != 5 {
		t.Errorf("%d tasks after watching again", got)
	}
}

// tasks are the directories of tasks, drafts included.
func (w *world) tasks() []string {
	w.Helper()
	list, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*"))
	if err != nil {
		w.Fatal(err)
	}
	more, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*"))
	if err != nil {
		w.Fatal(err)
	}
	return append(list, more...)
}
