package pipeline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// WaitOf returns what a run waits for in an entry of its journal, nil if the entry is not a wait.
func WaitOf(h *journal.History, c journal.Entry) *events.Wait {
	signal, awaits := strings.CutPrefix(c.Activity, "await:")
	switch {
	case c.Activity != "sleep" && !awaits:
		return nil
	case awaits && signal != agentcall.BudgetRaised:
		return &events.Wait{For: "approval"}
	}
	w := &events.Wait{For: "time"}
	if awaits {
		w.For = "budget"
	}
	var limit time.Duration
	if json.Unmarshal(c.In, &limit) == nil && limit > 0 {
		w.Until = c.Started.Add(limit)
	}
	calls := h.Calls
	if i := slices.IndexFunc(calls, func(e journal.Entry) bool { return e.ID == c.ID }); i >= 0 {
		calls = calls[:i]
	}
	setWaitReason(w, h, calls)
	return w
}

// setWaitReason sets the reason of a wait, if the last agent call before it failed.
func setWaitReason(w *events.Wait, h *journal.History, calls []journal.Entry) {
	last := len(calls) - 1
	for last >= 0 && !slices.Contains(trellis.Roles, trellis.Role(calls[last].Activity)) {
		last--
	}
	if last < 0 {
		return
	}
	fail := failureOf(calls[last])
	if fail == nil {
		return
	}
	switch w.Why = fail.Error(); {
	case fail.Code == string(trellis.RateLimited):
		w.For = "rate_limit"
	case fail.Code == string(trellis.ProviderDown):
		w.For = "provider"
	case fail.Retryable:
		w.For, w.Why = "backoff", events.CrashText(trellis.Code(fail.Code), fail.Detail)
		w.Attempt, w.Of = nextAttempt(h, calls[:last+1])
	}
}

// nextAttempt returns the number of the attempt after the last call, which failed, and the number of attempts, 0 if unknown.
func nextAttempt(h *journal.History, calls []journal.Entry) (n, of int) {
	attempt := func(c journal.Entry) int {
		var r agentcall.Request
		_ = json.Unmarshal(c.In, &r) // a request without a number is a first attempt
		return max(1, r.Attempt)
	}
	last := calls[len(calls)-1]
	n = attempt(last)
	for _, c := range calls {
		if c.Activity == last.Activity && attempt(c) == attempt(last) {
			if fail := failureOf(c); fail != nil && fail.Retryable && fail.Code != string(trellis.RateLimited) && fail.Code != string(trellis.ProviderDown) {
				n++
			}
		}
	}
	p, err := ReadProgress(h)
	if err != nil {
		return n, 0
	}
	return n, p.Claimed.Limits.Attempts * (1 + p.Retries)
}

// failureOf returns how a call of an agent failed, nil if it did not.
func failureOf(c journal.Entry) *flow.Failure {
	var reply agentcall.Reply
	if json.Unmarshal(c.Out, &reply) != nil {
		return nil
	}
	return reply.Failure
}

// OutcomeOf returns the outcome of a run that has ended, by its journal.
func OutcomeOf(h *journal.History) events.Outcome {
	p, err := ReadProgress(h)
	if err != nil {
		return events.Outcome{Seconds: h.EndedAt.Sub(h.Started()).Seconds()}
	}
	s := p.State
	o := events.Outcome{Status: s.Status, Outcome: s.Outcome, Usage: s.Usage, Rounds: s.Round, Seconds: h.EndedAt.Sub(h.Started()).Seconds(), Commit: s.Commit}
	if r := p.Report; r != nil {
		o.Branch, o.Worktree, o.Stat, o.Criteria = r.Branch, r.Worktree, r.Checks.Stat, len(r.Criteria)
		for _, c := range r.Criteria {
			if c.Verdict == "met" {
				o.Met++
			}
		}
	}
	return o
}

// Wait returns what the run with this state in task.json waits for, nil if it does not wait.
func (s TaskState) Wait() *events.Wait {
	if s.Status != trellis.Waiting && s.Status != trellis.Paused {
		return nil
	}
	w := &events.Wait{For: "approval", Why: s.Why(), Until: s.ResumeAt}
	if s.Failure == nil {
		return w
	}
	w.For = cmp.Or(waitKinds[trellis.Code(s.Failure.Code)], "time")
	return w
}

// waitKinds is what a run waits for after a failure with a code. After any other failure it waits for some time.
var waitKinds = map[trellis.Code]string{trellis.RateLimited: "rate_limit", trellis.ProviderDown: "provider", trellis.Interrupted: "person",
	trellis.BudgetTokens: "budget", trellis.BudgetCost: "budget", trellis.BudgetTime: "budget"}
