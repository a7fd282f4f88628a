package agentcall

import (
	"context"
	"sync"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// sharedBudget is what calls that are made at the same time use of one budget. What a call may use was reckoned when it began, of
// what had been recorded by then: what others use meanwhile is taken out of it as soon as it is told.
type sharedBudget struct {
	mu   sync.Mutex
	used trellis.Usage // by all calls of this process
	open map[*share]bool
}

// share is one call that is under way.
type share struct {
	of     *sharedBudget
	limits Limits
	before trellis.Usage // told by others that were over when its limits were reckoned
	own    trellis.Usage
	end    context.CancelCauseFunc
}

// begin counts a call in. When others that are under way have used up what it may use, it is not to be made.
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

// add takes in what the call used more, and ends every call for which nothing is left, this one by the failure that is returned.
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

// done counts a call out.
func (s *share) done() {
	s.of.mu.Lock()
	defer s.of.mu.Unlock()
	delete(s.of.open, s)
}

// exhausted says that this call and those beside it have used up what it may use. A call that is alone is bound by its agent.
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
