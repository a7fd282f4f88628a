package pipeline

import (
	"fmt"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Agreement is whose yes a plan needs as everything is on disk now, and what people said to it. A plan that needs
// nobody's is approved.
type Agreement struct {
	proof.ApprovalState
	Approvers int      // 0: nobody is asked
	Required  string   // why, whatever the plan changes; "": for what it changes
	Protected []string // what the plan changes although it is protected
	Changed   []string // in words, what was changed of what judges the work while agents were at work
	Hash      string   // of what was decided on, or is to be
}

// ApprovalJudge judges whether people agreed to a plan: for a run, and for who decides whether that is to go on. There is
// no other judge of it, so that the two can't differ.
type ApprovalJudge struct {
	Disk   *durable.Disk
	Config *config.Config
	Store  taskdir.Store
	Counts proof.Filter
	Now    func() time.Time
}

// Of judges the plan of a task as it lies in its directory. j is what its run claimed, zero without a run.
func (a ApprovalJudge) Of(t *taskdir.Task, j Job) (Agreement, error) {
	p, err := ReadPlan(a.Store, t.Dir)
	if err != nil {
		return Agreement{}, err
	}
	return a.of(t, p, j, false)
}

// ofRun judges the plan p of a task whose run is under way. A no ends the run.
func (a ApprovalJudge) ofRun(t *taskdir.Task, p *plan.Plan, j Job, claimed bool) (Agreement, error) {
	g, err := a.of(t, p, j, claimed)
	if err == nil && g.State == proof.Rejected {
		err = flow.Fail(string(trellis.ApprovalRejected), "%s", g.No())
	}
	return g, err
}

// of judges the plan p, nil for none. With claimed, a yes that was required at the claim still is.
func (a ApprovalJudge) of(t *taskdir.Task, p *plan.Plan, j Job, claimed bool) (g Agreement, err error) {
	g, said, err := a.asked(t, p, j, claimed)
	if err != nil {
		return g, err
	}
	bases := []string{t.BaseBranch}
	if j.BaseUnset && t.BaseBranch == j.BaseBranch {
		bases = append(bases, "") // the claim wrote it; what people agreed to before did not name it
	}
	for _, base := range bases {
		named := *t
		named.BaseBranch = base
		if g.Hash, err = taskdir.PlanHash(t.Dir, &named); err != nil {
			return g, err
		}
		if g.Approvers == 0 {
			g.State = proof.Approved
			return g, nil
		}
		later := func(list []proof.Approval) []proof.Approval { return since(list, said) }
		if g.ApprovalState, err = workflow.Decide(a.Disk, t.Dir, "", g.Hash, g.Approvers, a.Counts, a.Now(), later); err != nil || g.State != proof.Pending {
			return g, err
		}
	}
	return g, nil
}

// asked is how many people are asked, and why. said are decisions that don't count any more.
func (a ApprovalJudge) asked(t *taskdir.Task, p *plan.Plan, j Job, claimed bool) (g Agreement, said []string, err error) {
	g.Protected = guarded(p, append(protected(a.Config, t), j.Protected...))
	u, err := ReadUnconfirmed(t.Dir)
	if err != nil {
		return g, said, err
	}
	if g.Changed = u.Changes(a.Store, t.Dir); len(g.Changed) > 0 {
		said = u.Said
	}
	g.Required = required(a.Config, t, p)
	if g.Required != "" || len(g.Protected)+len(g.Changed) > 0 || claimed && j.Approval > 0 {
		g.Approvers = Approvers(a.Config, t)
	}
	return g, said, nil
}

// AsksNobody reports whether the plan of a task as it lies in its directory needs nobody's yes. It looks for none.
func (a ApprovalJudge) AsksNobody(t *taskdir.Task) (bool, error) {
	p, err := ReadPlan(a.Store, t.Dir)
	if err != nil {
		return false, err
	}
	g, _, err := a.asked(t, p, Job{}, false)
	return g.Approvers == 0, err
}

// required says why a plan needs a yes whatever it changes, "" when it does not: the settings may want one of every plan, whoever
// wrote it, or the task.
func required(cfg *config.Config, t *taskdir.Task, p *plan.Plan) string {
	switch {
	case p != nil && cfg.Planning.Approval == "plan":
		return config.EveryPlan
	case t.Pipeline.Approval.Required:
		return "pipeline.approval.required of task.json wants a person's approval"
	}
	return ""
}

// No is why a plan that was rejected is, in words.
func (g Agreement) No() string {
	return fmt.Sprintf("rejected by %s: %s", strings.Join(g.By, ", "), g.Reason)
}

// Approvers is how many people have to agree to the plan of a task that needs a yes: as many as the project wants,
// or the task, when that is more.
func Approvers(cfg *config.Config, t *taskdir.Task) int {
	return max(1, cfg.Planning.Approvers, t.Pipeline.Approval.Approvers)
}

// Approval is the signal that the plan needs nobody's yes any more, or has a no.
const Approval = "approval"

// awaitApproval waits for people's yes to the plan. That it was required at the claim is written back to task.json, for them
// alone to take away.
func (r *run) awaitApproval(f flow.Flow) error {
	s := r.taskState(trellis.Waiting)
	s.Asks = r.job.Approval > 0
	if _, err := writeStatus.Do(f, s); err != nil {
		return err
	}
	_, err := f.Await(Approval, flow.Forever, nil)
	return err
}
