package agentcall

import (
	"context"
	"sync"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// sharedBudget tracks the usage of concurrent calls on one budget. The limits of a call were computed when it began, from the
// usage recorded by then; what other calls use in the meantime is deducted as soon as it is reported.
type sharedBudget struct {
	mu      sync.Mutex
	used    trellis.Usage // total of all calls of this process
	running map[*share]bool
}

// share is one call that is under way.
type share struct {
	budget     *sharedBudget
	limits     Limits
	usedBefore trellis.Usage // sharedBudget.used of calls that had ended when the limits were computed
	ownUsage   trellis.Usage
	end        context.CancelCauseFunc
}

// begin registers a call. It returns a failure if other calls that are under way have used up what the call may use.
func (t *sharedBudget) begin(l Limits, end context.CancelCauseFunc) (*share, *flow.Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &share{budget: t, limits: l, usedBefore: t.used, end: end}
	for other := range t.running {
		s.usedBefore = usageSince(s.usedBefore, other.ownUsage)
	}
	if fail := s.exhaustedFailure(); fail != nil {
		return nil, fail
	}
	if t.running == nil {
		t.running = map[*share]bool{}
	}
	t.running[s] = true
	return s, nil
}

// add adds to the usage of the call. It ends other calls that have nothing left, and returns a failure if this one has nothing
// left.
func (s *share) add(more trellis.Usage) (fail *flow.Failure) {
	t := s.budget
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used, s.ownUsage = t.used.Add(more), s.ownUsage.Add(more)
	for other := range t.running {
		switch over := other.exhaustedFailure(); {
		case over == nil:
		case other == s:
			fail = over
		default:
			other.end(over)
		}
	}
	return fail
}

// done unregisters a call.
func (s *share) done() {
	s.budget.mu.Lock()
	defer s.budget.mu.Unlock()
	delete(s.budget.running, s)
}

// exhaustedFailure returns a failure if this call and concurrent ones have used up its limits. Its agent enforces the limits of a lone
// call.
func (s *share) exhaustedFailure() *flow.Failure {
	used := usageSince(s.budget.used, s.usedBefore)
	beside := usageSince(used, s.ownUsage)
	switch l := s.limits; {
	case l.Tokens > 0 && beside.Tokens() > 0 && used.Tokens() >= l.Tokens:
		return flow.Fail(string(trellis.BudgetTokens), "%d tokens were left, and used by this call and those running at the same time", l.Tokens)
	case l.CostUSD > 0 && beside.CostUSD != nil && *beside.CostUSD > 1e-9 && *used.CostUSD >= l.CostUSD:
		return flow.Fail(string(trellis.BudgetCost), "$%.2f were left, and spent by this call and those running at the same time", l.CostUSD)
	}
	return nil
}
