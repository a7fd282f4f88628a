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

// Approvals are what people say to plans and steps.
type Approvals struct {
	pipeline.ApprovalJudge
	signWith ed25519.PrivateKey
	account  string
}

// openStep reports whether a run that is under way asked people about a step, and which it is as long as they have not
// decided. Whether they agreed to its plan is not asked then.
func (ap Approvals) openStep(dir string, h *journal.History) (asked bool, step string, err error) {
	if !underWay(h) {
		return false, "", nil
	}
	open, err := workflow.Open(h)
	if err != nil {
		return false, "", err
	}
	for _, q := range open {
		said, err := workflow.Decision(ap.Disk, dir, q, ap.Counts, ap.Now())
		if err != nil || said.State == workflow.Pending {
			return true, q.Path, err
		}
	}
	return len(open) > 0, "", nil
}

func underWay(h *journal.History) bool {
	return h != nil && h.Run != "" && h.Flow == pipeline.Flow && !h.Ended
}

// planAgreement is what people say to the plan of a task as it is on disk now. h is its journal, nil without one.
func (ap Approvals) planAgreement(t *taskdir.Task, h *journal.History) (g pipeline.Agreement, err error) {
	var claimed pipeline.Job
	if underWay(h) {
		p, err := pipeline.ReadProgress(h)
		if err != nil {
			return g, err
		}
		claimed = p.Claimed
	}
	return ap.Of(t, claimed)
}

// Agreement is what people say to the plan of a task as it is on disk now.
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

// Approved is how people agreed to the plan of a task as it is, whatever has become of the task, and of how long it held, since; zero
// where they did not.
func (ap Approvals) Approved(dir string) (v proof.ApprovalState, err error) {
	t, err := ap.Store.Load(dir)
	if err != nil {
		return v, err
	}
	list, err := ap.Counts.Read(dir)
	if err != nil {
		return v, err
	}
	for _, base := range slices.Compact([]string{t.BaseBranch, ""}) { // a run writes it down where the plan did not name it
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

// missingApproval says what people still have to agree to and the command for it, "" when there is nothing. A run that they said
// no to ends itself.
func (ap Approvals) missingApproval(t *taskdir.Task, h *journal.History) (what, next string, err error) {
	g, err := ap.planAgreement(t, h)
	if err != nil || g.State == proof.Approved || g.State == proof.Rejected && underWay(h) {
		return "", "", err
	}
	if g.State == proof.Rejected {
		next = "trellis plan --retry " + trellis.ShellWord(t.ID) + " --feedback 'what should be different'"
		if _, err := os.Lstat(filepath.Join(t.Dir, taskdir.Requirement)); errors.Is(err, fs.ErrNotExist) {
			next = "trellis edit " + trellis.ShellWord(t.ID) + " prd" // after which people are asked anew
		}
		return "another plan: this one was " + g.No(), next, nil
	}
	what = "approval of the plan"
	if len(g.Changed) > 0 {
		what = pipeline.AskedAbout(g.Changed)
	}
	if len(g.Protected) > 0 && len(g.Changed) > 0 {
		what += " and of the plan"
	}
	if len(g.Protected) > 0 {
		what += ", which changes what is protected (" + strings.Join(g.Protected, ", ") + ")"
	}
	return what, "trellis approve " + trellis.ShellWord(t.ID), nil
}

// messagesForWaits are messages to those waits of a run that what is on disk answers, each named by its wait: however often
// people are asked the same, and say the same, every time they are asked is answered.
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
			continue // looked at again
		}
		if data, err := json.Marshal(a); err == nil {
			list = append(list, journal.Message{ID: w.ID, Signal: pipeline.Approval + signal, Data: data})
		}
	}
	return list
}

// answerToSignal is what people said to what a run waits for with a signal.
func (ap Approvals) answerToSignal(dir string, h *journal.History, signal string) (workflow.Answer, error) {
	if signal == pipeline.Approval {
		return ap.planAnswer(dir, h)
	}
	open, err := workflow.Open(h)
	if err != nil {
		return workflow.Answer{}, err
	}
	for _, q := range open {
		if workflow.Signal(q.Path) == signal {
			return workflow.Decision(ap.Disk, dir, q, ap.Counts, ap.Now())
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
		return workflow.Answer{State: workflow.Rejected, Why: g.No()}, nil
	case g.State == proof.Approved:
		return workflow.Answer{State: workflow.Approved}, nil
	}
	return workflow.Answer{State: workflow.Pending}, nil
}

// ErrPlanChanged says that a decision was about a plan as it is not any more.
var ErrPlanChanged = errors.New("it was changed since it was shown")

// Approve records a person's yes to the plan, and lets the task run when it was the last that was missing. shown is the
// hash of what they saw, "" when they mean the plan as it is now; of another the error matches [ErrPlanChanged].
func (ap Approvals) Approve(dir, by, shown string) (proof.ApprovalState, error) {
	return ap.decidePlan(dir, proof.Approval{Decision: proof.Approve, By: by, Hash: shown})
}

// Reject records a person's no. shown is as in Approve.
func (ap Approvals) Reject(dir, by, reason, shown string) error {
	_, err := ap.decidePlan(dir, proof.Approval{Decision: proof.Reject, By: by, Reason: reason, Hash: shown})
	return err
}

// decidePlan records what a person says to the plan of a task that can be decided on now, and takes it into the status.
func (ap Approvals) decidePlan(dir string, a proof.Approval) (v proof.ApprovalState, err error) {
	if err := live(ap.Store, dir); err != nil {
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
	if err == nil && unplanned(h) {
		return v, ErrPlanning
	}
	if err == nil && !h.Ended {
		open, err := workflow.Open(h)
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
		if err := ap.rejectable(t, h); err != nil {
			return v, err
		}
	}
	a.Hash = now
	if err := ap.record(dir, a); err != nil {
		return v, err
	}
	return ap.settleApproval(dir, a)
}

// rejectable is why a no to the plan of a task that does not wait for a yes would change nothing, if it would not.
func (ap Approvals) rejectable(t *taskdir.Task, h *journal.History) error {
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

// settleApproval takes the decisions about the plan into the status, when no run holds the task: a run
// takes them from approvals.jsonl itself. said is the last of them: a yes alone makes nothing of a task that does not wait.
func (ap Approvals) settleApproval(dir string, said proof.Approval) (v proof.ApprovalState, err error) {
	t, err := ap.Store.Load(dir)
	if err != nil {
		return v, err
	}
	v, err = workflow.Decide(ap.Disk, dir, "", said.Hash, pipeline.Approvers(ap.Config, t), ap.Counts, ap.Now(), nil)
	if err != nil || v.State == proof.Pending || t.Status != trellis.Waiting && (said.Decision != proof.Reject || t.Status != trellis.Ready && t.Status != trellis.Planning) {
		return v, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && h.Flow == pipeline.Flow && !h.Ended {
		return v, nil // the run waits for it and takes it from the file
	}
	_, err = ap.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		undecided := t.Status == trellis.Waiting || t.Status == trellis.Ready || t.Status == trellis.Planning && v.State == proof.Rejected
		if !undecided {
			return nil // a person called it off or took it back, or it was begun meanwhile
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

// DecideStep records what a person says to a step that a run waits with, of a task or of a file, both named by
// their directory. a.Hash is that of the request that they saw, "" when they mean the one that there is; of another the error
// matches [ErrPlanChanged]. a.Step is the step's path; it may be empty when there is one alone. It returns the request, and what people said to
// it altogether: of a yes and a no the first one counts.
func (ap Approvals) DecideStep(dir string, a proof.Approval) (q workflow.Request, said workflow.Answer, err error) {
	if q, err = ap.Request(dir, a.Step); err != nil {
		return q, said, err
	}
	if a.Hash != "" && a.Hash != q.Hash {
		return q, said, fmt.Errorf("%s of %s: %w", q.Path, filepath.Base(dir), ErrPlanChanged)
	}
	if a.Decision == proof.Approve {
		if err := ap.unedited(dir, q); err != nil {
			return q, said, err
		}
	}
	a.Step, a.Hash = q.Path, q.Hash
	if err := ap.record(dir, a); err != nil {
		return q, said, err
	}
	said, err = workflow.Decision(ap.Disk, dir, q, ap.Counts, ap.Now())
	return q, said, err
}

// unedited is why a yes to a step would be for another one than people read by now: the run of a task, or of a file, does what it
// has its copy of.
func (ap Approvals) unedited(dir string, q workflow.Request) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return err
	}
	if h.Flow != workflow.FileFlow {
		b, err := pipeline.LoadPlan(ap.Store, dir)
		if err != nil || b == nil || asksOf(b, q) {
			return err
		}
		next := "trellis cancel " + trellis.ShellWord(filepath.Base(dir)) + " && trellis retry " + trellis.ShellWord(filepath.Base(dir))
		return edited(taskdir.Plan, q, next)
	}
	in, b, err := frozenFile(dir, h)
	if err != nil {
		return err
	}
	if changed, _ := FileSince(in.File, b); !changed {
		return nil
	}
	if now, _ := LoadFile(in.File, in.File, b.Given); now != nil && asksOf(now, q) {
		return nil
	}
	return edited(filepath.Base(in.File), q, "trellis run --resume "+trellis.ShellWord(filepath.Base(dir))+" "+trellis.ShellWord(in.File))
}

// asksOf reports whether the step of a request stands in b as people were asked about it. What a step in a loop, a group or another
// file does, and one that calls a file, is said elsewhere too, and an approval by itself asks about the whole.
func asksOf(b *plan.Bundle, q workflow.Request) bool {
	step, whole, _ := strings.Cut(q.Hash, "/")
	if whole, _, _ = strings.Cut(whole, "/"); whole == b.Hash { // behind which a retry counts itself
		return true
	}
	return slices.ContainsFunc(b.Plan("").Steps, func(s plan.Step) bool {
		alone := s.Kind() == plan.Script || s.Kind() == plan.Prompt
		return s.ID == q.Path && alone && b.Plan("").StepHash(s) == step
	})
}

func edited(file string, q workflow.Request, next string) error {
	return &RefusedError{fmt.Sprintf("%s was edited since people are asked about %s: the run would go on with it as it was, and another one takes the edit in", file, q.Path), next}
}

// record appends a decision to approvals.jsonl, signed where there is a key to sign with. It is read back at once, so that it is known
// as written here before git can bring it.
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

// undecided are those of a run's open requests to which people have not said yet what is needed.
func (ap Approvals) undecided(dir string, open []workflow.Request) (left []workflow.Request, err error) {
	for _, q := range open {
		said, err := workflow.Decision(ap.Disk, dir, q, ap.Counts, ap.Now())
		if err != nil {
			return nil, err
		}
		if said.State == workflow.Pending {
			left = append(left, q)
		}
	}
	return left, nil
}

// Request is the open request for a step of a run; without a path, the only one.
func (ap Approvals) Request(dir, step string) (q workflow.Request, err error) {
	id := filepath.Base(dir)
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if errors.Is(err, journal.ErrNone) {
		return q, &RefusedError{id + " does not run, and no step of it waits", "trellis status " + trellis.ShellWord(id)}
	}
	if err != nil {
		return q, err
	}
	open, err := workflow.Open(h)
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
