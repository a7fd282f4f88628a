package workflow

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/proof"
)

// decide returns what people have decided on a request so far.
func (a *Effects) decide(_ context.Context, _ flow.Call, q Request) (Answer, error) {
	if a.Decide == nil {
		return Answer{}, fmt.Errorf("nobody can be asked about %s", q.Path)
	}
	return a.Decide(q)
}

// CountDecisions returns what people decided about the step, or with "" about the plan, with this hash, by the lines of approvals.jsonl in
// dir that count and that later keeps; a nil later keeps all. Lines that were written by hand without a hash are bound to it now.
func CountDecisions(disk *durable.Disk, dir, step, hash string, approvers int, counts proof.Filter, now time.Time, later func([]proof.Approval) []proof.Approval) (v proof.ApprovalState, err error) {
	for bound := false; ; bound = true {
		list, err := counts.Read(dir)
		if err != nil {
			return v, err
		}
		counted := list
		if later != nil {
			counted = later(list)
		}
		if v = proof.Decide(counted, step, hash, approvers, now); len(v.Unbound) == 0 || bound {
			return v, nil
		}
		if _, err := proof.Bind(disk, dir, proof.OnlyListed(list, func(of string) string {
			if of != step {
				return "" // the step's own request binds it
			}
			return hash
		})); err != nil {
			return v, err
		}
	}
}

// FindDecision returns the answer to a request, which q.Approvers people have to approve; see [CountDecisions].
func FindDecision(disk *durable.Disk, dir string, q Request, counts proof.Filter, now time.Time) (Answer, error) {
	v, err := CountDecisions(disk, dir, q.Path, q.Hash, q.Approvers, counts, now, nil)
	if err != nil {
		return Answer{}, err
	}
	switch v.State {
	case proof.Approved:
		return Answer{State: Approved}, nil
	case proof.Rejected:
		return Answer{Rejected, fmt.Sprintf("rejected by %s: %s", strings.Join(v.By, ", "), v.Reason)}, nil
	}
	return Answer{State: Pending}, nil
}

// OpenRequests returns the requests of a run that nobody has answered yet.
func OpenRequests(h *journal.History) (list []Request, err error) {
	last := map[string]int{}
	for _, e := range h.Calls {
		if e.Activity != string(request) || !e.Done || e.Fail != nil {
			continue
		}
		var q Request
		var a Answer
		if err := json.Unmarshal(e.In, &q); err != nil {
			return nil, fmt.Errorf("reading %s: %w", e.ID, err)
		}
		if err := json.Unmarshal(e.Out, &a); err != nil {
			return nil, fmt.Errorf("reading %s: %w", e.ID, err)
		}
		i, asked := last[q.Path]
		switch {
		case a.State == Pending && !asked:
			last[q.Path] = len(list)
			list = append(list, q)
		case a.State != Pending && asked:
			list[i].Path = ""
			delete(last, q.Path)
		}
	}
	return slices.DeleteFunc(list, func(q Request) bool { return q.Path == "" }), nil
}

// ApprovedBy returns the names of those who approved a step of proof kind manual, from approvals.jsonl in dir.
func ApprovedBy(dir string, e Evidence, counts proof.Filter) (names []string, err error) {
	if e.Kind != "manual" {
		return nil, nil
	}
	list, err := counts.Read(dir)
	for _, a := range list {
		of := a.Step == e.Path || strings.HasPrefix(e.Path, a.Step+".") // e is a round of it
		if of && a.Decision == proof.Approve && strings.HasPrefix(a.Hash, e.StepHash) && !slices.Contains(names, a.By) {
			names = append(names, a.By)
		}
	}
	return names, err
}
