package agents

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// errHung is the cause for ending a program that does not exit after its result.
var errHung = errors.New("the program continued after its result")

// watchdog ends a run that takes too long, falls silent, uses too much, or does not exit after its result.
type watchdog struct {
	limits  Limits
	onUsage func(trellis.Usage) *flow.Failure // see Request.Spent
	grace   time.Duration
	end     context.CancelCauseFunc

	mu        sync.Mutex
	wall      *time.Timer
	idle      *time.Timer
	exitTimer *time.Timer
}

func newWatchdog(r Request, grace time.Duration, end context.CancelCauseFunc) *watchdog {
	limits := r.Limits
	w := &watchdog{limits: limits, onUsage: r.Spent, grace: grace, end: end}
	if limits.Wall > 0 {
		w.wall = time.AfterFunc(limits.Wall, func() {
			end(fail(trellis.TimeoutWall, "the agent took longer than %s", limits.Wall))
		})
	}
	if limits.Idle > 0 {
		w.idle = time.AfterFunc(limits.Idle, func() {
			end(fail(trellis.TimeoutIdle, "the agent sent no event for %s", limits.Idle))
		})
	}
	return w
}

// restartIdle restarts the idle timer. It is called for every event.
func (w *watchdog) restartIdle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle != nil && w.exitTimer == nil {
		w.idle.Reset(w.limits.Idle)
	}
}

// expectExit starts the grace period in which a program has to exit after its result.
func (w *watchdog) expectExit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.idle != nil {
		w.idle.Stop()
	}
	w.exitTimer = time.AfterFunc(w.grace, func() { w.end(errHung) })
}

// cancelExit stops the timer that expectExit started: the program works on after its result.
func (w *watchdog) cancelExit() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.exitTimer != nil {
		w.exitTimer.Stop()
		w.exitTimer = nil
	}
	if w.idle != nil {
		w.idle.Reset(w.limits.Idle)
	}
}

// budgetFailure returns the failure with which a run that has used u must end, and nil if it may go on.
func (w *watchdog) budgetFailure(u trellis.Usage) (f *flow.Failure) {
	if w.onUsage != nil {
		f = w.onUsage(u)
	}
	if own := limitFailure(w.limits, u); own != nil {
		return own // preferred, since the next day does not lift it as it lifts a day's budget
	}
	return f
}

// limitFailure returns the failure of a run that used u, or nil if u is within the limits.
func limitFailure(l Limits, u trellis.Usage) *flow.Failure {
	switch {
	case l.Tokens > 0 && u.Tokens() > l.Tokens:
		return fail(trellis.BudgetTokens, "%d tokens used of %d", u.Tokens(), l.Tokens)
	case l.CostUSD > 0 && u.CostUSD != nil && *u.CostUSD > l.CostUSD:
		return fail(trellis.BudgetCost, "$%.2f spent of $%.2f", *u.CostUSD, l.CostUSD)
	}
	return nil
}

func (w *watchdog) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, t := range []*time.Timer{w.wall, w.idle, w.exitTimer} {
		if t != nil {
			t.Stop()
		}
	}
}
