package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

const (
	childAgain = "TRELLIS_TEST_AGAIN" // the directory that a child plans again
)

// childReplan plans a directory again with feedback, or resumes that planning.
func childReplan(site *runner.Site, dir string) int {
	site.Config.Planning.Approval = "plan"
	o := runner.PlanOptions{Feedback: "shorter, please"}
	if h, err := journal.Read(filepath.Join(dir, taskdir.Run)); err == nil && h.Number == 2 {
		o = runner.PlanOptions{}
	}
	res, err := site.PlanRunner().Replan(context.Background(), dir, o)
	if err != nil || res.Status != trellis.Waiting {
		fmt.Fprintln(os.Stderr, res.Status, res.Failure, err)
		return 1
	}
	return 0
}

// planFiles returns the files that a planning leaves for others.
func (w *world) planFiles(dir string) (all string) {
	w.Helper()
	for _, name := range []string{"requirement.md", "prd.md", "plan.json", "taskspec.json", "research.md", "implement.jsonl", "check.jsonl", "debug.jsonl"} {
		all += "== " + name + "\n" + w.File(dir, name)
	}
	return all
}

// sample returns about n numbers from 1 to last, with both: all of them in a soak test.
func sample(last, n int) (list []int) {
	if soak.Asked() {
		n = last
	}
	for i := range n {
		list = append(list, 1+i*(last-1)/(n-1))
	}
	return list
}

// A planning that is killed at any step on the disk leaves nothing for others to see, a draft that is resumed, or a complete directory.
func TestKillPlanningAtAnyStep(t *testing.T) {
	t.Parallel()
	for name, requirement := range map[string]string{"one by one": "greet.sh --bye says bye", "ahead": wordy} {
		t.Run(name, func(t *testing.T) { t.Parallel(); killPlanning(t, requirement) })
	}
}

func killPlanning(t *testing.T, requirement string) {
	script := runnertest.Careful("small").String()
	w := newWorld(t, script)
	w.Env = []string{runnertest.ChildAny + "=1", childSays + "=" + requirement}
	_, steps := w.Child("", 0)
	dirs, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*-bye"))
	if err != nil || len(dirs) != 1 || steps < 60 {
		t.Fatalf("after %d steps: %q, %v", steps, dirs, err)
	}
	want := w.planFiles(dirs[0])
	for _, at := range sample(steps, 4) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, script)
			w.Env = []string{runnertest.ChildAny + "=1", childSays + "=" + requirement}
			if killed, took := w.Child("", at); !killed && took >= at {
				t.Fatal("it was not killed")
			}
			whole, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "[0-9]*"))
			if err != nil {
				t.Fatal(err)
			}
			if len(whole) == 0 {
				w.Child("", 0)
				whole, _ = filepath.Glob(filepath.Join(w.Site.Store.Tasks(), "*-bye"))
			}
			if len(whole) != 1 || w.planFiles(whole[0]) != want || w.Task(whole[0]).Status != trellis.Ready {
				t.Fatalf("the tasks are %q", whole)
			}
			for _, role := range []string{"evaluate", "research", "taskspec", "plan", "judge"} {
				if got := w.results(whole[0], role); got != 1 {
					t.Errorf("%s was answered %d times", role, got)
				}
			}
			if left, err := filepath.Glob(filepath.Join(w.Site.Store.Tasks(), ".new-*")); err != nil || len(left) > 0 {
				t.Errorf("left is %q, %v", left, err)
			}
		})
	}
}

// If planning again is killed at any step, the task is either unchanged, or in planning and can't be started. Resumed, the planning ends as
// an undisturbed one, and a person's edits are kept.
func TestKillPlanningAgain(t *testing.T) {
	t.Parallel()
	script := runnertest.Careful("small").String()
	prepare := func(t *testing.T) (*world, string) {
		w := newWorld(t, script)
		w.Site.Config.Planning.Approval = "plan"
		res := w.planned()
		if res.Status != trellis.Waiting {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
		w.replan(res.Dir, "greet.sh says bye.", "greet.sh says bye, kindly.")
		w.Env = []string{runnertest.ChildAny + "=1", childAgain + "=" + res.Dir}
		return w, res.Dir
	}
	w, dir := prepare(t)
	_, steps := w.Child("", 0)
	want := w.planFiles(dir)
	for _, at := range sample(steps, 3) {
		t.Run(fmt.Sprint(at), func(t *testing.T) {
			t.Parallel()
			w, dir := prepare(t)
			before := w.planFiles(dir)
			if killed, took := w.Child("", at); !killed && took >= at {
				t.Fatal("it was not killed")
			}
			h, err := journal.Read(filepath.Join(dir, taskdir.Run))
			if err != nil {
				t.Fatal(err)
			}
			switch begun := h.Number == 2; {
			case !begun:
				if got := w.planFiles(dir); got != before || w.Task(dir).Status != trellis.Waiting {
					t.Errorf("it is %s, with\n%s", w.Task(dir).Status, got)
				}
			case !h.Ended:
				if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); !errors.Is(err, runner.ErrPlanning) {
					t.Errorf("it was started: %v", err)
				}
			}
			if !h.Ended || h.Number == 1 {
				w.Child("", 0)
			}
			if got := w.planFiles(dir); got != want || w.Task(dir).Status != trellis.Waiting {
				t.Errorf("got %s, with\n%s\nwant\n%s", w.Task(dir).Status, got, want)
			}
			for _, role := range []string{"evaluate", "research", "taskspec", "plan", "judge"} {
				if got := w.results(filepath.Join(dir), role); got != 2 {
					t.Errorf("%s was answered %d times", role, got)
				}
			}
			if got := w.File(dir, "run/2/survey#1/before/plan.json"); !strings.Contains(got, "kindly") {
				t.Errorf("the edited plan is kept as %s", got)
			}
		})
	}
}
