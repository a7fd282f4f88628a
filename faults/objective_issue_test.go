package faults

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

// withIssue are the arguments to plan a step and put its plan into an issue.
var withIssue = []string{"objective", "plan", "farewells", "--step", "1.1", "--github"}

// newHosted returns a world with an objective in a repository that gh knows.
func newHosted(t testing.TB, s githubtest.State) (*world, *githubtest.GH) {
	t.Helper()
	w := newRoad(t)
	w.git("remote", "add", "origin", "../origin.git")
	return w, githubtest.Install(t, s)
}

// issued checks that the step was planned once, that exactly one issue holds the plan, and that the row names only that one.
func (w *world) issued(gh *githubtest.GH) {
	w.Helper()
	dirs, err := filepath.Glob(w.path("repo/.trellis/tasks/*"))
	if err != nil || len(dirs) != 1 {
		w.Fatalf("the tasks are %q, %v", dirs, err)
	}
	for _, role := range []string{"evaluate", "research", "prd"} {
		if n := w.answers(filepath.Base(dirs[0]), role); n != 1 {
			w.Errorf("%s was answered %d times", role, n)
		}
	}
	issues := gh.State(w.TB).Issues
	if len(issues) != 1 {
		w.Fatalf("there are %d issues: %v", len(issues), issues)
	}
	want := strings.Replace(roadmap, "| 1.1 | Say **bye** | | | |", fmt.Sprintf("| 1.1 | Say **bye** | | | plan #%v |", issues[0]["number"]), 1)
	got := w.read(roadFile)
	for i, line := range strings.Split(want, "\n") {
		if now := strings.Split(got, "\n"); i >= len(now) || now[i] != line && !(strings.HasPrefix(line, "| 1.1 |") && strings.Join(strings.Fields(now[i]), " ") == line) {
			w.Fatalf("the roadmap is\n%s\nwant\n%s", got, want)
		}
	}
	if left := w.left(); left != "" {
		w.Errorf("left: %s", left)
	}
}

// A plan is in one issue and its step is linked once, whichever call of gh the command is killed at, before or after the
// call did its work, and at whichever step on the disk.
func TestObjectiveIssueKilledAtEveryCall(t *testing.T) {
	t.Parallel()
	w, gh := newHosted(t, githubtest.State{})
	if e := w.trellis(withIssue, append(gh.Env, "FAULTS_LOG="+w.path(stepsLog))...); e.Code != 0 {
		t.Fatalf("undisturbed: exit %d\n%s", e.Code, e.Said)
	}
	w.issued(gh)
	calls := len(gh.State(t).Calls)
	spots := half(slices.DeleteFunc(roadSpots(w.read(stepsLog)), func(s spot) bool { return !full() && (roadPart(s) == "draft" || roadPart(s) == "publish") }), 0)
	t.Logf("%d calls, kills at %d steps", calls, len(spots))
	if calls < 3 {
		t.Fatalf("%d calls of gh", calls)
	}
	for n := range 2 * calls {
		if !full() && (n+n/2)%2 == 1 { // before one call, after the next
			continue
		}
		t.Run(fmt.Sprintf("call %d.%d", 1+n/2, n%2), func(t *testing.T) {
			t.Parallel()
			state := githubtest.State{Before: 1 + n/2}
			if n%2 == 1 {
				state = githubtest.State{After: 1 + n/2}
			}
			w, gh := newHosted(t, state)
			if e := w.trellis(withIssue, gh.Env...); e.Code != -1 && e.Code != 137 {
				t.Fatalf("it was not killed: exit %d\n%s", e.Code, e.Said)
			}
			gh.Change(t, func(s *githubtest.State) { s.Before, s.After = 0, 0 })
			w.ends(gh)
		})
	}
	for i, s := range spots {
		t.Run(fmt.Sprint(s), func(t *testing.T) {
			t.Parallel()
			w, gh := newHosted(t, githubtest.State{})
			w.trellis(withIssue, append(gh.Env, "FAULTS_AT="+s.String(), "FAULTS_DO="+victims[i%len(victims)])...)
			w.ends(gh)
		})
	}
}

// ends runs the command after a kill, and a second time, which changes nothing.
func (w *world) ends(gh *githubtest.GH) {
	w.Helper()
	for range 2 {
		if e := w.again(withIssue, gh.Env...); e.Code != 0 {
			w.Fatalf("again: exit %d\n%s", e.Code, e.Said)
		}
		w.gone()
		w.issued(gh)
	}
}
