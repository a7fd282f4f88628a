package status

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// StepProgress is the progress of an unfinished run through the steps of its plan. The zero value is a
// task of which no step was begun.
type StepProgress struct {
	At    string `json:"at"`    // path of the step at work, or of the one that waits
	Waits bool   `json:"waits"` // for people
	Done  int    `json:"done"`  // steps at the top of the plan that are done
	Of    int    `json:"of"`    // how many the run does, without those that verify at its end
}

// underway reads the progress of the run in a task directory. Errors are left for others to report.
func underway(dir string) (u StepProgress) {
	h, err := unfinishedRun(dir)
	if err != nil {
		return u
	}
	past, err := workflow.PastEvents(h)
	if err != nil || len(past) == 0 {
		return u
	}
	b, err := bundleOf(filepath.Join(dir, taskdir.Run), h)
	if err != nil {
		return u
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return u
	}
	u.At = currentStep(past)
	u.Done, u.Of = workflow.StepsFinished(b, workflow.Options{Verified: true, Grouped: true, Finished: p.Finished})
	return u
}

// unfinishedRun returns the history of an unfinished run of a plan's steps, an empty one if there is none.
func unfinishedRun(dir string) (*journal.History, error) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && (h.Flow != pipeline.Flow || h.Ended) {
		h = &journal.History{}
	}
	return h, err
}

// currentStep returns the innermost of the steps that began and have not ended.
func currentStep(past []workflow.Event) string {
	var open []string
	for _, e := range past {
		if e.Type == workflow.StepFinished {
			open = slices.DeleteFunc(open, func(path string) bool { return path == e.Step })
		} else {
			open = append(open, e.Step)
		}
	}
	if len(open) == 0 {
		return ""
	}
	return open[len(open)-1]
}

// bundleOf returns the plan that the last step of a run was begun with, in the copy that the run keeps.
func bundleOf(run string, h *journal.History) (*plan.Bundle, error) {
	var hash string
	for _, c := range h.Calls {
		if about := stepInfo(c); about.Bundle != "" {
			hash = about.Bundle
		}
	}
	return plan.OpenBundle(filepath.Join(run, "inputs", hash), hash)
}

// stepInfo returns what the input of an activity, a call of an agent or another, says about the step that it is for.
func stepInfo(c journal.Entry) workflow.PromptData {
	var in struct {
		workflow.PromptData
		Data workflow.PromptData
	}
	switch {
	case json.Unmarshal(c.In, &in) != nil:
		return workflow.PromptData{}
	case in.Data.Bundle != "":
		return in.Data
	}
	return in.PromptData
}

// PendingRequest returns the step for which the task in a directory waits for people, nil if it does not.
func PendingRequest(dir string, now time.Time) *workflow.Request {
	if q, _ := pendingApproval(dir, now); q != nil {
		return &q.Request
	}
	return nil
}

// request is a request to people, with what they said to it so far.
type request struct {
	workflow.Request
	approvals proof.ApprovalState
}

// pendingApproval returns the step whose approval a run waits for, nil if all are decided. asked reports
// whether there was a request.
func pendingApproval(dir string, now time.Time) (q *request, asked bool) {
	h, err := unfinishedRun(dir)
	if err != nil {
		return nil, false
	}
	open, err := workflow.OpenRequests(h)
	if err != nil {
		return nil, false
	}
	said, _, err := proof.Read(dir)
	if err != nil {
		return nil, false
	}
	if left := undecidedRequests(open, said, now); len(left) > 0 {
		return &left[0], true
	}
	return nil, len(open) > 0
}

// undecidedRequests returns the requests of a run that people have not decided yet. The run itself goes on with the others.
func undecidedRequests(open []workflow.Request, said []proof.Approval, now time.Time) (left []request) {
	for _, q := range open {
		if v := proof.Decide(said, q.Path, q.Hash, q.Approvers, now); v.State == proof.Pending && len(v.Unbound) == 0 {
			left = append(left, request{q, v})
		}
	}
	return left
}
