package agentcall

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// turns is an agent whose calls begin together and use tokens turn by turn, until they are ended or reach their own limits.
type turns struct {
	cost  bool
	most  int64        // turns of a call that nothing ends
	used  atomic.Int64 // tokens of all calls, or cents
	ready sync.WaitGroup
}

const aTurn = 100

func (a *turns) Run(ctx context.Context, r agents.Request, _ func(agents.Event)) (*agents.Result, error) {
	res := &agents.Result{Text: "done", ToolCalls: -1}
	a.ready.Done()
	a.ready.Wait() // all are under way
	for n := int64(1); n <= a.most; n++ {
		if ctx.Err() != nil {
			return res, context.Cause(ctx)
		}
		a.used.Add(aTurn)
		if usd := float64(n*aTurn) / 100; a.cost {
			res.Usage.CostUSD = &usd
		} else {
			res.Usage.InputTokens = n * aTurn
		}
		if fail := r.Spent(res.Usage); fail != nil {
			return res, fail
		}
		switch l := r.Limits; {
		case l.Tokens > 0 && res.Usage.Tokens() >= l.Tokens:
			return res, flow.Fail(string(trellis.BudgetTokens), "the agent's own limit")
		case l.CostUSD > 0 && *res.Usage.CostUSD >= l.CostUSD:
			return res, flow.Fail(string(trellis.BudgetCost), "the agent's own limit")
		}
	}
	return res, nil
}

// Edge F9: calls that are made at the same time share what is left: each does not get all of it. A call that is in a
// turn when the budget is used up finishes at most that turn.
func TestCallsAtOnceShareABudget(t *testing.T) {
	for _, cost := range []bool{false, true} {
		const calls, left = 4, 1000
		agent := &turns{cost: cost, most: 30}
		agent.ready.Add(calls)
		a := spending(t.TempDir(), agent)
		limits, code := Limits{Tokens: left}, trellis.BudgetTokens
		if cost {
			limits, code = Limits{CostUSD: left / 100}, trellis.BudgetCost
		}
		var all sync.WaitGroup
		for i := range calls {
			all.Go(func() {
				reply, err := a.perform(t.Context(), flow.Call{Run: "02-01-x/1", ID: fmt.Sprintf("step-%d", i), Attempt: 1}, Request{Role: trellis.Implement, Limits: limits})
				if err != nil || reply.Failure == nil || reply.Failure.Code != string(code) {
					t.Errorf("call %d: %+v, %v", i, reply.Failure, err)
				}
			})
		}
		all.Wait()
		if used := agent.used.Load(); used < left || used > left+calls*aTurn {
			t.Errorf("they used %d of %d", used, left)
		}
		if len(a.shared.running) > 0 {
			t.Errorf("%d calls are counted as under way", len(a.shared.running))
		}
		// A later call has limits that were computed with all of that usage.
		agent.ready.Add(1)
		agent.most = 5
		if reply, err := a.perform(t.Context(), flow.Call{Run: "02-01-x/1", ID: "after", Attempt: 1}, Request{Role: trellis.Implement, Limits: limits}); err != nil || reply.Failure != nil {
			t.Errorf("a later call: %+v, %v", reply.Failure, err)
		}
	}
}
