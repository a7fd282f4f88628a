package agentcall

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// usageFile holds what an entry has used so far, for the next entry if this one is cut off.
const usageFile = "usage.json"

// usageOfEarlier returns the usage of earlier entries that were cut off, as far as they reported it.
func usageOfEarlier(base string, attempt int) (u trellis.Usage) {
	for n := 1; n < attempt; n++ {
		raw, err := durable.ReadBelow(base, filepath.Join(strconv.Itoa(n), usageFile), durable.MaxDocument)
		var used trellis.Usage
		if err == nil && json.Unmarshal(raw, &used) == nil {
			u = u.Add(used)
		}
	}
	return u
}

// LostUsage returns the usage of a call without a reply, as far as its entries reported it. c.Attempt is the number of entries.
func LostUsage(runDir string, c flow.Call) trellis.Usage {
	return usageOfEarlier(filepath.Join(runDir, Folder(c)), c.Attempt+1)
}

// Budget is what all calls together may still use.
type Budget struct {
	Exhausted *flow.Failure // the budget is used up, and when there is more; nil: it is not
	CostUSD   float64       // the rest in USD; 0: no limit
	Until     time.Time     // when there is a new budget
}

// explain adds to the failure of a call that was ended by b that the day's budget is the cause, and when there is a new one.
func (b *Budget) explain(fail *flow.Failure) {
	if b != nil && fail != nil && fail.Code == string(trellis.BudgetCost) && fail.ResumeAt.IsZero() {
		fail.Detail += ", which is what was left of limits.day_cost_usd"
		fail.ResumeAt = b.Until
	}
}

// applyBudget deducts the usage lost by earlier entries from the limits of a call, and applies the budget of all calls. It
// returns a failure if the call must not be made, and bound if that budget limits the cost.
func (a *Caller) applyBudget(c flow.Call, l *Limits, lost trellis.Usage) (fail *flow.Failure, bound *Budget, err error) {
	var rest Budget
	if a.Spend != nil {
		if rest, err = a.Spend(c, trellis.Usage{}); err != nil {
			return nil, nil, err
		}
	}
	switch {
	case l.Tokens > 0 && lost.Tokens() >= l.Tokens:
		fail = flow.Fail(string(trellis.BudgetTokens), "%d tokens were left, and used by this call before it was cut off", l.Tokens)
	case l.CostUSD > 0 && lost.CostUSD != nil && *lost.CostUSD >= l.CostUSD:
		fail = flow.Fail(string(trellis.BudgetCost), "$%.2f were left, and spent by this call before it was cut off", l.CostUSD)
	case l.Seconds > 0 && lost.Seconds >= l.Seconds:
		fail = flow.Fail(string(trellis.BudgetTime), "%.0f seconds were left, and used by this call before it was cut off", l.Seconds)
	default:
		fail = rest.Exhausted
	}
	if fail != nil {
		fail.At = a.now().UTC()
		return fail, nil, nil
	}
	if l.Tokens > 0 {
		l.Tokens -= lost.Tokens()
	}
	if l.CostUSD > 0 && lost.CostUSD != nil {
		l.CostUSD -= *lost.CostUSD
	}
	if l.Seconds > 0 {
		l.Seconds -= lost.Seconds
	}
	if rest.CostUSD > 0 && (l.CostUSD == 0 || rest.CostUSD < l.CostUSD) {
		l.CostUSD, bound = rest.CostUSD, &rest
	}
	return nil, bound, nil
}

// meter measures the usage of one entry while it runs.
type meter struct {
	caller *Caller
	call   flow.Call
	dir    string
	began  time.Time
	share  *share // of the budget shared with concurrent calls

	mu    sync.Mutex
	total trellis.Usage // of the entry so far
}

// saveInterval is the interval at which working time is recorded while an agent reports nothing else.
const saveInterval = 10 * time.Second

// saveAtIntervals records the working time of the agent at intervals, until done is called.
func (m *meter) saveAtIntervals() (done func()) {
	end := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		each := time.NewTicker(saveInterval)
		defer each.Stop()
		for {
			select {
			case <-end:
				return
			case <-each.C:
				m.saveUsage(nil)
			}
		}
	})
	return func() { close(end); wait.Wait() }
}

// saveUsage records what the entry has used so far, for the next entry if this one is cut off; now is the new total, nil if unchanged.
func (m *meter) saveUsage(now *trellis.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now != nil {
		m.total = *now
	}
	u := m.total
	u.Seconds = m.seconds()
	if raw, err := json.Marshal(u); err == nil {
		_ = m.caller.keepUnsynced(m.dir, usageFile, raw) // if it is lost, the usage of an entry that is cut off is not counted
	}
}

// seconds returns how long the agent has worked.
func (m *meter) seconds() float64 { return max(0, m.caller.now().Sub(m.began).Seconds()) }

// report records the running total of an entry, and returns a failure if it may use no more. It is not called concurrently.
func (m *meter) report(u trellis.Usage) *flow.Failure {
	more := usageSince(u, m.total)
	if more == (trellis.Usage{}) {
		return nil
	}
	var rest Budget
	if m.caller.Spend != nil {
		rest, _ = m.caller.Spend(m.call, more) // errors don't affect a call that has begun
	}
	m.saveUsage(&u)
	if fail := m.share.add(more); fail != nil {
		fail.At = m.caller.now().UTC()
		return fail
	}
	return rest.Exhausted
}

// usageSince returns the usage in u beyond that in before, without the time.
func usageSince(u, before trellis.Usage) trellis.Usage {
	d := trellis.Usage{InputTokens: u.InputTokens - before.InputTokens, OutputTokens: u.OutputTokens - before.OutputTokens, CachedTokens: u.CachedTokens - before.CachedTokens}
	cost := 0.0
	if u.CostUSD != nil {
		cost = *u.CostUSD
	}
	if before.CostUSD != nil {
		cost -= *before.CostUSD
	}
	if cost != 0 {
		d.CostUSD, d.CostEstimated = &cost, u.CostEstimated || before.CostEstimated
	}
	return d
}
