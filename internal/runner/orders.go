package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Orders carries out what people ask of an existing task: stop, cancel, retry.
type Orders struct{ *Site }

// Stop pauses a task: its run ends its agents and is resumed only when someone asks to start or retry the task.
func (s Orders) Stop(dir string) error {
	if err := refuseArchived(s.Store, dir); err != nil {
		return err
	}
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		switch t.Status {
		case trellis.InProgress, trellis.Paused:
		case trellis.Planning:
			return s.stopPlanningError(dir)
		default:
			return &RefusedError{fmt.Sprintf("%s is %s, and nothing runs that could be stopped", t.ID, t.Status.InWords()), "trellis status " + trellis.ShellWord(t.ID)}
		}
		e.Set("status", trellis.Paused)
		e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Interrupted, Detail: "stopped by a person", Retryable: true, At: s.Clock()})
		e.Set("pipeline.resume_at", time.Time{})
		return nil
	})
	return err
}

// stopPlanningError returns an error that says how a planning is ended, since no order does that.
func (s Orders) stopPlanningError(dir string) error {
	rel := s.Store.Rel(dir)
	if h, ok := Held(dir); ok {
		return &RefusedError{fmt.Sprintf("%s is being planned by process %d on %s: Ctrl-C there ends it, or kill %[2]d, and trellis plan --retry %[4]s continues later", rel, h.PID, h.Host, trellis.ShellWord(rel)), "trellis logs -f " + trellis.ShellWord(filepath.Base(dir))}
	}
	return &RefusedError{rel + " is in planning, and nothing runs that could be stopped", "trellis status " + trellis.ShellWord(filepath.Base(dir))}
}

// Cancel cancels a task for good. Worktree and branch are kept.
func (s Orders) Cancel(dir string) error {
	if err := refuseArchived(s.Store, dir); err != nil {
		return err
	}
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		_, held := Held(dir)
		switch {
		case t.Status == trellis.Planning && held: // the end of the planning would undo the order
			return s.stopPlanningError(dir)
		case drafted(dir):
			return &RefusedError{s.Store.Rel(dir) + " is a planning that was cut off: it is not a task yet", "trellis task rm " + trellis.ShellWord(s.Store.Rel(dir))}
		case t.Status == trellis.Completed:
			return &RefusedError{t.ID + " is completed, there is nothing to cancel", "trellis task archive " + trellis.ShellWord(t.ID)}
		}
		if wrong := statusProblems(t); len(wrong) > 0 {
			return &NotReadyError{wrong}
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

// endLeftovers ends what a run of the task that died left running. A live run ends its own processes.
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
	return errors.Join(s.states().recordUsage(dir, trellis.Cancelled), lock.Unlock())
}

// Retry asks for another run of a task that failed, was cancelled, is paused, or is reported as finished or rewound; or that
// is in review, but its last run did not mend or update to its base what it was to, or its pull request has problems. The run
// continues in the same worktree; fresh backs that up and begins again at base.
func (s Orders) Retry(ctx context.Context, dir string, fresh bool, o RunOptions) error {
	return s.retry(ctx, dir, retryOptions{RunOptions: o, fresh: fresh})
}

// retryOptions holds the options of another run.
type retryOptions struct {
	RunOptions
	fresh    bool
	feedback string // feedback on the work so far; "" for none
}

func (s Orders) retry(ctx context.Context, dir string, o retryOptions) error {
	if err := s.checkRetryable(ctx, dir, o); err != nil {
		return err
	}
	if err := s.guard().checkRun(ctx, dir); err != nil {
		return err
	}
	if _, err := s.Assessor().check(ctx, dir, o.Adopt); err != nil {
		return err
	}
	if t, err := s.Store.Load(dir); err == nil && retryFixesPull(t) && !o.fresh && o.feedback == "" {
		return s.fixPull(ctx, dir)
	}
	j, err := s.reopen(ctx, dir)
	if err != nil {
		return err
	}
	defer j.Close()
	h := j.History()
	if hasUnfinishedPlanning(h) {
		return ErrPlanning
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return err
	}
	if given, err := s.hasSameFeedback(dir, h, p, o.feedback); given || err != nil {
		return err
	}
	was, err := s.Store.Load(dir)
	if err != nil {
		return err
	}
	in, err := s.retryInput(ctx, dir, h, p, o)
	if err != nil {
		return err
	}
	if err := beginRun(j, in); err != nil {
		return err
	}
	return s.makeReady(dir, was.Status, p.Revision, o) // last, since whoever sees the status may run the task
}

// checkRetryable returns why there is nothing to retry, and what to do instead. It checks nothing that a run would need.
func (s Orders) checkRetryable(ctx context.Context, dir string, o retryOptions) error {
	if err := refuseArchived(s.Store, dir); err != nil {
		return err
	}
	t, err := s.Store.Load(dir)
	if err != nil || retryFixesPull(t) && !o.fresh {
		return nil // a later check reports what is wrong
	}
	err = o.refusal(t)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		refused.Hint, _ = s.Assessor().Next(ctx, dir) // refused with or without a hint
	}
	return err
}

// refuseArchived refuses a task that is in the archive, where nothing runs.
func refuseArchived(store taskdir.Store, dir string) error {
	if dir = filepath.Clean(dir); filepath.Dir(dir) == store.Tasks() {
		return nil
	}
	return &RefusedError{filepath.Base(dir) + " is archived, and nothing runs there", "trellis task show " + trellis.ShellWord(filepath.Base(dir))}
}

// reopen opens the journal of a task. A journal that is damaged, or not ours, is renamed and replaced by a new one.
func (s Orders) reopen(ctx context.Context, dir string) (*journal.Run, error) {
	j, err := s.open(ctx, dir, nil, nil)
	if !errors.Is(err, journal.ErrDamaged) && !errors.As(err, new(*ForeignError)) {
		return j, err
	}
	path := filepath.Join(dir, taskdir.Journal) // the old journal is kept for people
	if err := s.Disk.Rename(path, fmt.Sprintf("%s.damaged-%d", path, s.Clock().Unix())); err != nil {
		return nil, err
	}
	return s.open(ctx, dir, nil, nil)
}

// retryInput returns the input of another run after the one in h, or why there can't be one.
func (s Orders) retryInput(ctx context.Context, dir string, h *journal.History, p pipeline.Progress, o retryOptions) (in pipeline.Input, err error) {
	t, err := s.Store.Load(dir)
	if err != nil {
		return in, err
	}
	if err := o.refusal(t); err != nil {
		return in, err
	}
	if t.Status == trellis.Review {
		if p.React == nil && p.State.Failure == nil && o.feedback == "" {
			return in, nothingToRetry(t)
		}
		if err := s.Deliveries().checkStillOpen(ctx, t); err != nil {
			return in, err
		}
		o.Deliver = wasPushed(t, p) || o.feedback == "" && p.Deliver // deliver again what was delivered
	}
	done, err := pipeline.DeliveredBy(h)
	if err != nil {
		return in, err
	}
	if done != "" && t.Status == trellis.Paused && !o.fresh {
		return in, &RefusedError{fmt.Sprintf("%s is paused, but its run ended with %s: there is nothing to retry", t.ID, done), "trellis start " + trellis.ShellWord(t.ID)}
	}
	if in, err = s.TaskRunner().input(ctx, t, h, p, o.RunOptions); err != nil {
		return in, err
	}
	in.Retries, in.Fresh, in.Revision = p.Retries+1, o.fresh || p.Fresh, max(p.Revision, t.Pipeline.Revision)
	if h.Run != "" && h.Flow == pipeline.Flow && !h.Ended && len(h.Calls) == 0 {
		in.Retries = max(1, p.Retries) // begun by a retry that was cut off before it was done
	}
	if in.Fresh {
		in.Base, in.StackedOn = "", ""
		in.Implemented, in.Baseline, in.Begun, in.Finished, in.Undelivered, in.React, in.Feedback = "", nil, false, nil, nil, nil, nil
	}
	in.Reactions.Rounds = 0 // a retry by a person grants as many rounds again
	if o.feedback != "" {
		if err := s.addFeedback(t, p, o.feedback, h.Number+1, &in); err != nil {
			return in, err
		}
	}
	return in, s.setFeedbackTarget(ctx, t, p, &in)
}

// makeReady lets a task run again, at a later revision than last, which its last run wrote.
func (s Orders) makeReady(dir string, was trellis.Status, last int64, o retryOptions) error {
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if err := o.refusal(t); err != nil {
			return err
		}
		if t.Status == trellis.Cancelled && was != trellis.Cancelled {
			return &RefusedError{t.ID + " was cancelled meanwhile", "trellis retry " + trellis.ShellWord(t.ID)}
		}
		now := trellis.Ready
		if t.Status == trellis.Review {
			now = trellis.InProgress // its run has begun
		}
		runAgain(t, e, now, last)
		return nil
	})
	return err
}

// refusal returns why there is nothing to retry; nil if there is something.
func (o retryOptions) refusal(t *taskdir.Task) error {
	switch code := t.Pipeline.Failure.Code; t.Status {
	case trellis.Review:
		if o.feedback != "" {
			return nil
		}
		if code == "" || code == trellis.CIFailed || code == trellis.ChangesRequested {
			return nothingToRetry(t)
		}
	case trellis.Completed, trellis.Planning, trellis.Rejected:
		return nothingToRetry(t)
	}
	return nil
}

func nothingToRetry(t *taskdir.Task) error {
	return &RefusedError{fmt.Sprintf("%s is %s, there is nothing to retry", t.ID, t.Status.InWords()), ""}
}
