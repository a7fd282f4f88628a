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

// usageFile is what an entry used so far, for the next one when this one is cut off.
const usageFile = "usage.json"

// usageOfEarlier is what entries that were cut off used, as far as they told.
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

// Lost is what a call used that came to no reply, as far as its entries told: Call.Attempt is how many there were.
func Lost(runDir string, c flow.Call) trellis.Usage {
	return usageOfEarlier(filepath.Join(runDir, Folder(c)), c.Attempt+1)
}

// Budget is what all calls together may still use.
type Budget struct {
	Exhausted *flow.Failure // nothing, and when there is more; nil: something
	CostUSD   float64       // at most this; 0: nobody says
	Until     time.Time     // when there is more
}

// explain says of a call that used up what was left for all calls that this is why it failed.
func (b *Budget) explain(fail *flow.Failure) {
	if b != nil && fail != nil && fail.Code == string(trellis.BudgetCost) && fail.ResumeAt.IsZero() {
		fail.Detail += ", which is what was left of limits.day_cost_usd"
		fail.ResumeAt = b.Until
	}
}

// applyBudget takes what was lost, and what all calls together may not use, out of the limits of a call. It returns why that
// is not made, or the rest when that bounds its cost.
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

// meter counts what one entry uses, while it does.
type meter struct {
	caller *Caller
	call   flow.Call
	dir    string
	began  time.Time
	share  *share // in what calls at the same time may use

	mu    sync.Mutex
	total trellis.Usage // of it so far
}

// noted is how often it is noted how long an agent has worked that tells nothing else.
const noted = 10 * time.Second

// tick notes from time to time how long the agent has worked, until done is called.
func (m *meter) tick() (done func()) {
	end := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		each := time.NewTicker(noted)
		defer each.Stop()
		for {
			select {
			case <-end:
				return
			case <-each.C:
				m.note(nil)
			}
		}
	})
	return func() { close(end); wait.Wait() }
}

// note keeps what the entry used so far, for the next one should this one be cut off; now is its new total, if it has one.
func (m *meter) note(now *trellis.Usage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now != nil {
		m.total = *now
	}
	u := m.total
	u.Seconds = m.seconds()
	if raw, err := json.Marshal(u); err == nil {
		_ = m.caller.keepUnsynced(m.dir, usageFile, raw) // a loss costs what one that is cut off used
	}
}

// seconds is how long the agent has worked.
func (m *meter) seconds() float64 { return max(0, m.caller.now().Sub(m.began).Seconds()) }

// report takes in the running total of an entry, and says why it may use no more, nil when it may. Nobody calls it concurrently.
func (m *meter) report(u trellis.Usage) *flow.Failure {
	more := since(u, m.total)
	if more == (trellis.Usage{}) {
		return nil
	}
	var rest Budget
	if m.caller.Spend != nil {
		rest, _ = m.caller.Spend(m.call, more) // nothing to a call that was begun
	}
	m.note(&u)
	if fail := m.share.add(more); fail != nil {
		fail.At = m.caller.now().UTC()
		return fail
	}
	return rest.Exhausted
}

// since is what was used in u beyond what was in before, time aside.
func since(u, before trellis.Usage) trellis.Usage {
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
