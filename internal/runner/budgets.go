package runner

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Budgets tells what agents used today and what is left of the day's budgets.
type Budgets struct {
	limits        config.Limits
	ledger        *dayLedger
	dir           string // folder of the ledger
	disk          *durable.Disk
	now           func() time.Time                      // current time, in the time zone in which days begin
	onSpent       func(dir string, today trellis.Usage) // called after each call with what all machines used; nil: not called
	usedElsewhere func() trellis.Usage                  // returns what other machines used today; nil: there are none
}

// Today returns what agents used today, in this clone of the repository.
func (b Budgets) Today() (trellis.Usage, error) {
	used, err := b.ledger.total(b.dir, b.now())
	if err != nil {
		err = fmt.Errorf("reading what was used today: %w", err)
	}
	return used, err
}

// usedOnAllMachines returns what agents of all machines used today, as far as is known here, and where that was, in words. That
// usage counts for the day's limits.
func (b Budgets) usedOnAllMachines() (used trellis.Usage, where string, err error) {
	if used, err = b.Today(); err != nil || b.usedElsewhere == nil {
		return used, "", err
	}
	if elsewhere := b.usedElsewhere(); elsewhere != (trellis.Usage{}) {
		return used.Add(elsewhere), " on all machines", nil
	}
	return used, "", nil
}

// spend records what a call for a task used, and returns what is left of the day's budgets.
func (b Budgets) spend(dir string, c flow.Call, more trellis.Usage) (agentcall.Budget, error) {
	if more != (trellis.Usage{}) {
		raw, err := json.Marshal(spending{Task: filepath.Base(dir), Call: c.Key(), Used: more})
		if err != nil {
			return agentcall.Budget{}, fmt.Errorf("encoding what %s used: %w", c.ID, err)
		}
		b.ledger.add(b.disk, b.dir, b.now(), raw, more)
		if today, _, err := b.usedOnAllMachines(); err == nil && b.onSpent != nil {
			b.onSpent(dir, today)
		}
	}
	return b.BudgetLeft()
}

// BudgetLeft returns what is left of the day's budgets.
func (b Budgets) BudgetLeft() (r agentcall.Budget, err error) {
	l := b.limits
	if l.DayTokens <= 0 && l.DayCostUSD <= 0 {
		return r, nil
	}
	used, where, err := b.usedOnAllMachines()
	if err != nil {
		return r, fmt.Errorf("%w: %w", flow.ErrSuspended, err)
	}
	now := b.now()
	y, m, d := now.Date()
	r.Until = time.Date(y, m, d+1, 0, 0, 0, 0, now.Location()) // when the day ends
	switch {
	case l.DayTokens > 0 && used.Tokens() >= l.DayTokens:
		r.Exhausted = flow.Fail(string(trellis.BudgetTokens), "the day's tasks used %d tokens%s of limits.day_tokens, which is %d", used.Tokens(), where, l.DayTokens)
	case l.DayCostUSD > 0 && used.CostUSD != nil && *used.CostUSD >= l.DayCostUSD:
		r.Exhausted = flow.Fail(string(trellis.BudgetCost), "the day's tasks cost $%.2f%s of limits.day_cost_usd, which is $%.2f", *used.CostUSD, where, l.DayCostUSD)
	case l.DayCostUSD > 0 && used.CostUSD != nil:
		r.CostUSD = l.DayCostUSD - *used.CostUSD
	case l.DayCostUSD > 0:
		r.CostUSD = l.DayCostUSD
	}
	if r.Exhausted != nil {
		r.Exhausted.At, r.Exhausted.ResumeAt = now.UTC(), r.Until
	}
	return r, nil
}

// budgetMessages returns the messages that end a run's waits for another day, if some budget is left after all.
func (b Budgets) budgetMessages(h *journal.History) (list []journal.Message) {
	if r, err := b.BudgetLeft(); err != nil || r.Exhausted != nil {
		return nil
	}
	for i, c := range h.Calls {
		if c.Activity == "await:"+agentcall.BudgetRaised && !c.Done {
			list = append(list, journal.Message{ID: fmt.Sprintf("%s-%d", agentcall.BudgetRaised, i), Signal: agentcall.BudgetRaised})
		}
	}
	return list
}

// resumeTime returns when a paused task is to be resumed. It returns the zero time, which means now, if the task waits for
// another day and some budget is left after all.
func (b Budgets) resumeTime(t *taskdir.Task) time.Time {
	if code := t.Pipeline.Failure.Code; code == trellis.BudgetTokens || code == trellis.BudgetCost {
		if r, err := b.BudgetLeft(); err == nil && r.Exhausted == nil {
			return time.Time{}
		}
	}
	return t.Pipeline.ResumeAt
}

// ResumesEarly reports whether a paused task is resumed before the time until which it was paused.
func (l Assessment) ResumesEarly() bool { return l.Task.Status == trellis.Paused && l.At.IsZero() }

// LastFailedCall returns the last failed call in the journal, and its failure; nil if no call failed. It does not check that the run sleeps.
func LastFailedCall(dir string) (r agentcall.Request, fail *flow.Failure) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return r, nil
	}
	for _, c := range slices.Backward(h.Calls) {
		var reply agentcall.Reply
		if c.Done && json.Unmarshal(c.Out, &reply) == nil && reply.Failure != nil && json.Unmarshal(c.In, &r) == nil {
			return r, reply.Failure
		}
	}
	return r, nil
}

// NewBudgets returns the budgets of the repository at root, for a caller that runs nothing in it. They know of no other machine.
func NewBudgets(root string, c *config.Config, now func() time.Time) Budgets {
	return Budgets{c.Limits, new(dayLedger), ledgerDir(root), nil, clockIn(c.Shared.Zone(), now), nil, nil}
}

func clockIn(zone *time.Location, now func() time.Time) func() time.Time {
	return func() time.Time { return now().In(zone) }
}

// ledgerDir returns the folder of the daily ledgers.
func ledgerDir(root string) string { return filepath.Join(root, ".trellis", ".runtime", "spend") }
