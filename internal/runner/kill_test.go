package runner_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const (
	childSays  = "TRELLIS_TEST_SAYS"  // the requirement that a child plans
	childWants = "TRELLIS_TEST_WANTS" // the status that the child expects; default ready
)

// childPlan plans a task, or resumes an interrupted planning.
func childPlan(site *runner.Site) int {
	o := runner.PlanOptions{New: taskdir.New{Name: "bye", DevType: "backend"}, Requirement: cmp.Or(os.Getenv(childSays), "greet.sh --bye says bye")}
	res, err := site.PlanRunner().Plan(context.Background(), o)
	var draft *runner.DraftError
	if errors.As(err, &draft) {
		res, err = site.PlanRunner().Replan(context.Background(), filepath.Join(site.Repo.Main, draft.Dir), runner.PlanOptions{})
	}
	if err != nil || string(res.Status) != cmp.Or(os.Getenv(childWants), string(trellis.Ready)) {
		fmt.Fprintln(os.Stderr, res.Status, res.Failure, err)
		return 1
	}
	return 0
}

// A run that is killed at any step of its journal or its proofs, and resumed, has the same result as an undisturbed run: the same tree, one
// commit, the same proofs. At most one call, or command of a step, is repeated.
func TestKillAtEveryRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Counted())
	dir := w.agreedPlan()
	_, steps := w.Child(dir, 0)
	tree, proofs := w.Git("rev-parse", "feature/bye^{tree}"), w.proven(dir)
	if steps < 100 || proofs != "ask by manual, count/item-1 by file, count/item-2 by file, say_bye by script, run_tests by test,  by final" {
		t.Fatalf("an undisturbed run has %d steps, and the proofs %s", steps, proofs)
	}
	every := soak.Every(79) // a record takes two or three steps
	t.Logf("kills at every %d. of %d steps", every, steps)
	for at := 1; at <= steps; at += every {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Counted())
			dir := w.agreedPlan()
			w.Child(dir, at)
			w.Child(dir, 0)
			if got := w.Git("rev-parse", "feature/bye^{tree}"); got != tree {
				t.Errorf("tree %s, want %s", got, tree)
			}
			if got := w.Git("rev-list", "--count", "main..feature/bye"); got != "1" {
				t.Errorf("%s commits", got)
			}
			if task := w.Task(dir); task.Status != trellis.Review || task.Commit == "" {
				t.Errorf("it is %s", task.Status)
			}
			if got := w.proven(dir); got != proofs {
				t.Errorf("the proofs are %s, want %s", got, proofs)
			}
			again := 0
			for _, n := range w.Calls() {
				again += n - 1
			}
			if again > 1 {
				t.Errorf("calls %v", w.Calls())
			}
		})
	}
}

// proven returns the records of a task's proofs, and checks that all are valid.
func (w *world) proven(dir string) string {
	w.Helper()
	audit, err := runner.VerifyTask(context.Background(), w.Site.Store, w.Site.Repo.Refs(), dir)
	if err != nil || !audit.OK() || audit.Overall == "" || audit.NotRechecked > 0 {
		w.Errorf("the proofs: %+v, %v", audit, err)
	}
	var list []string
	for _, p := range audit.Records {
		list = append(list, p.Step+" by "+p.Kind)
	}
	return strings.Join(list, ", ")
}

// agreedPlan makes a task with an approved plan that changes protected paths. The plan has preconditions, and these steps: a script, an
// approval, a loop, a prompt, and one that verifies.
func (w *world) agreedPlan() string {
	w.Helper()
	dir := w.handPlan(runnertest.ProvenPRD, `{"schema_version": 1, "title": "Say bye",
 "preconditions": ["the stage is free", {"command": "echo x > dirt; test -f greet.sh"}], "files": [{"path": "greet.sh", "change": "edit"}],
 "steps": [
  {"id": "note", "type": "script", "command": "echo note >> ../../../calls.log; echo bye > NOTES"},
  {"id": "ask", "type": "approval", "title": "Shall it say bye?"},
  {"id": "count", "type": "script", "repeat": 2, "command": "echo count-{{item}} >> ../../../calls.log; echo {{item}} > COUNT", "proof": {"type": "file", "path": "COUNT"}},
  {"id": "say_bye", "type": "prompt", "prompt": "Teach greet.sh the flag --bye.", "verify": "sh greet.sh --bye"},
  {"id": "run_tests", "type": "script", "command": "sh test.sh", "proof": {"type": "test"}}],
 "acceptance": [{"criterion": "it says bye", "verify": "sh greet.sh --bye | grep -q Bye"}]}
`)
	w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready", "pipeline": {"protected": ["*.sh"]}}`)
	w.Write(".trellis/tasks/02-01-bye/approvals.jsonl", `{"decision": "approve", "by": "ann"}`+"\n")
	return dir
}

// A planning that is killed at any step of its journal publishes no incomplete task. The next planning completes it, and repeats no call
// that had ended.
func TestKillWhilePlanning(t *testing.T) {
	soak.Only(t, "TestKillPlanningAtAnyStep")
	t.Parallel()
	script := runnertest.Careful("small").With("plan", runnertest.Answer(runnertest.Obj{"title": "no plan"}), runnertest.Answer(runnertest.Steps())).With("judge", runnertest.Verdict(false, "split add_flag"), runnertest.Verdict(true, "")).String()
	w := newWorld(t, script)
	_, steps := w.Child("", 0)
	files := func(w *world) string {
		dirs, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*bye*"))
		if err != nil || len(dirs) != 1 {
			w.Fatalf("the tasks are %q, %v", dirs, err)
		}
		all := ""
		for _, name := range []string{"prd.md", "plan.json", "taskspec.json", "implement.jsonl", "check.jsonl", "debug.jsonl", "requirement.md"} {
			all += w.File(dirs[0], name)
		}
		return all
	}
	want, every := files(w), soak.Every(27)
	t.Logf("kills at every %d. of %d steps", every, steps)
	for at := 1; at <= steps; at += every {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, script)
			killed, took := w.Child("", at)
			if !killed && took >= at {
				t.Fatal("it was not killed")
			}
			left, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "[0-9]*"))
			if err != nil || killed && len(left) > 0 {
				t.Errorf("%q was published half-planned, %v", left, err)
			}
			w.Child("", 0)
			if got := files(w); got != want {
				t.Errorf("got\n%s\nwant\n%s", got, want)
			}
			dirs, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*bye"))
			if err != nil || len(dirs) != 1 {
				t.Fatalf("the tasks are %q, %v", dirs, err)
			}
			for role, n := range map[string]int{"evaluate": 1, "research": 1, "taskspec": 1, "plan": 3, "judge": 2} {
				if got := w.results(dirs[0], role); got != n {
					t.Errorf("%s was answered %d times, want %d", role, got, n)
				}
			}
		})
	}
}

// results counts the calls of a role that ended.
func (w *world) results(dir, role string) (n int) {
	w.Helper()
	err := filepath.WalkDir(filepath.Join(dir, taskdir.Run), func(path string, e os.DirEntry, err error) error {
		if err == nil && e.Name() == "result.json" && strings.HasPrefix(filepath.Base(filepath.Dir(filepath.Dir(path))), role+"#") {
			n++
		}
		return err
	})
	if err != nil {
		w.Fatal(err)
	}
	return n
}
