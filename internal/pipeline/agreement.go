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

// Agreement says whose approval a plan needs, as all files are on disk now, and what people decided. A plan that needs no approval
// is approved.
type Agreement struct {
	proof.ApprovalState
	Approvers int      // number of people who have to approve; 0: nobody is asked
	Required  string   // why approval is needed, whatever the plan changes; "": only for what it changes
	Protected []string // protected paths that the plan changes
	Changed   []string // in words, changes to the standards of the work that were made while agents were at work
	Hash      string   // of what was decided on, or has to be
}

// ApprovalJudge decides whether people approved a plan, both for the run and for whoever decides whether the run may continue. No
// other code does so, so that the two can't disagree.
type ApprovalJudge struct {
	Disk   *durable.Disk
	Config *config.Config
	Store  taskdir.Store
	Counts proof.Filter
	Now    func() time.Time
}

// Judge judges the plan that is in a task's directory now. j is what its run claimed, zero without a run.
func (a ApprovalJudge) Judge(t *taskdir.Task, j Job) (Agreement, error) {
	p, err := ReadPlan(a.Store, t.Dir)
	if err != nil {
		return Agreement{}, err
	}
	return a.judge(t, p, j, false)
}

// judgeRun judges the plan p of a task that is being run. It returns a failure if the plan was rejected.
func (a ApprovalJudge) judgeRun(t *taskdir.Task, p *plan.Plan, j Job, claimed bool) (Agreement, error) {
	g, err := a.judge(t, p, j, claimed)
	if err == nil && g.State == proof.Rejected {
		err = flow.Fail(string(trellis.ApprovalRejected), "%s", g.RejectionReason())
	}
	return g, err
}

// judge judges the plan p, which may be nil. With claimed, an approval that was required at the claim still is.
func (a ApprovalJudge) judge(t *taskdir.Task, p *plan.Plan, j Job, claimed bool) (g Agreement, err error) {
	g, oldDecisions, err := a.requirements(t, p, j, claimed)
	if err != nil {
		return g, err
	}
	bases := []string{t.BaseBranch}
	if j.BaseUnset && t.BaseBranch == j.BaseBranch {
		bases = append(bases, "") // the claim wrote the base branch; an approval from before did not include it
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
		later := func(list []proof.Approval) []proof.Approval { return decisionsSince(list, oldDecisions) }
		if g.ApprovalState, err = workflow.CountDecisions(a.Disk, t.Dir, "", g.Hash, g.Approvers, a.Counts, a.Now(), later); err != nil || g.State != proof.Pending {
			return g, err
		}
	}
	return g, nil
}

// requirements returns how many people are asked, and why. oldDecisions no longer count.
func (a ApprovalJudge) requirements(t *taskdir.Task, p *plan.Plan, j Job, claimed bool) (g Agreement, oldDecisions []string, err error) {
	g.Protected = plannedProtected(p, append(protectedGlobs(a.Config, t), j.Protected...))
	u, err := ReadUnconfirmed(t.Dir)
	if err != nil {
		return g, oldDecisions, err
	}
	if g.Changed = u.Changes(a.Store, t.Dir); len(g.Changed) > 0 {
		oldDecisions = u.Said
	}
	g.Required = approvalReason(a.Config, t, p)
	if g.Required != "" || len(g.Protected)+len(g.Changed) > 0 || claimed && j.Approval > 0 {
		g.Approvers = Approvers(a.Config, t)
	}
	return g, oldDecisions, nil
}

// NeedsNoApproval reports whether the plan in a task's directory needs no approval. It does not look for one.
func (a ApprovalJudge) NeedsNoApproval(t *taskdir.Task) (bool, error) {
	p, err := ReadPlan(a.Store, t.Dir)
	if err != nil {
		return false, err
	}
	g, _, err := a.requirements(t, p, Job{}, false)
	return g.Approvers == 0, err
}

// approvalReason returns why a plan needs approval whatever it changes, "" if it does not: the settings may require approval of
// every plan, whoever wrote it, or the task may.
func approvalReason(cfg *config.Config, t *taskdir.Task, p *plan.Plan) string {
	switch {
	case p != nil && cfg.Planning.Approval == "plan":
		return config.EveryPlan
	case t.Pipeline.Approval.Required:
		return "pipeline.approval.required of task.json wants a person's approval"
	}
	return ""
}

// RejectionReason returns why a rejected plan was rejected, in words.
func (g Agreement) RejectionReason() string {
	return fmt.Sprintf("rejected by %s: %s", strings.Join(g.By, ", "), g.Reason)
}

// Approvers returns how many people have to approve the plan of a task that needs approval: the number that the project wants, or
// that of the task if it is larger.
func Approvers(cfg *config.Config, t *taskdir.Task) int {
	return max(1, cfg.Planning.Approvers, t.Pipeline.Approval.Approvers)
}

// Approval is the name of the signal that a waiting run gets when its plan needs no approval any more, or was rejected.
const Approval = "approval"

// awaitApproval waits for the signal Approval; its caller judges the plan again. An approval that was required at the claim is
// written back to task.json, so that only people can lift it.
func (r *run) awaitApproval(f flow.Flow) error {
	s := r.taskState(trellis.Waiting)
	s.Asks = r.job.Approval > 0
	if _, err := writeStatus.Do(f, s); err != nil {
		return err
	}
	_, err := f.Await(Approval, flow.Forever, nil)
	return err
}
