package pipeline

import (
	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// React is what checks or reviewers of a pull request found wrong with delivered work: the rounds begin with fixing it.
type React struct {
	Code    trellis.Code  `json:"code"`           // ci_failed or changes_requested
	Detail  string        `json:"detail"`         // short description
	Text    agentcall.Ref `json:"text"`           // what they wrote
	Head    string        `json:"head"`           // the commit that it is about. Others have seen that commit: it is never amended
	Base    string        `json:"base,omitempty"` // base of that commit; Stacked is the task on whose branch Base is
	Stacked string        `json:"stacked_on,omitempty"`
	// Session is the session of the Agent who last worked on it, to be continued.
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
}

// Reactions are what the runs of a task reacted to.
type Reactions struct {
	Seen   []string `json:"seen,omitempty"`   // names of what was reacted to
	Rounds int      `json:"rounds,omitempty"` // number of rounds that took
}

// trouble returns what the first round begins with, nil if r is nil.
func (r *React) trouble() *trouble {
	if r == nil {
		return nil
	}
	return &trouble{Code: r.Code, Detail: r.Detail, Output: r.Text}
}

// seenCommit returns the commit that others have seen, pushed or in review, "" if there is none.
func (in Input) seenCommit() string {
	switch was := in.Undelivered; {
	case in.React != nil:
		return in.React.Head
	case was != nil && (was.Delivery.Pushed || in.Feedback != nil):
		return was.Commit
	}
	return ""
}

// reportSeenCommit makes report and task.json describe the commit that others have seen, whatever came after it.
func (r *run) reportSeenCommit() {
	r.rep.Commit = r.in.seenCommit()
	base, on := "", ""
	if was := r.in.React; was != nil {
		base, on = was.Base, was.Stacked
	} else {
		base, on, r.rep.Delivery = r.in.Undelivered.Base, r.in.Undelivered.Stacked, r.in.Undelivered.Delivery
	}
	if base != "" {
		r.rep.Base, r.rep.Stacked, r.job.BaseCommit, r.job.StackedOn = base, on, base, on
	}
}

// endInReview ends a run that did not fix what was found wrong with delivered work, or did not bring it up to its base: the
// delivered work stays as it is.
func (r *run) endInReview(f flow.Flow, fail *flow.Failure) error {
	what := "the work stays as it was pushed: "
	switch {
	case r.in.Feedback != nil:
		what = "the work stays in review as it was: "
	case r.in.React != nil:
		what = "what was wrong with the pull request is not fixed (" + r.in.React.Detail + "): "
	}
	code := trellis.Code(fail.Code)
	if code != trellis.PushFailed && code != trellis.PRFailed { // else there is a newer commit that was verified
		r.reportSeenCommit()
	}
	fail.Detail = what + fail.Detail
	return r.end(f, trellis.Review, trellis.Delivered, fail)
}
