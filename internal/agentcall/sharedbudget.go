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
	mu   sync.Mutex
	used trellis.Usage // total of all calls of this process
	open map[*share]bool
}

// share is one call that is under way.
type share struct {
	of     *sharedBudget
	limits Limits
	before trellis.Usage // sharedBudget.used of calls that had ended when the limits were computed
	own    trellis.Usage
	end    context.CancelCauseFunc
}

// begin registers a call. It returns a failure if other calls that are under way have used up what the call may use.
func (t *sharedBudget) begin(l Limits, end context.CancelCauseFunc) (*share, *flow.Failure) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := &share{of: t, limits: l, before: t.used, end: end}
	for other := range t.open {
		s.before = since(s.before, other.own)
	}
	if fail := s.exhausted(); fail != nil {
		return nil, fail
	}
	if t.open == nil {
		t.open = map[*share]bool{}
	}
	t.open[s] = true
	return s, nil
}

// add adds to the usage of the call. It ends other calls that have nothing left, and returns a failure if this one has nothing
// left.
func (s *share) add(more trellis.Usage) (fail *flow.Failure) {
	t := s.of
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used, s.own = t.used.Add(more), s.own.Add(more)
	for other := range t.open {
		switch over := other.exhausted(); {
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
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	delete(s.of.open, s)
}

// exhausted returns a failure if this call and concurrent ones have used up its limits. Its agent enforces the limits of a lone
// call.
func (s *share) exhausted() *flow.Failure {
	used := since(s.of.used, s.before)
	beside := since(used, s.own)
	switch l := s.limits; {
	case l.Tokens > 0 && beside.Tokens() > 0 && used.Tokens() >= l.Tokens:
		return flow.Fail(string(trellis.BudgetTokens), "%d tokens were left, and used by this call and those beside it", l.Tokens)
	case l.CostUSD > 0 && beside.CostUSD != nil && *beside.CostUSD > 1e-9 && *used.CostUSD >= l.CostUSD:
		return flow.Fail(string(trellis.BudgetCost), "$%.2f were left, and spent by this call and those beside it", l.CostUSD)
	}
	return nil
}
