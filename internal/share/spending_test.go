package share_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/share"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// spender is an agent whose calls take 1,100 tokens and 25 cents each.
const spender = `cat > /dev/null
echo x >> $TRELLIS_REPO/../asked
test "$TRELLIS_ROLE" = accept || echo x >> notes.txt
echo '{"type": "usage", "usage": {"input_tokens": 900, "output_tokens": 200, "cost_usd": 0.25}}'
test "$TRELLIS_ROLE" = accept && echo '{"type": "result", "text": "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"notes.txt\"}]}"}'
test "$TRELLIS_ROLE" = accept || echo '{"type": "result", "text": "done"}'
`

// lay makes a ready task and publishes it.
func (m *machine) lay(id string) string {
	m.Helper()
	dir := filepath.Join(m.Site.Store.Tasks(), id)
	if err := runnertest.Lay(dir, "ready"); err != nil {
		m.Fatal(err)
	}
	if _, err := m.team.Submit(m.Context(), dir); err != nil {
		m.Fatal(err)
	}
	return dir
}

// noon returns a clock that starts at noon, so that no day ends during a test.
func noon() func() time.Time {
	y, m, d := time.Now().Date()
	shift := time.Until(time.Date(y, m, d, 12, 0, 0, 0, time.Local))
	return func() time.Time { return time.Now().Add(shift) }
}

// The day's budget counts what agents used on all machines, whether a machine learned of it first-hand or from a third one. Once the budget
// is used up, no call begins; after the limit is raised, the run resumes.
func TestBudgetsOfAllMachines(t *testing.T) {
	t.Parallel()
	const silence = time.Minute
	a := net(t, runnertest.Quickly, silence)
	b, c := a.beside("b", silence), a.beside("c", silence)
	noon := noon()
	a.Site.Now, b.Site.Now, c.Site.Now = noon, noon, noon
	a.Program("events", spender)
	b.Program("events", spender)
	first, second := a.lay("02-01-first"), a.lay("02-02-second")
	b.Site.Config.Limits.DayTokens = 3000
	if left, err := b.Site.Budgets().BudgetLeft(); err != nil || left.Exhausted != nil {
		t.Fatalf("nobody used anything: %+v, %v", left, err)
	}
	if res, err := a.Site.TaskRunner().Run(t.Context(), first, runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
		t.Fatalf("got %+v, %v", res, err)
	}
	used, err := a.Site.Budgets().Today()
	if err != nil || used.Tokens() < 3000 {
		t.Fatalf("used is %+v, %v", used, err)
	}
	b.pull()
	theirs := filepath.Join(b.Site.Store.Tasks(), filepath.Base(second))
	res, err := b.Site.TaskRunner().Run(t.Context(), theirs, runner.RunOptions{}, nil)
	if err != nil || res.Status != trellis.Paused || res.Failure == nil || res.Failure.Code != string(trellis.BudgetTokens) || !strings.Contains(res.Failure.Detail, "tokens on all machines of limits.day_tokens") {
		t.Errorf("got %+v, %v", res, err)
	}
	if _, err := os.Stat(filepath.Join(b.Dir, "../asked")); err == nil {
		t.Error("an agent was asked")
	}
	if by := share.NewSightings(b.Dir, "b", noon).Elsewhere(theirs); by != nil { // what only reads the file knows the same
		t.Errorf("%s has it", by.Host)
	}
	if own, err := b.Site.Budgets().Today(); err != nil || own.Tokens() != 0 {
		t.Errorf("what b used itself is %+v, %v", own, err)
	}

	if err := a.team.Withdraw(t.Context(), first); err != nil { // a's own state is gone
		t.Fatal(err)
	}
	c.Site.Config.Limits.DayCostUSD = 0.5
	c.pull()
	if left, err := c.Site.Budgets().BudgetLeft(); err != nil || left.Exhausted == nil || left.Exhausted.Code != string(trellis.BudgetCost) {
		t.Errorf("c was told nothing: %+v, %v", left, err)
	}

	b.Site.Config.Limits.DayTokens = 100_000
	var told []int64
	b.Site.Spent = func(_ string, today trellis.Usage) { told = append(told, today.Tokens()) }
	if res, err := b.Site.TaskRunner().Run(t.Context(), theirs, runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
		t.Errorf("raised: %+v, %v", res, err)
	}
	if want := used.Tokens() + 1100; len(told) == 0 || told[0] != want { // notifications of the day's limits use this
		t.Errorf("after the first call %v tokens were used on all machines, and not %d", told, want)
	}
	c.Site.Now = func() time.Time { return noon().AddDate(0, 0, 1) }
	if left, err := c.Site.Budgets().BudgetLeft(); err != nil || left.Exhausted != nil {
		t.Errorf("on the next day: %+v, %v", left, err)
	}
}

// What a machine used today counts on machines that have the same day, by the clock in their time zone.
func TestSpendingInATimeZone(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Minute)
	a.Program("events", spender)
	clock := func(zone string) func() time.Time {
		in, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		return func() time.Time { return now.In(in) }
	}
	const first, last = "Pacific/Kiritimati", "Pacific/Pago_Pago" // where it is never the same day
	a.Site.Now = clock(first)
	a.team = join(a.Site, time.Minute)
	if res, err := a.Site.TaskRunner().Run(t.Context(), a.lay(task), runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
		t.Fatalf("got %+v, %v", res, err)
	}
	for zone, counted := range map[string]bool{first: true, last: false} {
		b := a.beside("in-"+filepath.Base(zone), time.Minute)
		b.Site.Now = clock(zone)
		b.team = join(b.Site, time.Minute)
		b.pull()
		if got := b.team.SpentElsewhere(); (got.Tokens() > 0) != counted {
			t.Errorf("%s: counted are %+v", zone, got)
		}
	}
}

// What a machine uses counts again after its clock, which was years ahead, was corrected.
func TestSpendingOfAClockAhead(t *testing.T) {
	t.Parallel()
	a := net(t, runnertest.Quickly, time.Minute)
	b := a.beside("b", time.Minute)
	a.Program("events", spender)
	noon := noon()
	b.Site.Now, b.Site.Config.Limits.DayTokens = noon, 3000
	for _, ahead := range []time.Duration{3 * 365 * 24 * time.Hour, 0} {
		a.Site.Now = func() time.Time { return noon().Add(ahead) }
		a.team = join(a.Site, time.Minute) // as a new process
		dir := a.lay("02-01-ahead-" + strings.ToLower(ahead.String()))
		if res, err := a.Site.TaskRunner().Run(t.Context(), dir, runner.RunOptions{}, nil); err != nil || res.Status != trellis.Review {
			t.Fatalf("got %+v, %v", res, err)
		}
		b.pull()
		if left, err := b.Site.Budgets().BudgetLeft(); err != nil || (left.Exhausted != nil) != (ahead == 0) {
			t.Errorf("%v ahead: got %+v, %v", ahead, left, err)
		}
	}
}
