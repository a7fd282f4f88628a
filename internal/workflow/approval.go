package workflow

import (
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Answer is what people have decided on a request so far.
type Answer struct {
	State string `json:"state"` // approved, rejected, pending
	Why   string `json:"why,omitempty"`
}

// States of an Answer.
const (
	Approved = "approved"
	Rejected = "rejected"
	Pending  = "pending"
)

// request returns what people have decided.
const request flow.Act[Request, Answer] = Deciding

// Deciding is the name of the activity that checks what people decided about a step.
const Deciding = "request"

// Signal returns the name of the signal that somebody decided something about the step with this path.
func Signal(path string) string { return "approval-" + path }

// AwaitApproval waits until people approve a step. beforeWait and afterWait, which may be nil, are called before and after a wait. If
// the step is rejected, the error is a *flow.Failure approval_rejected.
func AwaitApproval(f flow.Flow, q Request, beforeWait, afterWait func(flow.Flow) error) error {
	for waited := false; ; waited = true {
		a, err := request.Do(f, q)
		switch {
		case err != nil:
			return err
		case a.State == Approved && waited && afterWait != nil:
			return afterWait(f)
		case a.State == Approved:
			return nil
		case a.State == Rejected:
			return flow.Fail(string(trellis.ApprovalRejected), "%s", a.Why)
		}
		if beforeWait != nil {
			if err := beforeWait(f); err != nil {
				return err
			}
		}
		if _, err := f.Await(Signal(q.Path), flow.Forever, nil); err != nil {
			return err
		}
	}
}
