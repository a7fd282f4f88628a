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

// states writes into task.json what is to be said of a task beside what its run says there itself.
type states struct {
	store taskdir.Store
	now   func() time.Time
}

// update changes a task.json in a way that no state of the task forbids.
func (s states) update(dir string, change func(*taskdir.Task, *taskdir.Edit)) error {
	_, err := s.store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		change(t, e)
		return nil
	})
	return err
}

// move takes a task from one status to another, if it is in that still.
func (s states) move(dir string, from, to trellis.Status) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status == from {
			e.Set("status", to)
		}
	})
}

// awake takes a task that was put to sleep (paused, waiting) back to in_progress. One whose time has not come
// stays paused: its run sleeps on. So does one that a person stopped, unless a person asked for it: a watcher may have judged it
// before.
func (s states) awake(dir string, asked bool) error {
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

// unmet has a task wait whose run was begun too early.
func (s states) unmet(dir string) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status == trellis.Ready || t.Status == trellis.InProgress {
			e.Set("status", trellis.Waiting)
		}
	})
}

// asleep has task.json say again what a parked run waits for: whoever began to go on with it took that away.
func (s states) asleep(dir string, parked *journal.Parked) error {
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

// interrupted notes in task.json why nothing goes on.
func (s states) interrupted(dir string) error {
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

// count has a task that is in a status, with a run that has not ended, say what its agents used by now: calls that died with
// their process too, and those after the last phase that task.json was told of.
func (s states) count(dir string, in trellis.Status) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil || h.Ended || h.Flow != pipeline.Flow {
		return nil // none, or whoever opens it says what is wrong with it
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

// unreadable fails a task whose journal is there but can't be read: its work is backed up, and nothing
// begins afresh by itself.
func (s states) unreadable(ctx context.Context, repo *git.Repo, dir string) (Result, error) {
	res := Result{Dir: dir}
	lock, err := runlock.Take(dir, s.now()) // who wrote the journal may still be at work in the worktree
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
		e.Project(res.Status)
		e.Set("pipeline.outcome", res.Outcome)
		e.Set("pipeline.failure", taskdir.Failure{Code: trellis.JournalDamaged, Detail: fail.Detail, At: fail.At})
	})
}

// restore has a task say again what its run, which delivered, said last.
func (s states) restore(dir string, h *journal.History) (*taskdir.Task, error) {
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return nil, err
	}
	return s.store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		e.Project(p.State.Status)
		e.Set("pipeline.outcome", p.Outcome)
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("pipeline.resume_at", time.Time{})
		return nil
	})
}

// replanned has task.json say that the task is planned. It is the last that a planning in place begins with: until
// then it can be asked for again as if nothing had been.
func (s states) replanned(dir string) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status != trellis.Planning {
			e.Set("status", trellis.Planning)
		}
		e.Set("pipeline.outcome", "")
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("pipeline.rejection", taskdir.Rejection{Suggestions: []string{}})
	})
}

// resumeCutOff reports whether a run was begun for a task in review by a look at its pull request, or by a delivery, that was cut
// off then. The task is in progress after it.
func (s states) resumeCutOff(dir string, h *journal.History) (bool, error) {
	if _, cut, err := interruptedInReview(h); err != nil || !cut {
		return false, err
	}
	lock, err := runlock.Take(dir, s.now()) // a run that says in task.json that it is over has still to say so in its journal
	if err != nil {
		return false, err
	}
	defer lock.Unlock()
	if h, err = journal.Read(filepath.Join(dir, taskdir.Run)); err != nil {
		return false, err
	}
	p, cut, err := interruptedInReview(h)
	if err == nil && cut {
		err = s.resume(dir, p)
	}
	return cut, err
}

// interruptedInReview reports whether a journal has a run that was begun for a task in review and did not end. h is nil without one.
func interruptedInReview(h *journal.History) (p pipeline.Progress, cut bool, err error) {
	if h == nil || h.Flow != pipeline.Flow || h.Ended {
		return p, false, nil
	}
	p, err = pipeline.ReadProgress(h)
	return p, err == nil && (p.React != nil || p.Undelivered), err
}

// resume makes a task in review one whose run, which is begun, goes on. p is what the run before wrote.
func (s states) resume(dir string, p pipeline.Progress) error {
	return s.update(dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status == trellis.Review {
			runAgain(t, e, trellis.InProgress, p.Revision)
		}
	})
}

// runAgain has a task say where it stands when another run is asked for, after one whose last revision this is.
func runAgain(t *taskdir.Task, e *taskdir.Edit, now trellis.Status, last int64) {
	if t.Pipeline.Revision <= last {
		e.Set("pipeline.revision", last+1)
	}
	e.Set("status", now)
	e.Set("pipeline.outcome", "")
	e.Set("pipeline.failure", taskdir.Failure{})
	e.Set("pipeline.resume_at", time.Time{})
}
