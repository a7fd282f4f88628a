package status

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// What a task that could run at once waits for.
const (
	ForWatcher = "watcher: none is running"
	ForMachine = "machine: none has taken it yet" // of the machines that share it
	ForSlot    = "room"                           // the word of the watcher
	ForPerson  = "somebody"                       // the word of the watcher: a person has to mend the task
)

// waitReason returns what a task that does not run waits for, or "". held says that a process works
// on it.
func (r Reader) waitReason(t *taskdir.Task, known map[string]trellis.Status, held bool) string {
	p := t.Pipeline
	if why := r.heartbeatReason(t.ID); why == pulse.Trust && !t.Status.Ended() {
		return why
	}
	switch t.Status {
	case trellis.Ready:
		if why := r.refusalReason(t); why != "" {
			return why
		}
		if p.NotBefore.After(r.Now) {
			return "time " + timestamp(p.NotBefore) + r.noWatcherRemark(t)
		}
		if open := r.openDependencies(p.DependsOn, known); open != "" {
			return open
		}
		if strings.HasPrefix(string(p.Failure.Code), "agent_") { // a start has failed
			return fmt.Sprintf("agent (%s)", p.Failure.Code) + r.noWatcherRemark(t)
		}
		if p.Approval.Required && r.Agreement != nil && r.Agreement(t.Dir).State == proof.Pending { // its plan was edited after the approval
			return "approval"
		}
		return r.notStartedReason(t)
	case trellis.InProgress:
		if !held && !modTime(filepath.Join(t.Dir, taskdir.Journal)).IsZero() {
			return r.notStartedReason(t) // it was cut off, or is not begun
		}
	case trellis.Paused:
		why := ""
		switch p.Failure.Code {
		case "":
		case trellis.Interrupted: // a run that was only cut off is not paused
			why = " (stopped by a person)"
		default:
			why = fmt.Sprintf(" (%s)", p.Failure.Code)
		}
		if !p.ResumeAt.IsZero() {
			return "time " + timestamp(p.ResumeAt) + why + r.noWatcherRemark(t)
		}
		return "start" + why
	case trellis.Waiting:
		if open := r.openDependencies(p.DependsOn, known); open != "" {
			return open
		}
		if p.Judge != nil && !p.Judge.Pass {
			return "decision: the judge was not satisfied"
		}
		if unmerged := dependenciesInReview(p.DependsOn, known); len(unmerged) > 1 && !p.Approval.Required {
			return "merge of all but one of " + strings.Join(unmerged, ", ")
		}
		why := r.heartbeatReason(t.ID)
		switch {
		case len(p.DependsOn) == 0 || strings.HasPrefix(why, "approval"):
			return "approval"
		case why != "":
			return "dependency " + why
		case p.Approval.Required && !r.isApproved(t.Dir):
			return "approval"
		}
		if q, asked := pendingApproval(t.Dir, r.Now); q != nil || asked || len(r.unconfirmedChanges(t.Dir)) > 0 { // its run waits
			return "approval"
		}
		return r.notStartedReason(t)
	}
	return ""
}

// correctWait corrects what a task that no process runs waits for: nothing if one just took it, a person if it has errors.
func (r Reader) correctWait(v *Task, dir string) {
	if v.WaitingFor != ForWatcher && v.WaitingFor != ForMachine {
		return
	}
	if v.HeldBy == nil {
		v.HeldBy = r.holder(dir)
	}
	switch {
	case v.HeldBy != nil:
		v.WaitingFor = "" // it is about to begin
	case len(trellis.Errors(v.Problems)) > 0, v.Status != trellis.InProgress && lacksFile(dir):
		v.WaitingFor = ForPerson
	}
}

// lacksFile reports whether a file is missing without which no run begins. What is in the files only validate and start check.
func lacksFile(dir string) bool {
	needed := []string{taskdir.PRD, taskdir.ImplementContext, taskdir.CheckContext}
	return slices.ContainsFunc(needed, func(name string) bool { return !durable.Exists(filepath.Join(dir, name)) })
}

// hasBegun reports whether the run in a task directory has done anything, or can't be read. A run that a person asked for with
// feedback has done nothing yet. In planning it reports whether a planning has not ended: a task that a person writes has none.
func hasBegun(dir string, s trellis.Status) bool {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if s == trellis.Planning {
		return err == nil && h.Flow == planner.Flow && !h.Ended
	}
	return err != nil || len(h.Calls) > 0
}

// NotStartedReason returns why no process works on a task that could run, "" if it waits for something else.
func (t Task) NotStartedReason() string {
	switch {
	case t.WaitingFor == ForSlot:
		return "queued (" + t.Slots + ")"
	case t.WaitingFor == ForMachine && t.CutOff:
		return "cut off: no machine has taken it over yet"
	case t.WaitingFor == ForMachine:
		return "given to the team: no machine has taken it yet"
	case t.WaitingFor == ForWatcher && t.CutOff:
		return "cut off: run `trellis watch`"
	case t.WaitingFor == ForWatcher:
		return "not started: run `trellis watch`"
	}
	return ""
}

// dependenciesInReview returns the dependencies that may have to be merged: a task can begin on one of them, not on several.
func dependenciesInReview(ids []string, known map[string]trellis.Status) (list []string) {
	for _, id := range ids {
		if known[id] == trellis.Review {
			list = append(list, id)
		}
	}
	return list
}

// refusalReason returns why a ready task is not to be run, as the process that would run it would decide by its
// journal. Without a journal it returns "", as it does not ask git whether there is work on the branch.
func (r Reader) refusalReason(t *taskdir.Task) string {
	h, err := journal.Read(filepath.Join(t.Dir, taskdir.Run))
	if err != nil {
		return "" // no journal, or an error that validate and start report
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return ""
	}
	why := ""
	if done, err := pipeline.DeliveredBy(h); err == nil && done != "" {
		why = "it was done before (" + string(done) + ")"
	}
	if t.Pipeline.Revision < p.Revision {
		why = "task.json was taken back"
	}
	if why == "" || r.holder(t.Dir) != nil { // the holder has just written task.json
		return ""
	}
	if now, err := r.Store.Load(t.Dir); err != nil || now.Pipeline.Revision != t.Pipeline.Revision { // a whole run took place since
		return ""
	}
	return "decision: " + why + ": run `trellis retry`"
}

// notStartedReason returns what keeps a task that could run from running, "" if nothing does.
func (r Reader) notStartedReason(t *taskdir.Task) string {
	switch {
	case !r.Watcher.Alive && r.isShared(t):
		return ForMachine
	case !r.Watcher.Alive:
		return ForWatcher
	case r.Watcher.Hangs:
		return "watcher: it hangs"
	}
	return r.heartbeatReason(t.ID)
}

// isApproved reports whether people have approved the current plan of a task.
func (r Reader) isApproved(dir string) bool {
	return r.Agreement != nil && r.Agreement(dir).State == proof.Approved
}

// planApprovalCount returns how many of the people who have to agree to the plan of a task do, and who, led by a blank; "" if one is enough.
func (r Reader) planApprovalCount(t *taskdir.Task) string {
	if r.Agreement == nil || max(r.Approvers, t.Pipeline.Approval.Approvers) < 2 {
		return ""
	}
	g := r.Agreement(t.Dir)
	if g.State == proof.Rejected { // by hand, in approvals.jsonl
		return ""
	}
	return approvalCount(g.ApprovalState, g.Approvers)
}

// approvalCount returns how many of the people who have to agree do, and who; "" if one is enough.
func approvalCount(v proof.ApprovalState, needed int) string {
	if needed < 2 {
		return ""
	}
	return " (" + strings.TrimSuffix(fmt.Sprintf("%d of %d: %s", needed-v.Missing, needed, strings.Join(v.By, ", ")), ": ") + ")"
}

// isShared reports whether other machines have been given a task, and may run it.
func (r Reader) isShared(t *taskdir.Task) bool { return r.Given != nil && r.Given(t.Dir) }

// noWatcherRemark returns a remark that no watcher would start a task at its time, "" if one would.
func (r Reader) noWatcherRemark(t *taskdir.Task) string {
	switch {
	case !r.Watcher.Alive && r.isShared(t):
		return ""
	case !r.Watcher.Alive:
		return ", and no watcher is running"
	case r.Watcher.Hangs:
		return ", and the watcher hangs"
	}
	return ""
}

// heartbeatReason returns what a task waits for according to the watcher.
func (r Reader) heartbeatReason(id string) string {
	for _, w := range r.Watcher.Beat.Waiting {
		if w.Task == id {
			if w.Until != nil {
				return w.For + ": " + timestamp(*w.Until)
			}
			return w.For
		}
	}
	return ""
}

// heartbeatEntry returns the heartbeat's entry for a task that the watcher runs, nil if it does not run it.
func (r Reader) heartbeatEntry(id string) *pulse.Work {
	for _, w := range r.Watcher.Beat.Running {
		if w.Task == id {
			return &w
		}
	}
	return nil
}

func watcherHealth(s pulse.State) string {
	switch {
	case s.Hangs:
		return "hangs"
	case s.Alive:
		return "alive"
	}
	return "none"
}

// awaitedApproval returns what a task that waits for approval waits for: that of a step of its run, or else of
// the plan. Once people have decided about the step, the run itself has to go on.
func (r Reader) awaitedApproval(t *taskdir.Task) (step, what string) {
	switch q, asked := pendingApproval(t.Dir, r.Now); {
	case q != nil:
		return q.Path, "approval of step " + q.Path + approvalCount(q.approvals, q.Approvers) + strings.TrimSuffix(": "+text.OneLine(q.Title), ": "+q.Path)
	case asked:
		return "", "start"
	}
	if changes := r.unconfirmedChanges(t.Dir); len(changes) > 0 {
		return "", pipeline.ApprovalSubject(changes) + r.planApprovalCount(t)
	}
	return "", "approval" + r.planApprovalCount(t)
}

// unconfirmedChanges returns the changes to what judges the work of a task that nobody has approved yet.
func (r Reader) unconfirmedChanges(dir string) []string {
	u, err := pipeline.ReadUnconfirmed(dir)
	if err != nil {
		return nil // the run reports it
	}
	return u.Changes(r.Store, dir)
}

// missingTaskState returns the state of a dependency that is not among the tasks, "" if nothing waits for it or the archive can't be read.
func (r Reader) missingTaskState(id string) string {
	dir, err := r.Store.Archived(id)
	switch {
	case err != nil:
		return ""
	case dir == "":
		return "there is no such task"
	}
	if t, err := r.Store.Load(dir); err == nil && t.Status.EndedBadly() {
		return string(t.Status) + ", in the archive"
	}
	return ""
}

// openDependencies returns the dependencies that a task still waits for, with their states.
func (r Reader) openDependencies(ids []string, known map[string]trellis.Status) string {
	var open []string
	for _, id := range ids {
		status, there := known[id]
		stands := string(status)
		switch {
		case status == trellis.Completed, status == trellis.Review && !r.Merged:
			continue
		case !there:
			if stands = r.missingTaskState(id); stands == "" {
				continue
			}
		case status == "":
			stands = "can't be read"
		}
		open = append(open, fmt.Sprintf("%s (%s)", id, stands))
	}
	if len(open) == 0 {
		return ""
	}
	return "dependency " + strings.Join(open, ", ")
}
