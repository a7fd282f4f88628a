package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// states updates task.json where the task's run does not do that itself.
type states struct {
	store taskdir.Store
	now   func() time.Time
}

// update changes a task.json whatever the state of the task is.
func (s states) update(dir string, change func(*taskdir.Task, *taskdir.Edit)) error {
	_, err := s.store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		change(t, e)
		return nil
	})
	return err
}

// move changes the status of a task from one to another, if it still has the first.
func (s states) move(dir string, from, to trellis.Status) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status == from {
			e.Set("status", to)
		}
	})
}

// setInProgress sets a task that was put to sleep (paused, waiting) back to in_progress. A task whose time has not come stays paused,
// and its run sleeps on. So does a task that a person stopped, unless a person asked for the run: a watcher may have assessed
// the task before it was stopped.
func (s states) setInProgress(dir string, asked bool) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		switch {
		case t.Status == trellis.InProgress && t.Pipeline.Failure.Code == trellis.Interrupted:
			e.Set("pipeline.failure", taskdir.Failure{})
		case t.Status == trellis.Paused || t.Status == trellis.Waiting:
			if stopped := pipeline.Stopped(t); stopped && asked || !stopped && !t.Pipeline.ResumeAt.After(s.now()) {
				e.Set("status", trellis.InProgress)
				e.Set("pipeline.failure", taskdir.Failure{})
			}
		}
	})
}

// setWaiting sets a task whose run was begun too early to waiting.
func (s states) setWaiting(dir string) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status == trellis.Ready || t.Status == trellis.InProgress {
			e.Set("status", trellis.Waiting)
		}
	})
}

// restoreWait writes into task.json again what a parked run waits for, which the process that resumed the run had removed.
func (s states) restoreWait(dir string, parked *journal.Parked) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return err
	}
	p, err := pipeline.ReadProgress(h)
	last := p.State
	if err != nil || last.Status != trellis.Paused && last.Status != trellis.Waiting {
		return err
	}
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status != trellis.InProgress && (t.Status != trellis.Paused || pipeline.Stopped(t)) {
			return
		}
		if t.Status != last.Status {
			e.Set("status", last.Status)
		}
		if f := last.Failure; f != nil && t.Pipeline.Failure.Code != trellis.Code(f.Code) {
			e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Code(f.Code), Detail: f.Detail, Retryable: f.Retryable, At: f.At})
		}
		resume := last.ResumeAt
		if !resume.After(s.now()) {
			resume = parked.Until
		}
		if !resume.Equal(t.Pipeline.ResumeAt) {
			e.Set("pipeline.resume_at", resume)
		}
	})
}

// noteInterrupted notes in task.json why the run does not continue.
func (s states) noteInterrupted(dir string) error {
	err := s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status == trellis.InProgress {
			e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Interrupted, Detail: "stopped by Ctrl-C or a signal", Retryable: true, At: s.now()})
		}
	})
	if errors.Is(err, taskdir.ErrNotFound) {
		return nil
	}
	return err
}

// recordUsage writes into task.json what the agents of a run that has not ended used so far, if the task has the given status: this
// includes calls that died with their process, and those after the last phase that was written to task.json.
func (s states) recordUsage(dir string, in trellis.Status) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil || h.Ended || h.Flow != pipeline.Flow {
		return nil // there is no run, or opening it reports what is wrong
	}
	_, err = s.store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		used, err := usedBy(t, h)
		if err == nil && t.Status == in && used != t.Pipeline.Usage {
			e.Set("pipeline.usage", used)
		}
		return err
	})
	if errors.Is(err, taskdir.ErrNotFound) {
		return nil
	}
	return err
}

// failDamaged fails a task whose journal exists but can't be read. Its work is backed up, and no new run begins by itself.
func (s states) failDamaged(ctx context.Context, repo *git.Repo, dir string) (Result, error) {
	res := Result{Dir: dir}
	lock, err := runlock.Take(dir, s.now()) // the process that wrote the journal may still work in the worktree
	if err != nil {
		return res, err
	}
	defer lock.Unlock()
	t, err := s.store.Load(dir)
	if err != nil {
		return res, err
	}
	_, cause := journal.Read(filepath.Join(dir, taskdir.Run))
	if !errors.Is(cause, journal.ErrDamaged) {
		return taskState(s.store, t), nil // a person's retry set it aside before the lock was taken
	}
	fail := flow.Fail(string(trellis.JournalDamaged), "%v", cause)
	fail.At = s.now()
	if _, serr := os.Stat(t.WorktreePath); t.WorktreePath != "" && serr == nil {
		ref := fmt.Sprintf("refs/trellis/backup/%s/journal-%d", t.ID, s.now().Unix())
		if _, err := snapshot.NewBackups(repo).Backup(ctx, t.WorktreePath, ref, "trellis: work of "+t.ID+", whose journal is damaged"); err != nil {
			return res, fmt.Errorf("backing up %s: %w", t.WorktreePath, err)
		}
		fail.Detail += "; the work is kept as " + ref
	}
	res.Status, res.Outcome, res.Failure = trellis.Failed, trellis.OutcomeFailed, fail
	return res, s.update(dir, func(_ *taskdir.Task, e *taskdir.Edit) {
		e.SetFromJournal(res.Status)
		e.Set("pipeline.outcome", res.Outcome)
		e.Set("pipeline.failure", taskdir.Failure{Code: trellis.JournalDamaged, Detail: fail.Detail, At: fail.At})
	})
}

// restore sets the status of a task to the last one of its run, which delivered.
func (s states) restore(dir string, h *journal.History) (*taskdir.Task, error) {
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return nil, err
	}
	return s.store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		e.SetFromJournal(p.State.Status)
		e.Set("pipeline.outcome", p.Outcome)
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("pipeline.resume_at", time.Time{})
		return nil
	})
}

// setPlanning sets a task to planning. That is the last of the steps with which a planning in place begins: until then, the
// planning can be asked for again as if nothing had happened.
func (s states) setPlanning(dir string) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status != trellis.Planning {
			e.Set("status", trellis.Planning)
		}
		e.Set("pipeline.outcome", "")
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("pipeline.rejection", taskdir.Rejection{Suggestions: []string{}})
	})
}

// resumeCutOff reports whether a run that a check of the pull request, or a delivery, had begun for a task in review was cut
// off. If so, it sets the task to in progress.
func (s states) resumeCutOff(dir string, h *journal.History) (bool, error) {
	if _, cut, err := interruptedInReview(h); err != nil || !cut {
		return false, err
	}
	lock, err := runlock.Take(dir, s.now()) // a run that ends writes task.json before the end of its journal
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	if h, err = journal.Read(filepath.Join(dir, taskdir.Run)); err != nil {
		return false, err
	}
	p, cut, err := interruptedInReview(h)
	if err == nil && cut {
		err = s.reopenReview(dir, p)
	}
	return cut, err
}

// interruptedInReview reports whether a journal has an unfinished run that was begun for a task in review. h is nil without a journal.
func interruptedInReview(h *journal.History) (p pipeline.Progress, cut bool, err error) {
	if h == nil || h.Flow != pipeline.Flow || h.Ended {
		return p, false, nil
	}
	p, err = pipeline.ReadProgress(h)
	return p, err == nil && (p.React != nil || p.HasUndelivered), err
}

// reopenReview sets a task in review to in progress, since its next run has begun. p is what the previous run wrote.
func (s states) reopenReview(dir string, p pipeline.Progress) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status == trellis.Review {
			runAgain(t, e, trellis.InProgress, p.Revision)
		}
	})
}

// runAgain sets the status of a task for another run; last is the last revision that the previous run wrote.
func runAgain(t *taskdir.Task, e *taskdir.Edit, now trellis.Status, last int64) {
	if t.Pipeline.Revision <= last {
		e.Set("pipeline.revision", last+1)
	}
	e.Set("status", now)
	e.Set("pipeline.outcome", "")
	e.Set("pipeline.failure", taskdir.Failure{})
	e.Set("pipeline.resume_at", time.Time{})
}
