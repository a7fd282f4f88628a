package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// asksWeaker returns a script that weakens the criteria in the task's prd.md.
func asksWeaker() string {
	text := "# Bye\\n\\n## Acceptance Criteria\\n\\n- [ ] notes\\n  verify: `test -f notes.txt`\\n"
	return "printf '" + text + "' > $TRELLIS_TASK_DIR/prd.md"
}

// waits checks that a task waits for people, and that the wait names these things.
func (w *world) waits(res runner.Result, about ...string) {
	w.Helper()
	if res.Status != trellis.Waiting || len(res.Waits) != 1 {
		w.Fatalf("got %s, %v, %q; want it to wait", res.Status, res.Failure, res.Waits)
	}
	w.holds("what it waits for", res.Waits.String(), append(about, "trellis approve 02-01-bye")...)
}

// Edge A2: if an agent changes anything that its work is judged by, the run waits until a person approves the change.
func TestAgentWeakensWhatJudgesIt(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		script string // of the agent
		plan   bool
		says   []string
		then   trellis.Status // after an approval
	}{
		"the criteria":     {script: asksWeaker(), says: []string{"prd.md: - it is done, proven by `test -f never.txt`; + notes, proven by `test -f notes.txt`"}, then: trellis.Review},
		"verify":           {script: `printf '{"status": "in_progress", "base_branch": "main", "pipeline": {"verify": ["true"]}}' > $TRELLIS_TASK_DIR/task.json`, says: []string{"+ `true` of task.json"}, then: trellis.Failed},
		"verify of all":    {script: `printf 'verify: ["true"]' > $TRELLIS_REPO/.trellis/config.yaml`, says: []string{"+ `true` of config.yaml"}, then: trellis.Failed},
		"a plan":           {script: `sed -i 's/grep -q Bye/true/' $TRELLIS_TASK_DIR/plan.json`, plan: true, says: []string{"(plan.json)"}, then: trellis.Failed},
		"who checks":       {script: `echo '{"file": "greet.sh", "reason": "fine"}' > $TRELLIS_TASK_DIR/check.jsonl`, says: []string{"(check.jsonl)"}, then: trellis.Failed},
		"by its tests":     {script: `echo 'test -z "$TRELLIS_CALL_MARKER" || sed -i s/never/notes/ '$TRELLIS_TASK_DIR/prd.md > test.sh`, says: []string{"+ it is done, proven by `test -f notes.txt`"}, then: trellis.Review},
		"and its approval": {script: asksWeaker() + `; cd $TRELLIS_TASK_DIR; echo '{"decision": "approve", "by": "ann"}' >> approvals.jsonl`, says: []string{"prd.md: - it is done"}, then: trellis.Review},
	}, "a plan", "the criteria", "verify of all") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, "echo x > notes.txt; "+c.script)
			dir := w.Hand("02-01-bye", provenBy("test -f never.txt"))
			if c.plan {
				dir = w.handPlan(provenBy("test -f never.txt"), planJSON(""))
			}
			w.waits(w.Start(dir), append(c.says, "while an agent was at work")...)
			w.waits(w.Start(dir), c.says...) // nobody has approved it
			w.Approve(dir, "ann")
			if res := w.Start(dir); res.Status != c.then {
				t.Errorf("agreed: %s, %v, %q", res.Status, res.Failure, res.Waits)
			}
		})
	}
}

// Edge A2: criteria that were weakened in a failed run wait for approval in the next one, even after a person's edits.
func TestWeakenedForTheNextRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: [{run: ["+quoted(nonsense)+"], answer: done}]\ncheck: [{run: ["+quoted(asksWeaker())+"], answer: fine}]\ndebug: [{answer: hm}]\n"+runnertest.Met))
	w.Site.Config.Limits.Rounds = 1
	dir := w.Hand("02-01-bye", lyingPRD)
	if res := w.Start(dir); res.Status != trellis.Failed {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.rewrite(dir, "prd.md", "# Bye", "# Bye, Ada")
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.waits(w.Start(dir), "+ notes, proven by")
	if err := w.Site.Approvals().Reject(dir, "ann", "too little", ""); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.ApprovalRejected) {
		t.Errorf("a no: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

func quoted(s string) string {
	return `"` + strings.ReplaceAll(strings.ReplaceAll(s, `\`, `\\`), `"`, `\"`) + `"`
}

// rewrite replaces a text in a file of a task, as a person would.
func (w *world) rewrite(dir, name, from, to string) {
	w.Helper()
	text := w.File(dir, name)
	if !strings.Contains(text, from) {
		w.Fatalf("%s does not hold %q", name, from)
	}
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, from, to)), 0o644); err != nil {
		w.Fatal(err)
	}
}

// Edge A2: a file that is restored needs no approval, whether the agent restores it in the same call or a person later.
func TestWhatJudgesIsPutBack(t *testing.T) {
	t.Parallel()
	w := cheat(t, "echo x > notes.txt; cp $TRELLIS_TASK_DIR/prd.md ../prd.md; "+asksWeaker()+"; cp ../prd.md $TRELLIS_TASK_DIR/prd.md")
	if res := w.Start(w.Hand("02-01-bye", provenBy("test -f notes.txt"))); res.Status != trellis.Review {
		t.Errorf("by the agent: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
	w = cheat(t, "echo x > notes.txt; "+asksWeaker())
	dir := w.Hand("02-01-bye", provenBy("test -f ./notes.txt"))
	w.waits(w.Start(dir))
	w.rewrite(dir, "prd.md", w.File(dir, "prd.md"), provenBy("test -f ./notes.txt"))
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("by a person: %s, %v, %q", res.Status, res.Failure, res.Waits)
	}
}

// If a document breaks, or is restored, while the run begins to wait, the wait says so with the next command.
func TestBrokenWhileTheRunParks(t *testing.T) {
	t.Parallel()
	w := cheat(t, "echo x > notes.txt; "+asksWeaker())
	dir := w.Hand("02-01-bye", provenBy("test -f ./notes.txt"))
	w.Site.Store.Changed = func(_, after *taskdir.Task) {
		if after.Status == trellis.Waiting {
			w.rewrite(dir, "prd.md", w.File(dir, "prd.md"), "")
		}
	}
	want := "somebody: .trellis/tasks/02-01-bye/prd.md: is blank; next: trellis validate 02-01-bye"
	if res := w.Start(dir); len(res.Waits) != 1 || res.Waits.String() != want {
		t.Errorf("got %q, want %s", res.Waits, want)
	}
	if got, want := runner.StillFor(runner.Assessment{Dir: dir, Run: true}).String(), "nothing any more; next: trellis start 02-01-bye"; got != want {
		t.Errorf("put back: got %s, want %s", got, want)
	}
}

// Edge A2: a person's edits while no agent works, edits by commands of Trellis, and text of prd.md outside of its criteria count at once.
func TestPeoplesEditsAreTakenIn(t *testing.T) {
	t.Parallel()
	criterion := func(w *world, dir string) error {
		w.rewrite(dir, "prd.md", "test -f notes.txt", "test -f ./notes.txt")
		return nil
	}
	for name, c := range soak.Rows(t, map[string]struct {
		before string // the phase at whose beginning the edit is made, "" while the agent works
		edit   func(w *world, dir string) error
		says   string // the text that the run has to read
	}{
		"between two calls": {"check", criterion, "test -f ./notes.txt"},
		"words": {"", func(w *world, dir string) error {
			w.rewrite(dir, "prd.md", "# Say bye\n", "# Say bye\n\nIn a friendly tone.\n")
			return nil
		}, "In a friendly tone."},
		"by a command": {"", func(w *world, dir string) error {
			return pipeline.DoRecorded(w.Site.Store, dir, func() error {
				return os.WriteFile(filepath.Join(dir, "check.jsonl"), []byte(`{"file": "test.sh", "reason": "look twice"}`+"\n"), 0o644)
			})
		}, "look twice"},
	}, "by a command", "between two calls") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := "echo x > notes.txt"
			if c.before == "" {
				script += "; touch ../begun; while ! test -e ../over; do sleep 0.01; done"
			}
			w := cheat(t, script)
			dir := w.Hand("02-01-bye", provenBy("test -f notes.txt"))
			edited := w.editing(dir, c.before, c.edit)
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v, %q", res.Status, res.Failure, res.Waits)
			}
			if err := <-edited; err != nil {
				t.Fatal(err)
			}
			told, err := filepath.Glob(filepath.Join(dir, "run", "inputs", "*", "*"))
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, path := range told {
				data, err := os.ReadFile(path)
				found = found || err == nil && strings.Contains(string(data), c.says)
			}
			if !found {
				t.Errorf("%q was not taken in", c.says)
			}
		})
	}
}

// editing makes an edit once: when the run enters a phase, or while an agent works, which waits for the edit.
func (w *world) editing(dir, before string, edit func(w *world, dir string) error) chan error {
	edited := make(chan error, 1)
	if before == "" {
		go func() {
			for _, err := os.Stat(filepath.Join(w.Site.Config.Worktree.Dir, "feature", "begun")); err != nil; _, err = os.Stat(filepath.Join(w.Site.Config.Worktree.Dir, "feature", "begun")) {
				time.Sleep(time.Millisecond)
			}
			edited <- edit(w, dir)
			w.Write("../repo-worktrees/feature/over", "")
		}()
		return edited
	}
	var once sync.Once
	w.Site.Event = func(e runner.Event) {
		if e.State != nil && e.State.Phase == before {
			once.Do(func() { edited <- edit(w, dir) })
		}
	}
	return edited
}
