package proof

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// State is the result of all decisions about one subject.
type State string

const (
	Pending  State = "pending"
	Approved State = "approved"
	Rejected State = "rejected"
)

// ApprovalState is the state of one step, or of the plan.
type ApprovalState struct {
	State   State
	By      []string   // the people who approved, each once, in order; after a rejection, who rejected
	Reason  string     // reason of the rejection, or of the decisive approval
	At      time.Time  // time of the decisive line
	Missing int        // number of approvals still needed
	Unbound []Approval // lines of this step without a hash: they count after Bind has added one

	voters []string
}

// Decide returns the state of step ("" means the plan), whose current content has the given hash. Only decisions about that
// content count, unless they have expired. The first rejection or the last needed approval decides, whichever comes first; later
// lines change nothing. approvers is the number of different people who must approve, at least one. For a new request about the
// same content, pass the part of the list that came after the request.
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
		case a.Decision == Approve && !containsFold(v.voters, a.voter()):
			v.approve(a)
		}
	}
	return v
}

func (v *ApprovalState) approve(a Approval) {
	v.voters = append(v.voters, a.voter())
	if !containsFold(v.By, a.By) {
		v.By = append(v.By, a.By)
	}
	if v.Missing--; v.Missing == 0 {
		v.State, v.Reason, v.At = Approved, a.Reason, a.At
	}
}

// voter returns who is counted: the name of the signing key, if a Filter has set it, else the account, else the name in By.
func (a Approval) voter() string { return cmp.Or(a.Voter, a.Account, a.By) }

// containsFold reports whether list has name. It ignores case: Ann and ann are one person.
func containsFold(list []string, name string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.EqualFold(s, name) })
}
