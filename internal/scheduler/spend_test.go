package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (w *world) watchOnce(parallel int) map[string]runner.Result {
	w.Helper()
	all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: parallel, Rescan: time.Hour})
	if err != nil {
		w.Fatal(err)
	}
	byDir := map[string]runner.Result{}
	for _, r := range all {
		byDir[r.Dir] = r
	}
	return byDir
}

// When the day's budget is used up, the agent is ended during its turn and the task is paused until midnight, without using up an attempt.
// No other task begins until then. The next day, all resume by themselves with a new budget.
func TestDayBudget(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("events", fmt.Sprintf(runnertest.Spends, "null"))
	w.Site.Config.Limits.DayTokens = 4100
	w.Noon(0)
	dirs := w.Ready("02-01-a", "02-02-b", "02-03-c")
	w.Write("../hang-02-02-b-accept", "")
	got := w.watchOnce(1)
	y, m, d := w.Site.Now().Date()
	midnight := time.Date(y, m, d+1, 0, 0, 0, 0, time.Local)
	b := w.Task(dirs[1])
	if got[dirs[0]].Status != trellis.Review || b.Status != trellis.Paused || w.Task(dirs[2]).Status != trellis.Ready {
		t.Fatalf("got %+v", got)
	}
	if p := b.Pipeline; p.Failure.Code != trellis.BudgetTokens || !strings.Contains(p.Failure.Detail, "day") || !p.ResumeAt.Equal(midnight) || p.Usage.Tokens() != 2400 {
		t.Errorf("task.json says %+v", p)
	}
	if c := got[dirs[2]]; c.Status != trellis.Waiting || !c.Until.Equal(midnight) || len(c.Waits) != 1 || !strings.Contains(c.Waits.String(), "day") {
		t.Errorf("what was not begun: %+v", c)
	}
	if got := w.watchOnce(1); got[dirs[1]].Status != trellis.Paused || strings.Count(w.Read("../calls.log"), "\n") != 6 {
		t.Errorf("the same day: %+v, %s", got, w.Read("../calls.log"))
	}
	w.Noon(1)
	got = w.watchOnce(1)
	for _, dir := range dirs {
		if w.Task(dir).Status != trellis.Review || w.Task(dir).Pipeline.Attempt != 1 {
			t.Errorf("the next day: %+v", got[dir])
		}
	}
	if used, err := w.Site.Budgets().Today(); err != nil || used.Tokens() != 3200 || used.CostUSD != nil {
		t.Errorf("the next day's ledger says %+v, %v", used, err)
	}
}

// A day begins at midnight in the time zone of the settings.
func TestDayOfATimeZone(t *testing.T) {
	t.Parallel()
	for name, at := range map[string]string{"Pacific/Kiritimati": "2026-02-02T10:00:00Z", "Pacific/Pago_Pago": "2026-02-02T11:00:00Z"} { // 14 hours ahead of UTC, 11 behind
		w := newWorld(t, runnertest.Quickly)
		w.Program("events", fmt.Sprintf(runnertest.Spends, "null"))
		w.Site.Config.Limits.DayTokens, w.Site.Config.Shared.TimeZone = 100, name
		midnight, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		now := midnight.Add(-6 * time.Hour)
		w.Site.Now = func() time.Time { return now }
		dir := w.Ready("02-01-a")[0]
		if got := w.watchOnce(1); got[dir].Status != trellis.Paused || !got[dir].Until.Equal(midnight) {
			t.Errorf("%s: got %+v", name, got[dir])
		}
		now = midnight
		if used, err := w.Site.Budgets().Today(); err != nil || used.Tokens() != 0 {
			t.Errorf("%s: on the next day %+v, %v", name, used, err)
		}
	}
}

// After the day's budget was raised, trellis start or the next watcher resumes the task.
func TestDayBudgetRaised(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("events", fmt.Sprintf(runnertest.Spends, "0.25"))
	w.Noon(0)
	w.Site.Config.Limits.DayCostUSD = 0.5
	dir := w.Ready("02-01-a")[0]
	w.Write("../hang-02-01-a-check", "")
	w.Write("../hang-02-01-a-accept", "")
	res := w.Start(dir)
	if res.Status != trellis.Paused || res.Until.IsZero() || res.Failure == nil || res.Failure.Code != string(trellis.BudgetCost) {
		t.Fatalf("got %+v", res)
	}
	if res = w.Start(dir); res.Status != trellis.Paused {
		t.Fatalf("started again: %+v", res)
	}
	w.Site.Config.Limits.DayCostUSD = 0.8 // enough for the repeated check; acceptance exceeds it
	if res = w.Start(dir); res.Status != trellis.Paused || w.Task(dir).Pipeline.Phase != "accept" {
		t.Fatalf("raised: %+v, %+v", res, w.Task(dir).Pipeline)
	}
	w.Site.Config.Limits.DayCostUSD = 0
	if got := w.watchOnce(1); got[dir].Status != trellis.Review {
		t.Errorf("without a limit: %+v", got)
	}
}
