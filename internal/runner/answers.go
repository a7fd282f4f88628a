package runner

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Approvals are what people say to plans and steps.
type Approvals struct{ *Site }

// Approvals works on s.
func (s *Site) Approvals() Approvals { return Approvals{s} }

// asks reports whether a run that is under way asked people about a step, and says about which as long as they have
// not decided. Whether they agreed to its plan is not asked then.
func (s Approvals) asks(dir string, h *journal.History) (asked bool, why string, err error) {
	if !underWay(h) {
		return false, "", nil
	}
	open, err := workflow.Open(h)
	if err != nil {
		return false, "", err
	}
	for _, q := range open {
		said, err := workflow.Decision(s.Disk, dir, q, s.counts(), s.Clock())
		if err != nil || said.State == workflow.Pending {
			return true, fmt.Sprintf("approval of the step %s: trellis approve %s --step %s", q.Path, filepath.Base(dir), q.Path), err
		}
	}
	return len(open) > 0, "", nil
}

// underWay reports whether there is a run of the task that has not ended.
func underWay(h *journal.History) bool {
	return h != nil && h.Run != "" && h.Flow == pipeline.Flow && !h.Ended
}

// agreement is what people say to the plan of a task as it is on disk now. h is its journal, nil without one.
func (s Approvals) agreement(t *taskdir.Task, h *journal.History) (g pipeline.Agreement, err error) {
	var claimed pipeline.Job
	if underWay(h) {
		p, err := pipeline.ReadProgress(h)
		if err != nil {
			return g, err
		}
		claimed = p.Claimed()
	}
	return pipeline.Agreements{Disk: s.Disk, Config: s.Config, Store: s.Store, Counts: s.counts(), Now: s.Clock}.Of(t, claimed)
}

// approval says what people still have to agree to, "" when there is nothing. A run that they said no to ends itself.
func (s Approvals) approval(t *taskdir.Task, h *journal.History) (string, error) {
	g, err := s.agreement(t, h)
	if err != nil || g.State == proof.Approved || g.State == proof.Rejected && underWay(h) {
		return "", err
	}
	what := "approval of the plan"
	if len(g.Changed) > 0 {
		what = pipeline.AskedAbout(g.Changed)
	}
	if len(g.Protected) > 0 && len(g.Changed) > 0 {
		what += " and of the plan"
	}
	if len(g.Protected) > 0 {
		what += ", which changes what is protected (" + strings.Join(g.Protected, ", ") + ")"
	}
	return what + ": trellis approve " + t.ID, nil
}

// answers are messages to those waits of a run that what is on disk answers, each named by its wait: however often
// people are asked the same, and say the same, every time they are asked is answered.
func (s Approvals) answers(dir string, j *journal.Run) (list []journal.Message) {
	var h *journal.History
	for _, w := range j.Waits() {
		signal, ok := strings.CutPrefix(w.Activity, "await:"+pipeline.Approval)
		if !ok {
			continue
		}
		if h == nil {
			h = j.History()
		}
		a, err := s.answer(dir, h, pipeline.Approval+signal)
		if err != nil || a.State == workflow.Pending {
			continue // looked at again
		}
		if data, err := json.Marshal(a); err == nil {
			list = append(list, journal.Message{ID: w.ID, Signal: pipeline.Approval + signal, Data: data})
		}
	}
	return list
}

// answer is what people said to what a run waits for with a signal.
func (s Approvals) answer(dir string, h *journal.History, signal string) (workflow.Answer, error) {
	if signal == pipeline.Approval {
		return s.planAnswer(dir, h)
	}
	open, err := workflow.Open(h)
	if err != nil {
		return workflow.Answer{}, err
	}
	for _, q := range open {
		if workflow.Signal(q.Path) == signal {
			return workflow.Decision(s.Disk, dir, q, s.counts(), s.Clock())
		}
	}
	return workflow.Answer{State: workflow.Pending}, nil
}

func (s Approvals) planAnswer(dir string, h *journal.History) (workflow.Answer, error) {
	t, err := s.Store.Load(dir)
	if err != nil {
		return workflow.Answer{}, err
	}
	g, err := s.agreement(t, h)
	switch {
	case err != nil:
		return workflow.Answer{}, err
	case g.State == proof.Rejected:
		return workflow.Answer{State: workflow.Rejected, Why: g.No()}, nil
	case g.State == proof.Approved:
		return workflow.Answer{State: workflow.Approved}, nil
	}
	return workflow.Answer{State: workflow.Pending}, nil
}
