package app

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const byePRD = "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n"

// told collects the events of a project until the test ends.
type told struct {
	*testing.T
	from <-chan events.Event
	list []events.Event
}

func listen(t *testing.T, w *runnertest.World) *told {
	t.Helper()
	e := &Env{Vars: os.Environ(), Dir: w.Dir, Now: time.Now}
	p, err := e.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	from, err := p.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	l := &told{T: t, from: from}
	t.Cleanup(func() {
		cancel()
		for range from { // until the channel is closed
		}
	})
	return l
}

// until reads events until holds returns true for one, and returns that event.
func (l *told) until(what string, holds func(events.Event) bool) events.Event {
	l.Helper()
	hang := time.After(runnertest.Hang)
	for {
		select {
		case e := <-l.from:
			l.list = append(l.list, e)
			if holds(e) {
				return e
			}
		case <-hang:
			l.Fatalf("waited in vain for %s; told\n%s", what, l)
		}
	}
}

func (l *told) String() string {
	var lines []string
	for _, e := range l.list {
		lines = append(lines, brief(e))
	}
	return strings.Join(lines, "\n")
}

// brief returns e as text, without what differs from run to run.
func brief(e events.Event) string {
	parts := []string{string(e.Kind), e.Task}
	if e.Phase != "" {
		parts = append(parts, fmt.Sprintf("%s/%d", e.Phase, e.Round))
	}
	if e.Call != "" && e.Kind == events.PhaseBegun && e.Agent != "" {
		parts = append(parts, "by "+e.Agent)
	}
	if e.Check != nil {
		parts = append(parts, fmt.Sprintf("%d of %d: %s: %d", e.Check.N, e.Check.Of, e.Check.Command, e.Check.Code))
	}
	return strings.Join(parts, " ")
}

func is(kind events.Kind, task string) func(events.Event) bool {
	return func(e events.Event) bool { return e.Kind == kind && e.Task == task }
}

// Events report what another part of the program does: phases as they begin, the check that failed, how the run ended.
func TestEventsOfARun(t *testing.T) {
	w := runnertest.NewWorld(t, runnertest.Working)
	dir := w.Hand("02-01-bye", byePRD)
	l := listen(t, w)
	w.Start(dir)
	end := l.until("the end", is(events.Ended, "02-01-bye"))
	if o := end.Outcome; o == nil || o.Status != trellis.Review || len(o.Commit) < 40 || o.Rounds != 2 || o.Worktree == "" || o.Next != "trellis diff 02-01-bye" || o.Met != 1 || o.Criteria != 1 || !strings.Contains(o.Stat, "greet.sh") || end.Run != "02-01-bye/1" {
		t.Errorf("it ended with %+v, %+v", end, o)
	}
	var lines []string
	for line := range strings.SplitSeq(l.String(), "\n") {
		if !strings.HasPrefix(line, string(events.Changed)) && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	for _, want := range []string{"phase_begun 02-01-bye prepare/1", "phase_begun 02-01-bye implement/1", "phase_begun 02-01-bye implement/1 by rehearsal",
		"phase_ended 02-01-bye implement/1", "phase_begun 02-01-bye verify/1", "checked 02-01-bye verify/1 1 of 1: sh test.sh: 1",
		"phase_begun 02-01-bye debug/2", "checked 02-01-bye verify/2 1 of 1: sh test.sh: 0", "phase_begun 02-01-bye commit/2", "ended 02-01-bye"} {
		i := slices.Index(lines, want)
		if i < 0 {
			t.Fatalf("not told, or not in this order: %s; told\n%s", want, l)
		}
		lines = lines[i+1:]
	}
	if began := l.list[0].Time; end.Time.Before(began) || end.Time.IsZero() {
		t.Errorf("times are %v to %v", began, end.Time)
	}
}

// What happened before the subscription is not reported; a second run is reported from its beginning.
func TestEventsFromNowOn(t *testing.T) {
	w := runnertest.NewWorld(t, strings.Replace(runnertest.Working, "  accept:", "  nobody:", 1))
	w.Site.Config.Limits.Attempts, w.Site.Config.Limits.Rounds = 1, 1
	dir := w.Hand("02-01-bye", byePRD)
	if res := w.Start(dir); res.Status != trellis.Failed {
		t.Fatalf("it is %s", res.Status)
	}
	l := listen(t, w)
	w.Write(".trellis/tasks/02-02-other/task.json", `{"status": "planning"`)
	l.until("a task that appears", is(events.Changed, "02-02-other"))
	if i := slices.IndexFunc(l.list, func(e events.Event) bool { return e.Task == "02-01-bye" }); i >= 0 {
		t.Errorf("told of what was before: %s", l)
	}
	if err := os.RemoveAll(filepath.Join(w.Dir, ".trellis/tasks/02-02-other")); err != nil {
		t.Fatal(err)
	}
	l.until("a task that is gone", func(e events.Event) bool {
		_, err := os.Stat(filepath.Join(w.Dir, ".trellis/tasks", e.Task))
		return e.Kind == events.Changed && err != nil
	})
	if err := w.Site.Orders().Retry(t.Context(), dir, true, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Start(dir)
	l.until("the second end", is(events.Ended, "02-01-bye"))
	for _, e := range l.list {
		if e.Run == "02-01-bye/1" {
			t.Errorf("told again: %s", brief(e))
		}
	}
	if !strings.Contains(l.String(), "phase_begun 02-01-bye prepare/1") {
		t.Errorf("the second run is not told from its begin: %s", l)
	}
}

// The result of a command is reported once, and while other commands of the same activity still run.
func TestEachCheckIsToldAsItEnds(t *testing.T) {
	w := runnertest.NewWorld(t, runnertest.Working)
	gate := filepath.Join(t.TempDir(), "gate")
	w.Site.Config.Verify = append(w.Site.Config.Verify, fmt.Sprintf("until test -e %s; do sleep 0.02; done", gate))
	dir := w.Hand("02-01-bye", byePRD)
	l := listen(t, w)
	ended := make(chan struct{})
	go func() { defer close(ended); w.Start(dir) }()
	first := l.until("the first check of the baseline", is(events.Checked, "02-01-bye"))
	if c := first.Check; first.Phase != "baseline" || c.N != 1 || c.Of != 2 || c.Failed() {
		t.Errorf("told of %s: %+v", first.Phase, c)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l.until("the end", is(events.Ended, "02-01-bye"))
	<-ended
	told := map[string]int{}
	for _, e := range l.list {
		if e.Kind == events.Checked {
			told[fmt.Sprintf("%s %d", e.Call, e.Check.N)]++
		}
	}
	for what, n := range told {
		if n != 1 {
			t.Errorf("%s is told %d times", what, n)
		}
	}
	if len(told) < 6 {
		t.Errorf("told of %v, want two of each of baseline, verify and final", told)
	}
}

// A task that waits for the baseline of another task reports which task that is.
func TestWaitForABaselineIsTold(t *testing.T) {
	w := runnertest.NewWorld(t, runnertest.Working)
	gate := filepath.Join(t.TempDir(), "gate")
	w.Site.Config.Verify = append(w.Site.Config.Verify, fmt.Sprintf("until test -e %s; do sleep 0.02; done", gate))
	first, second := w.Hand("02-01-bye", byePRD), w.Hand("02-02-more", byePRD)
	l := listen(t, w)
	var both sync.WaitGroup
	both.Go(func() { w.Start(first) })
	l.until("the first check of the baseline", is(events.Checked, "02-01-bye"))
	both.Go(func() { w.Start(second) })
	e := l.until("a wait", is(events.Waiting, "02-02-more"))
	if e.Wait.For != "checks" || e.Wait.Why != "the checks at base, which 02-01-bye runs" {
		t.Errorf("it waits for %+v", e.Wait)
	}
	if err := os.WriteFile(gate, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	l.until("the end", is(events.Ended, "02-02-more"))
	both.Wait()
}

// Events name the steps of a plan even if the baseline runs in parallel with them.
func TestStepsBesideABaseline(t *testing.T) {
	w := runnertest.NewWorld(t, runnertest.Working)
	w.Site.Config.Baseline = "parallel"
	dir := w.Hand("02-01-bye", byePRD)
	w.Write(".trellis/tasks/02-01-bye/plan.json", `{"schema_version": 1, "title": "Say bye", "steps": [{"id": "add_flag", "prompt": "Let greet.sh say bye.", "verify": "test -s greet.sh"}], "acceptance": [{"criterion": "it says bye"}]}`)
	l := listen(t, w)
	w.Start(dir)
	l.until("the end", is(events.Ended, "02-01-bye"))
	for _, e := range l.list {
		if strings.HasPrefix(e.Call, "work/steps/") {
			if e.Step != "add_flag" {
				t.Errorf("%s is of step %q", brief(e), e.Step)
			}
			return
		}
	}
	t.Errorf("no step is told: %s", l)
}
