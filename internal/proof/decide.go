package proof

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// State is what the decisions about one thing add up to.
type State string

const (
	Pending  State = "pending"
	Approved State = "approved"
	Rejected State = "rejected"
)

// ApprovalState is the state of one step, or of the plan.
type ApprovalState struct {
	State   State
	By      []string   // who approved, each once, in order; of a rejection, who rejected
	Reason  string     // of a rejection, or of the approval that decided
	At      time.Time  // of the line that decided
	Missing int        // approvals that are still wanted
	Unbound []Approval // lines of this step without a hash: they count once Bind gave them one

	voters []string
}

// Decide says where the list of decisions leaves step ("" is the plan), whose content has that hash
// now. Only decisions on that content count, and none that has expired. The first of a rejection and the
// last approval wanted decides; what is written later changes nothing. approvers is how many different people must
// approve, at least one. A new request about the same content is decided by the part of list that
// came after it.
func Decide(list []Approval, step, hash string, approvers int, now time.Time) ApprovalState {
	v := ApprovalState{State: Pending, Missing: max(approvers, 1)}
	for _, a := range list {
		switch {
		case a.Step != step:
		case a.Hash == "":
			v.Unbound = append(v.Unbound, a)
		case a.Hash != hash || v.State != Pending || !a.ExpiresAt.IsZero() && !now.Before(a.ExpiresAt):
		case a.Decision == Reject:
			v.State, v.By, v.Reason, v.At = Rejected, []string{a.By}, a.Reason, a.At
		case a.Decision == Approve && !contains(v.voters, a.voter()):
			v.approve(a)
		}
	}
	return v
}

func (v *ApprovalState) approve(a Approval) {
	v.voters = append(v.voters, a.voter())
	if !contains(v.By, a.By) {
		v.By = append(v.By, a.By)
	}
	if v.Missing--; v.Missing == 0 {
		v.State, v.Reason, v.At = Approved, a.Reason, a.At
	}
}

// voter is who is counted: the key that signed it, or else the account that it was said with, whatever name was given.
func (a Approval) voter() string { return cmp.Or(a.Voter, a.Account, a.By) }

// contains compares names as people do: Ann and ann are one person.
func contains(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}
