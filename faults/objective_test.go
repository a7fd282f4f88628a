package faults

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// roadmap has three phases and seven steps: one is blocked, one is skipped, and the task made for 1.2 fails at first.
const roadmap = `---
auto_advance: true
---
# Objective: Farewells

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
| 2.1 | Say it loud | 1.2 | | – |
| 2.2 | Say it abroad | 1.1 | blocked | |
| 2.3 | Say it in verse | 2.1 | | |

### Phase 3: The end

| Step | Description | Depends On | Status | PR |
| --- | --- | --- | --- | --- |
| 3.1 | Leave | 1.1 | | |

Nothing below a table is touched.
`

// roadStep is a step that gets done, with the name of its task and the step that it builds on.
type roadStep struct{ id, name, on, cell, rest string }

var steps = []roadStep{
	{"1.1", "say-bye", "", "| 1.1 | Say **bye** | | | ", " |"},
	{"1.2", "say-it-twice", "1.1", "| 1.2 |Say it twice  ||  |", "   |"},
	{"2.1", "say-it-loud", "1.2", "| 2.1 | Say it loud | 1.2 | | ", "– |"},
	{"2.3", "say-it-in-verse", "2.1", "| 2.3 | Say it in verse | 2.1 | | ", " |"},
	{"3.1", "leave", "1.1", "| 3.1 | Leave | 1.1 | | ", " |"},
}

// road is a roadmap and the steps of it that get done.
type road struct {
	text  string
	steps []roadStep
}

// whole is all of it, and short the part with two tasks, of which one builds on the other and fails at first.
var (
	whole = road{roadmap, steps}
	short = road{strings.NewReplacer("| Say it loud | 1.2 | |", "| Say it loud | 1.2 | skipped |", "| Say it in verse | 2.1 | |", "| Say it in verse | 2.1 | skipped |",
		"| Leave | 1.1 | |", "| Leave | 1.1 | skipped |").Replace(roadmap), steps[:2]}
)

const roadFile = "repo/.trellis/objectives/farewells.md"

// roadScript plans each step in three calls and works in two, or in four if the work fails at first.
const roadScript = `
roles:
  evaluate: [{answer: {decision: accept, category: "", details: Words., suggestions: [], size: tiny, confidence: 0.9}}]
  research:
    - answer: |
        ## implement.jsonl
        - path: greet.sh, reason: the program
        ## check.jsonl
        - path: test.sh, reason: its test
        ## Suggested Scope
        greet
  prd: [{answer: {title: Say bye, summary: It says bye., requirements: [bye], acceptance: [{criterion: it says bye}]}}]
  implement:
    - run: ["echo implement-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log; echo $TRELLIS_TASK_ID >> notes.txt"]
      answer: done
    - when: Part of Objective farewells, Step 1.2
      run: ["echo implement-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log; echo $TRELLIS_TASK_ID >> notes.txt; echo broken > greet.sh"]
      answer: done
  check: [{answer: fine}]
  debug:
    - run: ["echo debug-$TRELLIS_TASK_ID >> $TRELLIS_REPO/../calls.log; git checkout greet.sh"]
      answer: mended
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "notes.txt:1"}]}}]
`

var worksOff = []string{"watch", "--once", "--objectives", "--parallel", "2", "--rescan", "1s"}

func newRoad(t testing.TB) *world { return whole.world(t) }

// world returns a new world with the roadmap.
func (r road) world(t testing.TB) *world {
	t.Helper()
	w := newWorld(t, roadScript)
	w.fill(map[string]string{roadFile: r.text})
	return w
}

// worked checks that each step of an objective was done once: its row names the task, and nothing else in the file was
// changed; the task has one commit on the branch that its step depends on.
func (w *world) worked(r road) {
	w.Helper()
	want, tips := r.text, map[string]string{"": w.git("rev-parse", "main")}
	for _, s := range r.steps {
		dirs, err := filepath.Glob(w.path("repo/.trellis/tasks/*-" + s.name))
		if err != nil || len(dirs) != 1 {
			w.Errorf("step %s is planned as %q, %v", s.id, dirs, err)
			continue
		}
		task := filepath.Base(dirs[0])
		tips[s.id] = w.git("rev-parse", "feature/"+s.name)
		want = strings.Replace(want, s.cell+strings.TrimPrefix(s.rest, " "), s.cell+"plan "+task+" |", 1)
		want = strings.Replace(want, s.cell+s.rest, s.cell+" plan "+task+" |", 1)
		var t struct {
			Status   string
			Pipeline struct {
				BaseCommit string `json:"base_commit"`
			}
		}
		if err := json.Unmarshal([]byte(w.read("repo/.trellis/tasks/"+task+"/task.json")), &t); err != nil {
			w.Error(err)
		}
		if t.Status != "review" || t.Pipeline.BaseCommit != tips[s.on] {
			w.Errorf("step %s is %s, on %s, want %s", s.id, t.Status, t.Pipeline.BaseCommit, tips[s.on])
		}
		if n := w.git("rev-list", "--count", tips[s.on]+"..feature/"+s.name); n != "1" {
			w.Errorf("step %s has %s commits", s.id, n)
		}
		for _, role := range []string{"evaluate", "research", "prd"} {
			if n := w.answers(task, role); n != 1 {
				w.Errorf("step %s: %s was answered %d times", s.id, role, n)
			}
		}
	}
	got := w.read(roadFile)
	if strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		w.Errorf("the roadmap is\n%s\nwant\n%s", got, want)
	}
	all, err := filepath.Glob(w.path("repo/.trellis/tasks/*"))
	drafts, _ := filepath.Glob(w.path("repo/.trellis/tasks/.new-*"))
	if err != nil || len(all) != len(r.steps) || len(drafts) > 0 {
		w.Errorf("the tasks are %q, %q, %v", all, drafts, err)
	}
	if left := w.left(); left != "" {
		w.Errorf("left: %s", left)
	}
}

// answers counts the calls of a role in a planning that were finished.
func (w *world) answers(task, role string) int {
	w.Helper()
	n := 0
	for _, scope := range []string{"", role + "/"} { // the second if the role is asked beside others
		list, err := filepath.Glob(w.path("repo/.trellis/tasks/" + task + "/run/*/" + scope + role + "#*/*/result.json"))
		if err != nil {
			w.Fatal(err)
		}
		n += len(list)
	}
	return n
}

// An objective that is killed at a step on the disk that concerns what is planned for it, at every second one or with FAULTS_FULL
// at any, and worked on again, ends like an undisturbed one: one of two steps, or of five.
func TestObjectiveKilledAtEveryStep(t *testing.T) {
	t.Parallel()
	r := short
	if full() {
		r = whole
	}
	w := r.world(t)
	if e := w.trellis(worksOff, "FAULTS_LOG="+w.path(stepsLog)); e.Code != 0 {
		t.Fatalf("undisturbed: exit %d\n%s", e.Code, e.Said)
	}
	w.worked(r)
	spots := half(roadSpots(w.read(stepsLog)), 0)
	t.Logf("kills at %d steps", len(spots))
	for i, s := range spots {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			w := r.world(t)
			killed := w.trellis(worksOff, "FAULTS_AT="+s.String(), "FAULTS_DO="+victims[i%len(victims)])
			if e := w.again(worksOff); e.Code != 0 {
				t.Fatalf("again: exit %d\n%s\nbefore: exit %d\n%s", e.Code, e.Said, killed.Code, killed.Said)
			}
			w.gone()
			w.worked(r)
		})
	}
}

// roadSpots returns the steps on the disk which record that a step is planned, by which task, and that the roadmap says so:
// one of each kind, or if everything is to be tried all, and also those of one task.
func roadSpots(log string) (list []spot) {
	seen := map[string]bool{}
	for _, s := range spotsOf(log) {
		kind := s.Kind + roadPart(s)
		switch {
		case roadPart(s) == "", s.Kind == "sync", (s.Kind == "syncdir" || s.Kind == "create") && !full():
		case full(), roadPart(s) != "task" && !seen[kind]:
			seen[kind] = true
			list = append(list, s)
		}
	}
	return list
}

// roadPart returns the part of an objective that a step on the disk concerns, or "".
func roadPart(s spot) string {
	dir, name := filepath.Split(s.Path)
	switch {
	case strings.HasSuffix(dir, "/objectives/"), name == "objective.json":
		return name
	case s.Kind == "rename" && strings.HasSuffix(dir, "/tasks/"):
		return "publish"
	case strings.HasPrefix(name, ".new-"), strings.Contains(dir, "/.new-") && !strings.Contains(dir, "/run/"):
		return "draft"
	case strings.Contains(s.Path, "-leave/"):
		return "task"
	}
	return ""
}

// Killed at any moment, repeatedly, an objective plans no step twice: one of two steps, or if everything is to be tried of five.
func TestObjectiveKilledAtRandom(t *testing.T) {
	t.Parallel()
	worlds, road := 1, short
	if full() {
		worlds, road = 40, whole
	}
	for n := range worlds {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w, r := road.world(t), rand.New(rand.NewPCG(*soakSeed, uint64(n)))
			for range 5 {
				who, after := victims[r.IntN(len(victims))], time.Duration(20+r.IntN(600))*time.Millisecond
				p := w.begin(worksOff)
				time.Sleep(after)
				w.strike(p, who)
				t.Logf("%s is killed after %v: exit %d", who, after, w.wait(p).Code)
			}
			if e := w.again(worksOff); e.Code != 0 {
				t.Fatalf("again: exit %d\n%s", e.Code, e.Said)
			}
			w.gone()
			w.worked(road)
		})
	}
}
