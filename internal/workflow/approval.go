package workflow

import (
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Answer is what people said to a request so far.
type Answer struct {
	State string `json:"state"` // approved, rejected, pending
	Why   string `json:"why,omitempty"`
}

// What people said.
const (
	Approved = "approved"
	Rejected = "rejected"
	Pending  = "pending"
)

// request looks what people said.
const request flow.Act[Request, Answer] = Deciding

// Deciding is the activity that looks what people said to a step.
const Deciding = "request"

// Signal is the name of the signal that somebody said something about a step, by its path.
func Signal(path string) string { return "approval-" + path }

// Consent waits until people agree to a step. parked and awake, which may be nil, are called before and after a
// wait. A no is a *flow.Failure approval_rejected.
func Consent(f flow.Flow, q Request, parked, awake func(flow.Flow) error) error {
	for waited := false; ; waited = true {
		a, err := request.Do(f, q)
		switch {
		case err != nil:
			return err
		case a.State == Approved && waited && awake != nil:
			return awake(f)
		case a.State == Approved:
			return nil
		case a.State == Rejected:
			return flow.Fail(string(trellis.ApprovalRejected), "%s", a.Why)
		}
		if parked != nil {
			if err := parked(f); err != nil {
				return err
			}
		}
		if _, err := f.Await(Signal(q.Path), flow.Forever, nil); err != nil {
			return err
		}
	}
}
