package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// TaskRunner takes one task from where its journal stands to its end.
type TaskRunner struct{ *Site }

// TaskRunner works on s.
func (s *Site) TaskRunner() TaskRunner { return TaskRunner{s} }

// Result is where a task stood when this process let go of it.
type Result struct {
	Dir         string
	Status      trellis.Status
	Outcome     trellis.Outcome
	Failure     *flow.Failure // of a run that failed or was paused by a budget
	Report      pipeline.Report
	Waits       []string  // what a parked run, or a task that is not begun, waits for
	Until       time.Time // when that has passed, zero if nobody knows
	Interrupted bool      // this process was told to end; the run goes on later
	Progress    bool      // the run ended, or did some of its work
	Rollback    []string  // of a run that failed: how to go back, as its plan says
}

// RunOptions are what a person says when starting a task.
type RunOptions struct {
	Agent string // instead of the configured one
	Adopt bool   // use an existing branch that is not the task's
	// Deliver asks for push and pull request, whatever is configured.
	Deliver bool
}

var (
	// ErrStopped says that a person stopped the run; the task is paused.
	ErrStopped = errors.New("stopped")
	// ErrVanished says that the task directory went away while it ran (another branch was checked out).
	ErrVanished = errors.New("the task directory is gone")
	// ErrPlanning says that a task is still being planned.
	ErrPlanning = errors.New("the task is being planned")
)

// NotReadyError says why a task can't run.
type NotReadyError struct{ Problems []trellis.Problem }

func (e *NotReadyError) Error() string {
	if len(e.Problems) == 0 {
		return "the task is not ready"
	}
	return e.Problems[0].Error()
}

// RefusedError is a request that the task's state forbids, and what to type instead.
type RefusedError struct{ Why, Hint string }

func (e *RefusedError) Error() string { return e.Why }

// run takes one task from where its journal stands to its end, or as far as it goes now. It holds the
// task's lock all the time; *durable.HeldError says that someone else does. Once the run is begun it calls
// begun, unless that is nil.
func (s TaskRunner) Run(ctx context.Context, dir string, o RunOptions, begun func(dir string) error) (Result, error) {
	if err := s.guard().trustedRun(ctx, dir); err != nil {
		return Result{Dir: dir}, err
	}
	deps, run := s.pipelineDeps(dir), ""
	deps.Stand = s.Hooks().afterStart(ctx, dir, &run, deps.Stand)
	effects, crew := pipeline.New(deps), s.Roles().crew(dir, deps.Marker)
	crew.Slots, crew.Check, crew.Watch = effects.Prompts.Slots, effects.Prompts.Check, effects.Calls.Watch
	j, err := s.open(dir, pipeline.Coded(append(effects.Activities(), crew.Activities(pipeline.Roles()...)...)), s.mailbox(dir))
	if errors.Is(err, journal.ErrDamaged) {
		return s.unreadable(ctx, dir, err)
	}
	if err != nil {
		return Result{Dir: dir}, err
	}
	defer j.Close()
	in, err := s.begin(ctx, j, dir, o)
	if errors.Is(err, errOver) {
		t, err := s.Store.Load(dir)
		if err != nil {
			return Result{Dir: dir}, err
		}
		return s.Starter().standing(t), nil
	}
	if err != nil {
		return Result{Dir: dir}, err
	}
	if begun != nil {
		if err := begun(dir); err != nil {
			return Result{Dir: dir}, err
		}
	}
	crew.Agents = s.Roles().cast(in.Nonce)
	past, err := pipeline.ReadProgress(j.History())
	if err != nil {
		return Result{Dir: dir}, err
	}
	effects.Begin(in.Revision, past)
	run = j.History().Run
	defer listen(dir, j.Poke)()
	if err := s.awake(dir); err != nil {
		return Result{Dir: dir}, err
	}
	before := pipeline.Worked(j.History())
	rep, err := journal.Execute(ctx, j, pipeline.Run(effects.Bundles.Bundle))
	res, err := s.result(ctx, dir, rep, err)
	after := j.History()
	res.Progress = after.Ended || pipeline.Worked(after) > before
	if res.Status == trellis.Completed {
		_, perr := s.Store.CompleteParents(dir)
		err = errors.Join(err, perr)
	}
	s.Hooks().afterFinish(ctx, dir, after.Run, res.Status)
	return res, err
}

// errOver says that there is no run to go on with, and that the task's status asks for no other.
var errOver = errors.New("the task has ended")

// begin begins a new run when there is none to go on with, and returns the input of the run. It is errOver when another
// process ran the task to its end after the caller had judged it, and before the lock was taken.
func (s TaskRunner) begin(ctx context.Context, j *journal.Run, dir string, o RunOptions) (in pipeline.Input, err error) {
	h := j.History()
	if h.Run != "" && !h.Ended {
		if h.Flow != pipeline.Flow {
			return in, ErrPlanning
		}
		return in, json.Unmarshal(h.Input, &in)
	}
	if t, err := s.Store.Load(dir); err != nil {
		return in, err
	} else if t.Status.Ended() {
		return in, errOver
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return in, err
	}
	if in, err = s.input(ctx, dir, h, p, o); err != nil {
		return in, err
	}
	if h.Run != "" && h.Flow == pipeline.Flow {
		in.Retries++
	}
	return in, s.beginRun(j, h, dir, in)
}

func (s TaskRunner) input(ctx context.Context, dir string, h *journal.History, p pipeline.Progress, o RunOptions) (pipeline.Input, error) {
	t, err := s.Store.Load(dir)
	if err != nil {
		return pipeline.Input{}, err
	}
	base := begunAt(t, h, p)
	used, err := s.used(dir, h)
	if err != nil {
		return pipeline.Input{}, err
	}
	held, err := s.undelivered(ctx, t, p)
	return pipeline.Input{Code: pipeline.Code, Task: filepath.Base(dir), Agent: o.Agent, Adopt: o.Adopt, Nonce: nonce(),
		Attempts: p.Attempts, Retries: p.Retries, Revision: p.Revision, Used: used, Implemented: p.Implemented, Baseline: p.Baseline, Begun: p.Begun, Finished: p.Finished,
		Fresh: p.Fresh, Base: base.Commit, StackedOn: base.On, Undelivered: held, Deliver: o.Deliver,
		React: p.React, Reactions: p.Reactions, Hooks: p.Hooks, Since: p.Since, Borrowed: p.Borrowed}, err
}

// undelivered is what the last run of a task verified and could not deliver, nil when its branch moved since.
func (s TaskRunner) undelivered(ctx context.Context, t *taskdir.Task, p pipeline.Progress) (*pipeline.Report, error) {
	if !p.Undelivered || p.Fresh {
		return nil, nil
	}
	tip, err := s.Repo.Refs().Branch(ctx, t.BranchName())
	if err != nil || tip != p.Report.Commit {
		return nil, err
	}
	return p.Report, nil
}

// used is what agents used for a task so far, its plannings included: by the journal, or without one by task.json.
func (s TaskRunner) used(dir string, h *journal.History) (trellis.Usage, error) {
	switch {
	case h.Run == "":
		t, err := s.Store.Load(dir)
		if err != nil {
			return trellis.Usage{}, err
		}
		return t.Pipeline.Usage, nil
	case h.Flow == planner.Flow:
		return planner.Used(h)
	}
	p, err := pipeline.ReadProgress(h)
	return p.Used, err
}

func (s TaskRunner) beginRun(j *journal.Run, h *journal.History, dir string, in pipeline.Input) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding the run's input: %w", err)
	}
	return j.Begin(journal.Spec{Run: fmt.Sprintf("%s/%d", filepath.Base(dir), h.Number+1), Flow: pipeline.Flow, Code: in.Code, Input: raw})
}

// awake takes a task that was put to sleep (paused, waiting) back to in_progress. One whose time has not come
// stays paused: its run sleeps on.
func (s TaskRunner) awake(dir string) error {
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		switch t.Status {
		case trellis.Paused, trellis.Waiting:
			if !pipeline.Stopped(t) && t.Pipeline.ResumeAt.After(s.Clock()) {
				return nil
			}
			e.Set("status", trellis.InProgress)
			e.Set("pipeline.failure", taskdir.Failure{})
		case trellis.InProgress:
			if t.Pipeline.Failure.Code == trellis.Interrupted {
				e.Set("pipeline.failure", taskdir.Failure{})
			}
		}
		return nil
	})
	return err
}

// result turns the end of Execute into where the task stands.
func (s TaskRunner) result(ctx context.Context, dir string, rep pipeline.Report, err error) (Result, error) {
	r := Result{Dir: dir, Report: rep}
	var parked *journal.Parked
	var unmet *bases.UnmetError
	var untrusted *trust.UntrustedError
	switch {
	case errors.As(err, &untrusted):
		return r, untrusted
	case errors.As(err, &r.Failure), errors.Is(err, flow.ErrCancelled), errors.Is(err, ErrStopped):
		err = nil
	case errors.As(err, &parked):
		r.Waits, r.Until = parked.For, parked.Until
		err = s.asleep(dir, parked)
	case errors.As(err, &unmet):
		r.Waits = []string{unmet.Waits}
		err = s.unmet(dir)
	case errors.Is(err, flow.ErrSuspended) && ctx.Err() != nil:
		r.Interrupted = true
		err = s.interrupted(dir)
	case errors.Is(err, flow.ErrSuspended) && !errors.Is(err, journal.ErrFenced):
		err = s.unusable(dir, err)
	}
	if t, lerr := s.Store.Load(dir); lerr == nil {
		r.Status, r.Outcome = t.Status, t.Pipeline.Outcome
		if parked != nil && t.Pipeline.Failure.Code != "" {
			r.Failure = asFailure(t.Pipeline.Failure)
		}
		r.Rollback = s.rollback(t)
	}
	if parked != nil && r.Status == trellis.Waiting && err == nil {
		if l, lerr := s.Assessor().Assess(ctx, dir); lerr == nil && l.Waits != "" {
			r.Waits = []string{l.Waits} // in words
		}
	}
	return r, err
}

// unmet has a task wait whose run was begun too early.
func (s TaskRunner) unmet(dir string) error {
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status == trellis.Ready || t.Status == trellis.InProgress {
			e.Set("status", trellis.Waiting)
		}
		return nil
	})
	return err
}

// rollback is what the plan of a task that failed says about going back.
func (s TaskRunner) rollback(t *taskdir.Task) []string {
	if t.Status != trellis.Failed {
		return nil
	}
	p, err := pipeline.ReadPlan(s.Store, t.Dir)
	if err != nil || p == nil {
		return nil
	}
	return p.Rollback
}

// asleep has task.json say again what a parked run waits for: whoever began to go on with it took that away.
func (s TaskRunner) asleep(dir string, parked *journal.Parked) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return err
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return err
	}
	last := p.Standing
	if last.Status != trellis.Paused && last.Status != trellis.Waiting {
		return nil
	}
	_, err = s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status != trellis.InProgress && (t.Status != trellis.Paused || pipeline.Stopped(t)) {
			return nil
		}
		if t.Status != last.Status {
			e.Set("status", last.Status)
		}
		if f := last.Failure; f != nil && t.Pipeline.Failure.Code != trellis.Code(f.Code) {
			e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Code(f.Code), Detail: f.Detail, Retryable: f.Retryable, At: f.At})
		}
		resume := last.ResumeAt
		if !resume.After(s.Clock()) {
			resume = parked.Until
		}
		if !resume.Equal(t.Pipeline.ResumeAt) {
			e.Set("pipeline.resume_at", resume)
		}
		return nil
	})
	return err
}

// unusable says what is wrong with the task.json of a run that sleeps because of it; other errors are returned.
func (s TaskRunner) unusable(dir string, err error) error {
	var p *trellis.Problem
	switch {
	case errors.Is(err, ErrVanished), errors.Is(err, taskdir.ErrNotFound):
		p = &trellis.Problem{File: s.Store.Rel(filepath.Join(dir, taskdir.TaskJSON)), Message: "is gone, and its run sleeps until it is back (was another branch checked out?)",
			Hint: "bring it back; then trellis start " + filepath.Base(dir)}
	case errors.As(err, &p):
	default:
		return err
	}
	return &NotReadyError{[]trellis.Problem{*p}}
}

// interrupted notes in task.json why nothing goes on.
func (s TaskRunner) interrupted(dir string) error {
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status == trellis.InProgress {
			e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Interrupted, Detail: "the process was told to end", Retryable: true, At: s.Clock()})
		}
		return nil
	})
	if errors.Is(err, taskdir.ErrNotFound) {
		return nil
	}
	return err
}

// unreadable fails a task whose journal is there but can't be read: its work is backed up, and nothing
// begins afresh by itself.
func (s TaskRunner) unreadable(ctx context.Context, dir string, cause error) (Result, error) {
	lock, err := runlock.Take(dir, s.Clock()) // who wrote the journal may still be at work in the worktree
	if err != nil {
		return Result{Dir: dir}, err
	}
	defer lock.Unlock()
	fail := flow.Fail(string(trellis.JournalDamaged), "%v", cause)
	fail.At = s.Clock()
	t, err := s.Store.Load(dir)
	if err != nil {
		return Result{Dir: dir}, err
	}
	if _, serr := os.Stat(t.WorktreePath); t.WorktreePath != "" && serr == nil {
		ref := fmt.Sprintf("refs/trellis/backup/%s/journal-%d", t.ID, s.Clock().Unix())
		if _, err := s.Repo.Backups().Backup(ctx, t.WorktreePath, ref, "trellis: work of "+t.ID+", whose journal is damaged"); err != nil {
			return Result{Dir: dir}, fmt.Errorf("backing up %s: %w", t.WorktreePath, err)
		}
		fail.Detail += "; the work is kept as " + ref
	}
	_, err = s.Store.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.Project(trellis.Failed)
		e.Set("pipeline.outcome", trellis.OutcomeFailed)
		e.Set("pipeline.failure", taskdir.Failure{Code: trellis.JournalDamaged, Detail: fail.Detail, At: fail.At})
		return nil
	})
	return Result{Dir: dir, Status: trellis.Failed, Outcome: trellis.OutcomeFailed, Failure: fail}, err
}

// mailbox is how people talk to a run: by the files of its task directory, as the commands do and as they
// may by hand.
func (s TaskRunner) mailbox(dir string) func(*journal.Run) []journal.Message {
	var missing time.Time // since when task.json is
	return func(j *journal.Run) []journal.Message {
		t, err := s.Store.Load(dir)
		switch {
		case !errors.Is(err, taskdir.ErrNotFound):
			missing = time.Time{}
		case missing.IsZero():
			missing = time.Now()
		case time.Since(missing) > pipeline.Saving:
			return []journal.Message{{Suspend: ErrVanished}}
		}
		if err != nil {
			return nil // half-written by hand; it is looked at again, and the next phase says what is wrong
		}
		switch {
		case t.Status == trellis.Cancelled:
			return []journal.Message{{ID: "cancel", Cancel: true}}
		case pipeline.Stopped(t):
			return []journal.Message{{Suspend: ErrStopped}}
		}
		return s.Approvals().answers(dir, j)
	}
}

// check is the failure of a task that can't run, as everyone sees it.
func (s Assessor) check(ctx context.Context, dir string, adopt bool) error {
	problems, err := ready.Check(ctx, ready.Input{Dir: dir, Store: s.Store, Status: trellis.Ready, Begins: s.Repo, Adopt: adopt, Neighbours: &s.shared().neighbours,
		MaxSteps: s.Config.Planning.MaxSteps, LookPath: s.LookPath})
	if err != nil {
		return err
	}
	var wrong []trellis.Problem
	for _, p := range problems {
		if !p.Warning {
			wrong = append(wrong, p)
		}
	}
	if len(wrong) > 0 {
		return &NotReadyError{wrong}
	}
	return nil
}

func asFailure(f taskdir.Failure) *flow.Failure {
	return &flow.Failure{Code: string(f.Code), Detail: f.Detail, Retryable: f.Retryable, At: f.At}
}
