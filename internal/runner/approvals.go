package runner

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Approvals reads and records what people decide about plans and steps.
type Approvals struct {
	pipeline.ApprovalJudge
	signWith ed25519.PrivateKey
	account  string
}

// openStep reports whether a run that is under way asked people about a step, and returns the step until they have decided.
// If asked is true, the caller does not check the approval of the plan.
func (ap Approvals) openStep(dir string, h *journal.History) (asked bool, step string, err error) {
	if !underWay(h) {
		return false, "", nil
	}
	open, err := workflow.OpenRequests(h)
	if err != nil {
		return false, "", err
	}
	for _, q := range open {
		said, err := workflow.FindDecision(ap.Disk, dir, q, ap.Counts, ap.Now())
		if err != nil || said.State == workflow.Pending {
			return true, q.Path, err
		}
	}
	return len(open) > 0, "", nil
}

func underWay(h *journal.History) bool {
	return h != nil && h.Run != "" && h.Flow == pipeline.Flow && !h.Ended
}

// planAgreement returns what people decided about the current plan of a task. h is the task's journal, nil without one.
func (ap Approvals) planAgreement(t *taskdir.Task, h *journal.History) (g pipeline.Agreement, err error) {
	var claimed pipeline.Job
	if underWay(h) {
		p, err := pipeline.ReadProgress(h)
		if err != nil {
			return g, err
		}
		claimed = p.Claimed
	}
	return ap.Judge(t, claimed)
}

// Agreement returns what people decided about the current plan of the task in dir.
func (ap Approvals) Agreement(dir string) (g pipeline.Agreement, err error) {
	t, err := ap.Store.Load(dir)
	if err != nil {
		return g, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil && !errors.Is(err, journal.ErrNone) {
		return g, err
	}
	return ap.planAgreement(t, h)
}

// Approved returns how people approved the current plan of a task, whatever has become of the task and even if the approval
// has expired since; zero if they did not approve it.
func (ap Approvals) Approved(dir string) (v proof.ApprovalState, err error) {
	t, err := ap.Store.Load(dir)
	if err != nil {
		return v, err
	}
	list, err := ap.Counts.Read(dir)
	if err != nil {
		return v, err
	}
	for _, base := range slices.Compact([]string{t.BaseBranch, ""}) { // a run sets the base branch if the plan named none
		named := *t
		named.BaseBranch = base
		hash, err := taskdir.PlanHash(dir, &named)
		if err != nil {
			return v, err
		}
		if said := proof.Decide(list, "", hash, pipeline.Approvers(ap.Config, t), time.Time{}); said.State == proof.Approved {
			return said, nil
		}
	}
	return v, nil
}

// missingApproval returns what people still have to approve and the command for it, or "" if nothing is missing. A run whose
// plan they rejected ends by itself.
func (ap Approvals) missingApproval(t *taskdir.Task, h *journal.History) (what, next string, err error) {
	g, err := ap.planAgreement(t, h)
	if err != nil || g.State == proof.Approved || g.State == proof.Rejected && underWay(h) {
		return "", "", err
	}
	if g.State == proof.Rejected {
		next = "trellis plan --retry " + trellis.ShellWord(t.ID) + " --feedback 'what should be different'"
		if _, err := os.Lstat(filepath.Join(t.Dir, taskdir.Requirement)); errors.Is(err, fs.ErrNotExist) {
			next = "trellis edit " + trellis.ShellWord(t.ID) + " prd" // after the edit, people are asked again
		}
		return "another plan: this one was " + g.RejectionReason(), next, nil
	}
	what = "approval of the plan"
	if len(g.Changed) > 0 {
		what = pipeline.ApprovalSubject(g.Changed)
	}
	if len(g.Protected) > 0 && len(g.Changed) > 0 {
		what += " and of the plan"
	}
	if len(g.Protected) > 0 {
		what += ", which changes what is protected (" + strings.Join(g.Protected, ", ") + ")"
	}
	return what, "trellis approve " + trellis.ShellWord(t.ID), nil
}

// messagesForWaits returns a message for each wait of a run that the files on disk answer. The ID of a message is that of its
// wait, so each time that people are asked is answered, even if question and answer are the same as before.
func (ap Approvals) messagesForWaits(dir string, j *journal.Run) (list []journal.Message) {
	var h *journal.History
	for _, w := range j.Waits() {
		signal, ok := strings.CutPrefix(w.Activity, "await:"+pipeline.Approval)
		if !ok {
			continue
		}
		if h == nil {
			h = j.History()
		}
		a, err := ap.answerToSignal(dir, h, pipeline.Approval+signal)
		if err != nil || a.State == workflow.Pending {
			continue // checked again later
		}
		if data, err := json.Marshal(a); err == nil {
			list = append(list, journal.Message{ID: w.ID, Signal: pipeline.Approval + signal, Data: data})
		}
	}
	return list
}

// answerToSignal returns people's answer to the question that a run waits for under the name signal.
func (ap Approvals) answerToSignal(dir string, h *journal.History, signal string) (workflow.Answer, error) {
	if signal == pipeline.Approval {
		return ap.planAnswer(dir, h)
	}
	open, err := workflow.OpenRequests(h)
	if err != nil {
		return workflow.Answer{}, err
	}
	for _, q := range open {
		if workflow.Signal(q.Path) == signal {
			return workflow.FindDecision(ap.Disk, dir, q, ap.Counts, ap.Now())
		}
	}
	return workflow.Answer{State: workflow.Pending}, nil
}

func (ap Approvals) planAnswer(dir string, h *journal.History) (workflow.Answer, error) {
	t, err := ap.Store.Load(dir)
	if err != nil {
		return workflow.Answer{}, err
	}
	g, err := ap.planAgreement(t, h)
	switch {
	case err != nil:
		return workflow.Answer{}, err
	case g.State == proof.Rejected:
		return workflow.Answer{State: workflow.Rejected, Why: g.RejectionReason()}, nil
	case g.State == proof.Approved:
		return workflow.Answer{State: workflow.Approved}, nil
	}
	return workflow.Answer{State: workflow.Pending}, nil
}

// ErrPlanChanged is returned for a decision about a plan or a step that has changed since it was shown.
var ErrPlanChanged = errors.New("it was changed since it was shown")

// Approve records that a person approves the plan, and lets the task run if no other approval is missing. shown is the hash of
// the plan that they saw, "" for the current one; if the current plan has another hash, the error matches [ErrPlanChanged].
func (ap Approvals) Approve(dir, by, shown string) (proof.ApprovalState, error) {
	return ap.decidePlan(dir, proof.Approval{Decision: proof.Approve, By: by, Hash: shown})
}

// Reject records that a person rejects the plan. shown is as in Approve.
func (ap Approvals) Reject(dir, by, reason, shown string) error {
	_, err := ap.decidePlan(dir, proof.Approval{Decision: proof.Reject, By: by, Reason: reason, Hash: shown})
	return err
}

// decidePlan records what a person decides about the plan of a task, if it can be decided now, and updates the task's status.
func (ap Approvals) decidePlan(dir string, a proof.Approval) (v proof.ApprovalState, err error) {
	if err := refuseArchived(ap.Store, dir); err != nil {
		return v, err
	}
	t, err := ap.Store.Load(dir)
	if err != nil {
		return v, err
	}
	if t.Status != trellis.Waiting && t.Status != trellis.Ready && t.Status != trellis.Planning {
		return v, &RefusedError{fmt.Sprintf("%s is %s; nothing needs approval", t.ID, t.Status.InWords()), "trellis status " + trellis.ShellWord(t.ID)}
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && hasUnfinishedPlanning(h) {
		return v, ErrPlanning
	}
	if err == nil && !h.Ended {
		open, err := workflow.OpenRequests(h)
		if err != nil {
			return v, err
		}
		if len(open) > 0 {
			return v, &RefusedError{fmt.Sprintf("%s waits with the step %s, not with its plan", t.ID, open[0].Path), fmt.Sprintf("trellis %s %s --step %s", a.Decision, trellis.ShellWord(t.ID), trellis.ShellWord(open[0].Path))}
		}
	}
	now, err := taskdir.PlanHash(dir, t)
	if err != nil {
		return v, err
	}
	if a.Hash != "" && a.Hash != now {
		return v, fmt.Errorf("%s: %w", t.ID, ErrPlanChanged)
	}
	if t.Status != trellis.Waiting && a.Decision == proof.Reject {
		if err := ap.checkRejectable(t, h); err != nil {
			return v, err
		}
	}
	a.Hash = now
	if err := ap.record(dir, a); err != nil {
		return v, err
	}
	return ap.settleApproval(dir, a)
}

// checkRejectable returns an error if rejecting the plan of a task that does not wait for approval would change nothing.
func (ap Approvals) checkRejectable(t *taskdir.Task, h *journal.History) error {
	g, err := ap.planAgreement(t, h)
	if err != nil || g.State != proof.Approved {
		return err
	}
	why := "nobody is asked about its plan"
	if len(g.By) > 0 {
		why = "its plan was approved by " + strings.Join(g.By, ", ")
	}
	return &RefusedError{fmt.Sprintf("%s is %s: %s", t.ID, t.Status.InWords(), why), "trellis cancel " + trellis.ShellWord(t.ID)}
}

// settleApproval applies the decisions about the plan to the status, unless a run holds the task: a run reads them from
// approvals.jsonl itself. said is the last decision; if it approves the plan, a task that does not wait stays as it is.
func (ap Approvals) settleApproval(dir string, said proof.Approval) (v proof.ApprovalState, err error) {
	t, err := ap.Store.Load(dir)
	if err != nil {
		return v, err
	}
	v, err = workflow.CountDecisions(ap.Disk, dir, "", said.Hash, pipeline.Approvers(ap.Config, t), ap.Counts, ap.Now(), nil)
	if err != nil || v.State == proof.Pending || t.Status != trellis.Waiting && (said.Decision != proof.Reject || t.Status != trellis.Ready && t.Status != trellis.Planning) {
		return v, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && h.Flow == pipeline.Flow && !h.Ended {
		return v, nil // the run waits for the decision and reads it from the file
	}
	_, err = ap.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		undecided := t.Status == trellis.Waiting || t.Status == trellis.Ready || t.Status == trellis.Planning && v.State == proof.Rejected
		if !undecided {
			return nil // a person cancelled it or took it back, or it was begun meanwhile
		}
		if v.State == proof.Approved {
			e.Set("status", trellis.Ready)
			e.Set("pipeline.plan_hash", said.Hash)
			return nil
		}
		r := planner.Rejection{By: strings.Join(v.By, ", "), Details: v.Reason, Suggestions: []string{"Answer the reason above in a revised requirement."},
			Dir: ap.Store.Rel(dir), Name: t.Name, DevType: t.DevType}
		if err := ap.Disk.WriteFile(filepath.Join(dir, taskdir.Rejected), []byte(r.Render()), 0o644); err != nil {
			return err
		}
		e.Set("status", trellis.Rejected)
		e.Set("pipeline.outcome", trellis.OutcomeReject)
		e.Set("pipeline.rejection", taskdir.Rejection{Details: v.Reason, Suggestions: r.Suggestions})
		return nil
	})
	return v, err
}

// DecideStep records what a person decides about a step for which a run waits, of the task or the file in dir. a.Hash is the
// hash of the request that they saw, "" for the current one; if that has another hash, the error matches [ErrPlanChanged].
// a.Step is the path of the step; it may be empty if only one waits. DecideStep returns the request and the outcome of all
// decisions about it: of an approval and a rejection, the first one counts.
func (ap Approvals) DecideStep(dir string, a proof.Approval) (q workflow.Request, answer workflow.Answer, err error) {
	if q, err = ap.Request(dir, a.Step); err != nil {
		return q, answer, err
	}
	if a.Hash != "" && a.Hash != q.Hash {
		return q, answer, fmt.Errorf("%s of %s: %w", q.Path, filepath.Base(dir), ErrPlanChanged)
	}
	if a.Decision == proof.Approve {
		if err := ap.checkUnedited(dir, q); err != nil {
			return q, answer, err
		}
	}
	a.Step, a.Hash = q.Path, q.Hash
	if err := ap.record(dir, a); err != nil {
		return q, answer, err
	}
	answer, err = workflow.FindDecision(ap.Disk, dir, q, ap.Counts, ap.Now())
	return q, answer, err
}

// checkUnedited returns an error if approving a step would approve something other than what people read in the file now, since
// the run of a task, or of a file, executes its own copy.
func (ap Approvals) checkUnedited(dir string, q workflow.Request) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return err
	}
	if h.Flow != workflow.FileFlow {
		b, err := pipeline.LoadPlan(ap.Store, dir)
		if err != nil || b == nil || isStepUnchanged(b, q) {
			return err
		}
		next := "trellis cancel " + trellis.ShellWord(filepath.Base(dir)) + " && trellis retry " + trellis.ShellWord(filepath.Base(dir))
		return editedError(taskdir.Plan, q, next)
	}
	in, b, err := frozenFile(dir, h)
	if err != nil {
		return err
	}
	if changed, _ := FileSince(in.File, b); !changed {
		return nil
	}
	if now, _ := LoadFile(in.File, in.File, b.Given); now != nil && isStepUnchanged(now, q) {
		return nil
	}
	return editedError(filepath.Base(in.File), q, "trellis run --resume "+trellis.ShellWord(filepath.Base(dir))+" "+trellis.ShellWord(in.File))
}

// isStepUnchanged reports whether b has the step of a request as people were asked about it. What a step in a loop, a group or another
// file does, and a step that calls a file, is defined elsewhere too, and an approval step asks about the whole of b.
func isStepUnchanged(b *plan.Bundle, q workflow.Request) bool {
	step, whole, _ := strings.Cut(q.Hash, "/")
	if whole, _, _ = strings.Cut(whole, "/"); whole == b.Hash { // a retry appends its number
		return true
	}
	return slices.ContainsFunc(b.Plan("").Steps, func(s plan.Step) bool {
		alone := s.Kind() == plan.Script || s.Kind() == plan.Prompt
		return s.ID == q.Path && alone && b.Plan("").StepHash(s) == step
	})
}

func editedError(file string, q workflow.Request, next string) error {
	return &RefusedError{fmt.Sprintf("%s was edited since people are asked about %s: the run would continue with it as it was, and another one takes the edit in", file, q.Path), next}
}

// record appends a decision to approvals.jsonl, signed if there is a key. It reads the file back at once, so that the
// decision is known as written here before git can bring it.
func (ap Approvals) record(dir string, a proof.Approval) (err error) {
	a.At, a.Account = ap.Now().UTC(), ap.account
	if d := ap.Config.Planning.ApprovalExpires; d > 0 && a.Decision == proof.Approve {
		a.ExpiresAt = a.At.Add(d)
	}
	if ap.signWith != nil {
		if a, err = a.Sign(ap.signWith); err != nil {
			return err
		}
	}
	if err := proof.Append(ap.Disk, dir, a); err != nil {
		return err
	}
	_, err = ap.Counts.Read(dir)
	return err
}

// undecided returns those of a run's open requests for which a decision is still missing.
func (ap Approvals) undecided(dir string, open []workflow.Request) (left []workflow.Request, err error) {
	for _, q := range open {
		said, err := workflow.FindDecision(ap.Disk, dir, q, ap.Counts, ap.Now())
		if err != nil {
			return nil, err
		}
		if said.State == workflow.Pending {
			left = append(left, q)
		}
	}
	return left, nil
}

// Request returns the open request for a step of a run; without a path, the only one.
func (ap Approvals) Request(dir, step string) (q workflow.Request, err error) {
	id := filepath.Base(dir)
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if errors.Is(err, journal.ErrNone) {
		return q, &RefusedError{id + " does not run, and no step of it waits", "trellis status " + trellis.ShellWord(id)}
	}
	if err != nil {
		return q, err
	}
	open, err := workflow.OpenRequests(h)
	if err != nil {
		return q, err
	}
	if step == "" && len(open) > 1 {
		if open, err = ap.undecided(dir, open); err != nil {
			return q, err
		}
	}
	var paths []string
	for _, q := range open {
		if q.Path == step || step == "" && len(open) == 1 {
			return q, nil
		}
		paths = append(paths, q.Path)
	}
	switch {
	case h.Ended || len(open) == 0:
		return q, &RefusedError{id + " waits with no step", "trellis status " + trellis.ShellWord(id)}
	case step == "":
		return q, &RefusedError{fmt.Sprintf("%s waits with %d steps: %s", id, len(open), strings.Join(paths, ", ")), "add --step " + paths[0]}
	}
	return q, &RefusedError{fmt.Sprintf("%s does not wait with a step %s, but with %s", id, step, strings.Join(paths, ", ")), ""}
}
