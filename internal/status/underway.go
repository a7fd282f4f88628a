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

// Underway is how far a run that is not over has come with the steps of its plan. The zero value is a task of which
// no step was begun.
type Underway struct {
	At    string `json:"at"`    // path of the step at work, or of the one that waits
	Waits bool   `json:"waits"` // for people
	Done  int    `json:"done"`  // steps at the top of the plan
	Of    int    `json:"of"`    // that the run does; those that verify come at its end
}

// underway looks where the run in a task directory stands. What can't be read is for others to say.
func underway(dir string) (u Underway) {
	h, err := runOf(dir)
	if err != nil {
		return u
	}
	past, err := workflow.Past(h)
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
	u.At = at(past)
	u.Done, u.Of = workflow.Far(b, workflow.Options{Verified: true, Grouped: true, Finished: p.Finished})
	return u
}

// runOf is the history of a run of a plan's steps that is not over, an empty one when there is none.
func runOf(dir string) (*journal.History, error) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && (h.Flow != pipeline.Flow || h.Ended) {
		h = &journal.History{}
	}
	return h, err
}

// at is the innermost of the steps that began and have not ended.
func at(past []workflow.Event) string {
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

// bundleOf is the plan that the last step of a run was begun with, as the run froze it.
func bundleOf(run string, h *journal.History) (*plan.Bundle, error) {
	var hash string
	for _, c := range h.Calls {
		if about := aboutStep(c); about.Bundle != "" {
			hash = about.Bundle
		}
	}
	return plan.OpenBundle(filepath.Join(run, "inputs", hash), hash)
}

// aboutStep is what the input of an activity says of the step that it is for: of an agent's call, or of another.
func aboutStep(c journal.Entry) workflow.About {
	var in struct {
		workflow.About
		Data workflow.About
	}
	switch {
	case json.Unmarshal(c.In, &in) != nil:
		return workflow.About{}
	case in.Data.Bundle != "":
		return in.Data
	}
	return in.About
}

// Asked is the step that the task in a directory waits for people with, nil when it does not.
func Asked(dir string, now time.Time) *workflow.Request {
	if q, _ := asking(dir, now); q != nil {
		return &q.Request
	}
	return nil
}

// request is one to people, with what they said to it so far.
type request struct {
	workflow.Request
	said proof.ApprovalState
}

// asking is the step whose approval a run waits for, nil when there is none that is not decided yet. asked reports
// whether there was one.
func asking(dir string, now time.Time) (q *request, asked bool) {
	h, err := runOf(dir)
	if err != nil {
		return nil, false
	}
	open, err := workflow.Open(h)
	if err != nil {
		return nil, false
	}
	said, _, err := proof.Read(dir)
	if err != nil {
		return nil, false
	}
	if left := undecided(open, said, now); len(left) > 0 {
		return &left[0], true
	}
	return nil, len(open) > 0
}

// undecided are those of a run's requests to which people have not said yet what is needed. The others are for the run to go on with.
func undecided(open []workflow.Request, said []proof.Approval, now time.Time) (left []request) {
	for _, q := range open {
		if v := proof.Decide(said, q.Path, q.Hash, q.Approvers, now); v.State == proof.Pending && len(v.Unbound) == 0 {
			left = append(left, request{q, v})
		}
	}
	return left
}
