package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Orders are what people ask of a task that is there: stop, cancel, retry.
type Orders struct{ *Site }

// Orders works on s.
func (s *Site) Orders() Orders { return Orders{s} }

// Stop pauses a task: its run ends its agents and goes on only when someone says start or retry.
func (s Orders) Stop(dir string) error {
	if err := s.live(dir); err != nil {
		return err
	}
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		switch t.Status {
		case trellis.InProgress, trellis.Paused:
		case trellis.Planning:
			return s.notStopped(dir)
		default:
			return &RefusedError{fmt.Sprintf("%s is %s, nothing runs that could be stopped", t.ID, t.Status), ""}
		}
		e.Set("status", trellis.Paused)
		e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Interrupted, Detail: "stopped by a person", Retryable: true, At: s.Clock()})
		e.Set("pipeline.resume_at", time.Time{})
		return nil
	})
	return err
}

// notStopped says how a planning is ended, which no order does.
func (s Orders) notStopped(dir string) error {
	rel := s.Store.Rel(dir)
	if h, ok := Held(dir); ok {
		return &RefusedError{fmt.Sprintf("%s is being planned by process %d on %s: Ctrl-C there ends it, and later it can go on", rel, h.PID, h.Host), "trellis plan --retry " + rel}
	}
	return &RefusedError{rel + " is in planning, and nothing runs that could be stopped", "trellis status " + filepath.Base(dir)}
}

// Cancel calls a task off for good. Worktree and branch stay.
func (s Orders) Cancel(dir string) error {
	if err := s.live(dir); err != nil {
		return err
	}
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		_, held := Held(dir)
		_, draft := drafted(dir)
		switch {
		case t.Status == trellis.Planning && held: // its end would take the order back
			return s.notStopped(dir)
		case draft:
			return &RefusedError{s.Store.Rel(dir) + " is a planning that was cut off: it is no task yet", "trellis task rm " + s.Store.Rel(dir)}
		}
		e.Set("status", trellis.Cancelled)
		e.Set("pipeline.outcome", trellis.OutcomeCancel)
		return nil
	})
	if err != nil {
		return err
	}
	return s.endLeftovers(dir)
}

// endLeftovers ends what a run of the task that died left at work. A run that lives ends its own by itself.
func (s Orders) endLeftovers(dir string) error {
	if _, err := s.Store.RunDir(dir); err != nil {
		return err
	}
	lock, err := runlock.Take(dir, s.Clock())
	if runlock.Busy(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("ending what its run left: %w", err)
	}
	return lock.Unlock()
}

// Retry asks for another run of a task that failed, was cancelled, is paused, or is reported as finished
// or rewound, or is in review with what the last run was to mend, or to bring up to its base, and did not, or with something
// wrong with its pull request. It goes on in the same worktree; fresh backs that up and begins at base.
func (s Orders) Retry(ctx context.Context, dir string, fresh bool, o RunOptions) error {
	if err := s.retries(ctx, dir, fresh); err != nil {
		return err
	}
	if err := s.guard().trustedRun(ctx, dir); err != nil {
		return err
	}
	if err := s.Assessor().check(ctx, dir, o.Adopt); err != nil {
		return err
	}
	if t, err := s.Store.Load(dir); err == nil && mends(t) && !fresh {
		return s.mendPull(ctx, dir)
	}
	j, err := s.reopen(dir)
	if err != nil {
		return err
	}
	defer j.Close()
	h := j.History()
	if unplanned(h) {
		return ErrPlanning
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return err
	}
	in, err := s.retried(ctx, dir, h, p, fresh, o)
	if err != nil {
		return err
	}
	if err := s.TaskRunner().beginRun(j, h, dir, in); err != nil {
		return err
	}
	return s.makeReady(dir, p.Revision) // last: who sees it may run it
}

// retries says why there is nothing to retry, before anything that a run would need is looked at, and what to do instead.
func (s Orders) retries(ctx context.Context, dir string, fresh bool) error {
	if err := s.live(dir); err != nil {
		return err
	}
	t, err := s.Store.Load(dir)
	if err != nil || mends(t) && !fresh {
		return nil // what is wrong with it is told by who checks it
	}
	err = retryable(t)
	var refused *RefusedError
	if errors.As(err, &refused) {
		refused.Hint, _ = s.Assessor().Next(ctx, dir) // it is refused with or without
	}
	return err
}

// live refuses a task that is in the archive: nobody runs what is there.
func (s Orders) live(dir string) error {
	if dir = filepath.Clean(dir); filepath.Dir(dir) == s.Store.Tasks() {
		return nil
	}
	return &RefusedError{filepath.Base(dir) + " is archived, and nothing runs there", "trellis task show " + filepath.Base(dir)}
}

// reopen opens the journal of a task; one that is damaged, or not ours, is set aside for a new one.
func (s Orders) reopen(dir string) (*journal.Run, error) {
	j, err := s.open(dir, nil, nil)
	if !errors.Is(err, journal.ErrDamaged) && !errors.As(err, new(*ForeignError)) {
		return j, err
	}
	if err := s.setAside(dir); err != nil {
		return nil, err
	}
	return s.open(dir, nil, nil)
}

// retried is the input of another run after the one that h tells of, or why there can be none.
func (s Orders) retried(ctx context.Context, dir string, h *journal.History, p pipeline.Progress, fresh bool, o RunOptions) (in pipeline.Input, err error) {
	t, err := s.Store.Load(dir)
	if err != nil {
		return in, err
	}
	if err := retryable(t); err != nil {
		return in, err
	}
	if t.Status == trellis.Review {
		if p.React == nil && p.Standing.Failure == nil {
			return in, nothingToRetry(t)
		}
		if err := s.over(ctx, t); err != nil {
			return in, err
		}
		o.Deliver = true // it was
	}
	done, err := delivered(h)
	if err != nil {
		return in, err
	}
	if done != "" && t.Status == trellis.Paused && !fresh {
		return in, &RefusedError{fmt.Sprintf("%s is paused, but its run ended with %s: there is nothing to retry", t.ID, done), "trellis start " + t.ID}
	}
	if in, err = s.TaskRunner().input(ctx, dir, h, p, o); err != nil {
		return in, err
	}
	in.Retries, in.Fresh, in.Revision = p.Retries+1, fresh || p.Fresh, max(p.Revision, t.Pipeline.Revision)
	if h.Run != "" && h.Flow == pipeline.Flow && !h.Ended && len(h.Calls) == 0 {
		in.Retries = max(1, p.Retries) // begun by a retry that was cut off before it was done
	}
	if in.Fresh {
		in.Base, in.StackedOn = "", ""
		in.Implemented, in.Baseline, in.Begun, in.Finished, in.Undelivered, in.React = "", nil, false, nil, nil, nil
	}
	in.Reactions.Rounds = 0 // a person grants as many again
	return in, nil
}

// makeReady lets a task run again, for what came after the revision that its last run was of.
func (s Orders) makeReady(dir string, last int64) error {
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if err := retryable(t); err != nil {
			return err
		}
		if t.Pipeline.Revision <= last {
			e.Set("pipeline.revision", last+1)
		}
		if t.Status == trellis.Review {
			e.Set("status", trellis.InProgress) // its run is begun
		} else {
			e.Set("status", trellis.Ready)
		}
		e.Set("pipeline.outcome", "")
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("pipeline.resume_at", time.Time{})
		return nil
	})
	return err
}

// retryable says why there is nothing to retry.
func retryable(t *taskdir.Task) error {
	switch code := t.Pipeline.Failure.Code; t.Status {
	case trellis.Review:
		if code == "" || code == trellis.CIFailed || code == trellis.ChangesRequested {
			return nothingToRetry(t)
		}
	case trellis.Completed, trellis.Planning, trellis.Rejected:
		return nothingToRetry(t)
	}
	return nil
}

func nothingToRetry(t *taskdir.Task) error {
	return &RefusedError{fmt.Sprintf("%s is %s, there is nothing to retry", t.ID, t.Status), ""}
}

// setAside moves a damaged journal out of the way; it stays for people to look at.
func (s Orders) setAside(dir string) error {
	path := filepath.Join(dir, taskdir.Journal)
	return s.Disk.Rename(path, fmt.Sprintf("%s.damaged-%d", path, s.Clock().Unix()))
}

// Approve records a person's yes to the plan as it is now, and lets the task run when it was the last that
// was missing.
func (s Approvals) Approve(dir, by string) (proof.ApprovalState, error) {
	hash, err := s.decide(dir, proof.Approval{Decision: proof.Approve, By: by})
	if err != nil {
		return proof.ApprovalState{}, err
	}
	return s.settleApproval(dir, hash)
}

// Reject records a person's no.
func (s Approvals) Reject(dir, by, reason string) error {
	hash, err := s.decide(dir, proof.Approval{Decision: proof.Reject, By: by, Reason: reason})
	if err != nil {
		return err
	}
	_, err = s.settleApproval(dir, hash)
	return err
}

func (s Approvals) decide(dir string, a proof.Approval) (string, error) {
	if err := s.Orders().live(dir); err != nil {
		return "", err
	}
	t, err := s.Store.Load(dir)
	if err != nil {
		return "", err
	}
	if t.Status != trellis.Waiting && t.Status != trellis.Ready && t.Status != trellis.Planning {
		return "", &RefusedError{fmt.Sprintf("%s is %s and waits for no approval", t.ID, t.Status), "trellis status " + t.ID}
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && unplanned(h) {
		return "", ErrPlanning
	}
	if err == nil && !h.Ended {
		open, err := workflow.Open(h)
		if err != nil {
			return "", err
		}
		if len(open) > 0 {
			return "", &RefusedError{fmt.Sprintf("%s waits with the step %s, not with its plan", t.ID, open[0].Path), fmt.Sprintf("trellis %s %s --step %s", a.Decision, t.ID, open[0].Path)}
		}
	}
	if a.Hash, err = taskdir.PlanHash(dir, t); err != nil {
		return "", err
	}
	a.At = s.Clock().UTC()
	if d := s.Config.Planning.ApprovalExpires; d > 0 && a.Decision == proof.Approve {
		a.ExpiresAt = a.At.Add(d)
	}
	return a.Hash, s.say(dir, a)
}

// settleApproval takes the decisions about the plan into the status, when no run holds the task: a run
// takes them from approvals.jsonl itself.
func (s Approvals) settleApproval(dir, hash string) (v proof.ApprovalState, err error) {
	t, err := s.Store.Load(dir)
	if err != nil {
		return v, err
	}
	v, err = pipeline.Decision(s.Disk, dir, hash, pipeline.Approvers(s.Config, t), s.counts(), s.Clock())
	if err != nil || t.Status != trellis.Waiting || v.State == proof.Pending {
		return v, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && h.Flow == pipeline.Flow && !h.Ended {
		return v, nil // the run waits for it and takes it from the file
	}
	_, err = s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if v.State == proof.Approved {
			e.Set("status", trellis.Ready)
			e.Set("pipeline.plan_hash", hash)
			return nil
		}
		r := planner.Rejection{By: strings.Join(v.By, ", "), Details: v.Reason, Suggestions: []string{"Answer the reason above in a revised requirement."},
			Dir: s.Store.Rel(dir), Name: t.Name, DevType: t.DevType}
		if err := s.Disk.WriteFile(filepath.Join(dir, taskdir.Rejected), []byte(r.Render()), 0o644); err != nil {
			return err
		}
		e.Set("status", trellis.Rejected)
		e.Set("pipeline.outcome", trellis.OutcomeReject)
		e.Set("pipeline.rejection", taskdir.Rejection{Details: v.Reason, Suggestions: r.Suggestions})
		return nil
	})
	return v, err
}

// Held reports whether some process runs the task, and which.
func Held(dir string) (durable.Holder, bool) {
	path := filepath.Join(dir, taskdir.RunLock)
	if _, err := os.Stat(path); err != nil || !durable.Held(path) {
		return durable.Holder{}, false
	}
	h, _ := durable.ReadHolder(path) // only for messages
	return h, true
}

// Watcher is the process that watches this repository, if there is one.
func (s Starter) Watcher() (durable.Holder, bool) {
	path := s.WatchLock()
	if _, err := os.Stat(path); err != nil || !durable.Held(path) {
		return durable.Holder{}, false
	}
	h, _ := durable.ReadHolder(path) // only for messages
	return h, true
}

func (s Starter) WatchLock() string {
	return filepath.Join(s.Store.Root, ".trellis", ".runtime", "watch.lock")
}
