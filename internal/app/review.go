package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Review returns what a person reads before approving the plan of a task. Pass its hash to [Orders.Approve] as
// [Decision.Shown], so that nothing else is approved.
func (p *Project) Review(ctx context.Context, dir string) (status.Review, error) {
	cfg, _ := p.Config() // settings that can't be read hide no plan
	r, err := status.ReadReview(p.Store, dir, cfg)
	if err != nil {
		return r, err
	}
	r.Estimate.Likely = Forecast(ctx, p, dir)
	problems, err := ready.Check(ctx, p.Readiness(dir))
	if err != nil {
		return r, err
	}
	r.Problems = append(r.Problems, problems...)
	_, _ = p.Gate.Judge() // loads the keys whose decisions count
	approvals := p.Wire(ctx, cfg, p).Approvals()
	if !slices.Contains([]trellis.Status{trellis.Planning, trellis.Rejected, trellis.Ready, trellis.Waiting}, r.Status) {
		if agreed, err := approvals.Approved(dir); err == nil && agreed.State == proof.Approved { // read errors are reported where approvals decide
			r.Approved = approvedBy(agreed)
		}
	}
	if r.Status != trellis.Waiting && r.Status != trellis.Ready && r.Status != trellis.InProgress {
		return r, nil
	}
	g, err := approvals.Agreement(dir)
	if err != nil {
		return r, err
	}
	r.Asked, r.Approvers = g.State == proof.Pending, g.Approvers
	if g.State == proof.Rejected {
		r.Rejected = g.RejectionReason()
	} else {
		r.Agreed = append(r.Agreed, g.By...)
	}
	if r.Estimate.Size == trellis.Large {
		r.Why = append(r.Why, "the work is large")
	}
	if r.Judge != nil && !r.Judge.Pass {
		r.Why = append(r.Why, "the judge is not satisfied: "+r.Judge.Feedback)
	}
	if len(g.Protected) > 0 {
		r.Why = append(r.Why, "it changes what is protected: "+strings.Join(g.Protected, ", "))
	}
	if len(g.Changed) > 0 {
		r.Why = append(r.Why, "what judges the work was changed while agents were at work: "+strings.Join(g.Changed, ", "))
	}
	if g.Required == config.EveryPlan || g.Required != "" && len(r.Why) == 0 { // the planner notes in task.json that it has a reason
		r.Why = append(r.Why, g.Required)
	}
	if g.Approvers > 1 {
		r.Why = append(r.Why, fmt.Sprintf("%d people have to approve", g.Approvers))
	}
	return r, nil
}

func approvedBy(agreed proof.ApprovalState) string {
	text := "was approved by " + strings.Join(agreed.By, ", ")
	if !agreed.At.IsZero() {
		text += " at " + agreed.At.UTC().Format(time.RFC3339)
	}
	return text
}

// maxFeedback is the maximum size of a person's feedback on a plan, in bytes: it is part of the planning's record.
const maxFeedback = 16 << 10

// CheckFeedback returns an error for feedback on a plan that can't be recorded. from is where the person gave it.
func CheckFeedback(from, text string) error {
	if len(text) > maxFeedback {
		return Usagef("%s is %d bytes long, at most %d are taken: put more into --requirement-file", from, len(text), maxFeedback)
	}
	return CheckText(from, text)
}

// CheckText returns an error if a person's text is not valid UTF-8 or holds a NUL byte.
func CheckText(from, text string) error {
	switch {
	case !utf8.ValidString(text):
		return Usagef("%s is not valid UTF-8", from)
	case strings.ContainsRune(text, 0):
		return Usagef("%s holds a NUL byte", from)
	}
	return nil
}
