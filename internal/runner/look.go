package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Assessor says of a task directory whether it can run now, what it waits for or what is wrong with it.
type Assessor struct{ *Site }

// Assessor works on s.
func (s *Site) Assessor() Assessor { return Assessor{s} }

// Assessment is what is made of a task directory as it is now.
type Assessment struct {
	Dir      string
	Task     *taskdir.Task
	Adopt    bool              // a person gives it the branch that is there
	Run      bool              // it can run now
	At       time.Time         // not before
	Waits    string            // for what else
	From, To trellis.Status    // how its status is to change for that; both are empty when it is not
	Problems []trellis.Problem // why it can't; a person has to do something

	Untrusted *trust.UntrustedError // who has to be trusted first; then Waits is pulse.Trust
	journal   *journal.History      // nil without one
}

func (l Assessment) Because(msg, hint string) Assessment {
	l.Problems = []trellis.Problem{{File: filepath.Join(".trellis", "tasks", filepath.Base(l.Dir), taskdir.TaskJSON), Message: msg, Hint: hint}}
	return l
}

// foreign is a look at a task whose journal is not ours; other errors are returned.
func (l Assessment) foreign(err error) (Assessment, error) {
	if not := (*ForeignError)(nil); errors.As(err, &not) {
		l.Problems, err = []trellis.Problem{not.Problem}, nil
	}
	return l, err
}

// look judges a task directory. It moves ready tasks that wait for something to waiting, and back when that
// has come.
func (s Assessor) Settle(ctx context.Context, dir string) (Assessment, error) {
	l, err := s.Assess(ctx, dir)
	if s.Seen != nil && l.Task != nil {
		s.Seen(l.Task)
	}
	if err == nil && errors.Is(ctx.Err(), context.Canceled) {
		err = context.Cause(ctx) // nobody waits for what was found, and it may be old
	}
	if err != nil {
		return l, err
	}
	return l, s.take(l)
}

// take writes what was judged of a status.
func (s Assessor) take(l Assessment) error {
	if l.To == "" || l.From == l.To {
		return nil
	}
	return s.move(l, l.From, l.To)
}

// judge reads a task directory and decides whether it can run. It changes nothing.
func (s Assessor) Assess(ctx context.Context, dir string) (Assessment, error) {
	return s.assess(ctx, Assessment{Dir: dir})
}

// assess is judge of a look that is begun.
func (s Assessor) assess(ctx context.Context, l Assessment) (Assessment, error) {
	l, err := s.runnableNow(ctx, l)
	if err != nil {
		return l, err
	}
	return s.guard().awaiting(ctx, l)
}

// runnableNow decides whether a task could run, whoever it is from.
func (s Assessor) runnableNow(ctx context.Context, l Assessment) (Assessment, error) {
	t, err := s.Store.Load(l.Dir)
	if p := (*trellis.Problem)(nil); errors.As(err, &p) {
		l.Problems = []trellis.Problem{*p}
		return l, nil
	}
	if err != nil {
		return l, err
	}
	l.Task = t
	switch t.Status {
	case trellis.Ready, trellis.Waiting:
		return s.lookReady(ctx, l)
	case trellis.InProgress:
		return s.lookStarted(ctx, l)
	case trellis.Paused:
		if !pipeline.Stopped(t) && !t.Pipeline.ResumeAt.IsZero() {
			l.Run, l.At = true, s.Budgets().resumes(t)
		}
	}
	return l, nil
}

// lookStarted decides about a task that is in progress: a run that was cut off goes on.
func (s Assessor) lookStarted(ctx context.Context, l Assessment) (Assessment, error) {
	h, err := journal.Read(filepath.Join(l.Dir, taskdir.Run))
	l.journal = h
	switch {
	case errors.Is(err, journal.ErrNone), err == nil && h.Flow != pipeline.Flow:
		return l.Because("the task is in progress, but there is no journal of a run here: it belongs to another machine, or its run/ was taken away, as git clean -x does", "trellis retry "+l.Task.ID), nil
	case errors.Is(err, journal.ErrDamaged):
		l.Run = true // which fails it, with its work backed up
		return l, nil
	case err != nil:
		return l, err
	}
	if err := s.guard().ours(ctx, l.Dir, h); err != nil {
		return l.foreign(err)
	}
	if h.Ended {
		return l.Because("the task is in progress, but its run has ended: git or a person set the status back", "trellis retry "+l.Task.ID), nil
	}
	l.Run = true
	return l, nil
}

// lookReady decides about a task that someone wants to run.
func (s Assessor) lookReady(ctx context.Context, l Assessment) (Assessment, error) {
	h, err := journal.Read(filepath.Join(l.Dir, taskdir.Run))
	l.journal = h
	switch {
	case errors.Is(err, journal.ErrDamaged):
		return l.Because(err.Error(), "trellis retry "+l.Task.ID), nil
	case err != nil && !errors.Is(err, journal.ErrNone):
		return l, err
	}
	if err := s.guard().ours(ctx, l.Dir, h); err != nil {
		return l.foreign(err)
	}
	if unplanned(h) {
		return l.Because("its planning is not at its end", "trellis plan --retry "+s.Store.Rel(l.Dir)), nil
	}
	if l, done, err := s.finished(ctx, l, h); done || err != nil {
		return l, err
	}
	if err := s.check(ctx, l.Dir, l.Adopt); err != nil {
		if not := (*NotReadyError)(nil); errors.As(err, &not) {
			l.Problems = not.Problems
			return l, nil
		}
		return l, err
	}
	asked, why, err := s.Approvals().asks(l.Dir, h)
	if l.Waits = why; err == nil && !asked {
		l.Waits, err = s.waits(ctx, l, h)
	}
	if err != nil {
		return l, err
	}
	if l.Waits != "" {
		l.From, l.To = trellis.Ready, trellis.Waiting
		return l, nil
	}
	if l.Task.Status == trellis.Waiting && (h == nil || h.Ended || h.Flow != pipeline.Flow) {
		l.From, l.To = trellis.Waiting, trellis.Ready
	}
	l.Run, l.At = true, l.Task.Pipeline.NotBefore
	return l, nil
}

// unplanned reports whether a planning was begun and is not at its end.
func unplanned(h *journal.History) bool {
	return h != nil && h.Run != "" && h.Flow == planner.Flow && !h.Ended
}

// finished reports tasks whose ready is no request: the work was delivered, or git took task.json back.
func (s Assessor) finished(ctx context.Context, l Assessment, h *journal.History) (Assessment, bool, error) {
	retry := "trellis retry " + l.Task.ID
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return l, false, err
	}
	done, err := delivered(h)
	if err != nil {
		return l, false, err
	}
	switch {
	case l.Task.Pipeline.Revision < p.Revision:
		return l.Because(fmt.Sprintf("git took task.json back (revision %d, the run wrote %d): this is no request to run again", l.Task.Pipeline.Revision, p.Revision), retry), true, nil
	case done != "":
		return l.Because("the task is ready, but its journal says "+string(done)+": it is not run twice", retry), true, nil
	case h != nil && h.Flow == pipeline.Flow:
		return l, false, nil
	}
	tip, err := s.Repo.Refs().Branch(ctx, l.Task.BranchName())
	if err != nil || tip == "" {
		return l, false, err
	}
	made, err := s.Repo.History().FindTrailer(ctx, "", tip, pipeline.TaskTrailer+": "+l.Task.ID)
	if err != nil || made == "" {
		return l, false, err
	}
	return l.Because("there is no journal of a run, but "+l.Task.BranchName()+" holds a commit of this task: it is not run twice", retry), true, nil
}

// waits says what a ready task has to wait for: a person's yes, or another task.
func (s Assessor) waits(ctx context.Context, l Assessment, h *journal.History) (string, error) {
	t := l.Task
	if why, err := s.Approvals().approval(t, h); err != nil || why != "" {
		return why, err
	}
	return s.dependencies(ctx, t, h)
}

// dependencies says which tasks a task has to wait for, "" when there is none. h is its journal, nil without one.
func (s Assessor) dependencies(ctx context.Context, t *taskdir.Task, h *journal.History) (string, error) {
	if len(t.Pipeline.DependsOn) == 0 {
		return "", nil
	}
	_, why, err := s.base(ctx, t, h)
	if errors.As(err, new(*flow.Failure)) {
		return "", nil // there is no base: the run will say so
	}
	return why, err
}

// base is where the work of a task begins, and which tasks it has to wait for. h is its journal, nil without one.
func (s Assessor) base(ctx context.Context, t *taskdir.Task, h *journal.History) (bases.Base, string, error) {
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return bases.Base{}, "", err
	}
	b := bases.Finder{Repo: s.Repo, Store: s.Store, OnlyMerged: s.Config.DependsOnMerged, Merges: &s.shared().merges}
	return b.Of(ctx, t, begunAt(t, h, p), p.Fresh)
}

// begunAt is where the branch of a task began, by its journal, or without one by task.json; zero when it did not.
func begunAt(t *taskdir.Task, h *journal.History, p pipeline.Progress) bases.Base {
	if h == nil || h.Flow != pipeline.Flow {
		return bases.Base{Commit: t.Pipeline.BaseCommit, On: t.Pipeline.StackedOn}
	}
	return bases.Base{Commit: p.Base, On: p.StackedOn}
}

func (s Assessor) move(l Assessment, from, to trellis.Status) error {
	_, err := s.Store.Update(l.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status == from {
			e.Set("status", to)
		}
		return nil
	})
	return err
}

// held reports whether some process holds the run.
func IsHeld(dir string) bool { return durable.Held(filepath.Join(dir, taskdir.RunLock)) }
