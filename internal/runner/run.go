package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// TaskRunner takes one task from where its journal stands to its end.
type TaskRunner struct{ *Site }

// RunOptions are what a person says when starting a task.
type RunOptions struct {
	Agent string // instead of the configured one
	Adopt bool   // use an existing branch that is not the task's
	// Deliver asks for push and pull request, whatever is configured.
	Deliver bool
	// Beside has it run only if it fits beside the tasks that run on all machines which share them, else the error is a *CrowdedError.
	Beside bool
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

// Run takes one task from where its journal stands to its end, or as far as it goes now. It holds the
// task's lock all the time; *durable.HeldError says that someone else does, and *ElsewhereError that another machine has it. Once the
// run is begun it calls begun, unless that is nil.
func (s TaskRunner) Run(ctx context.Context, dir string, o RunOptions, begun func(dir string) error) (Result, error) {
	if s.Sharing == nil {
		return s.run(ctx, dir, o, begun, alone{})
	}
	lease, err := s.Sharing.Take(ctx, dir, func(running []string) (competes bool, err error) {
		if err := current(dir); err != nil {
			return false, err
		}
		t, err := s.Store.Load(dir)
		if err == nil {
			err = s.equipped(t)
		}
		if err == nil {
			err = s.CheckAgents(ctx, t, o.Agent)
		}
		if err != nil || !o.Beside {
			return false, err
		}
		return s.beside(t, running)
	})
	if err != nil {
		return Result{Dir: dir}, err
	}
	held, end := lease.Hold(ctx)
	res, err := s.run(held, dir, o, begun, lease)
	return res, errors.Join(err, end(res))
}

func (s TaskRunner) run(ctx context.Context, dir string, o RunOptions, begun func(dir string) error, lease lease) (Result, error) {
	if err := s.guard().trustedRun(ctx, dir); err != nil {
		return Result{Dir: dir}, err
	}
	deps, run := s.pipelineDeps(dir), ""
	stand := deps.OnState
	deps.OnState = func(st pipeline.TaskState) {
		if stand(st); st.Job != nil { // task.json says that the run began, which goes on when the hooks have ended
			s.Hooks().hook(ctx, hooks.AfterStart, dir, run)
		}
	}
	calls := agentCallers(s.Site)
	effects, caller := pipeline.New(deps), calls.caller(dir, deps.Marker)
	caller.Slots, caller.Check, caller.Watch = effects.Prompts.Slots, effects.Prompts.Check, effects.Calls.Watch
	j, err := s.open(ctx, dir, saved(lease, pipeline.Coded(append(effects.Activities(), calls.mending(dir, caller.Activities(pipeline.Roles()...))...))), s.mailbox(dir))
	if errors.Is(err, journal.ErrDamaged) {
		return s.states().unreadable(ctx, s.Repo, dir)
	}
	if err != nil {
		return Result{Dir: dir}, err
	}
	defer j.Close()
	in, err := s.begin(ctx, j, dir, o)
	if errors.Is(err, errEnded) {
		t, err := s.Store.Load(dir)
		if err != nil {
			return Result{Dir: dir}, err
		}
		return taskState(s.Store, t), nil
	}
	if err != nil {
		return Result{Dir: dir}, err
	}
	if begun != nil {
		if err := begun(dir); err != nil {
			return Result{Dir: dir}, err
		}
	}
	caller.Agents = s.Roles().cast(in.Nonce)
	s.traced(caller, j)
	past, err := pipeline.ReadProgress(j.History())
	if err != nil {
		return Result{Dir: dir}, err
	}
	run = j.History().Run
	if err := s.bring(ctx, lease, effects, run, in.Revision, past); err != nil {
		return Result{Dir: dir}, err
	}
	defer watchEvents(dir, j.Poke)()
	if err := s.states().awake(dir, !o.Beside); err != nil {
		return Result{Dir: dir}, err
	}
	if past.State.Status == trellis.InProgress { // its journal says so, which tells nobody what was told before
		stand(past.State)
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
	s.eventsOf(dir).ended(after, res)
	return res, err
}

// errEnded says that there is no run to go on with, and that the task's status asks for no other.
var errEnded = errors.New("the task does not ask to be run")

// begin begins a new run when there is none to go on with, and returns the input of the run. It is errEnded when another
// process ran the task to its end, or a person took it back from a watcher, after the caller had judged it and before the lock was
// taken.
func (s TaskRunner) begin(ctx context.Context, j *journal.Run, dir string, o RunOptions) (in pipeline.Input, err error) {
	h := j.History()
	if h.Run != "" && !h.Ended {
		if h.Flow != pipeline.Flow {
			return in, ErrPlanning
		}
		return in, json.Unmarshal(h.Input, &in)
	}
	t, err := s.Store.Load(dir)
	if err != nil {
		return in, err
	}
	asked := t.Status == trellis.Ready || t.Status == trellis.Paused && !pipeline.Stopped(t) // whose journal somebody took away
	if t.Status.Ended() || o.Beside && !asked {
		return in, errEnded
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return in, err
	}
	if in, err = s.input(ctx, t, h, p, o); err != nil {
		return in, err
	}
	if h.Run != "" && h.Flow == pipeline.Flow {
		in.Retries++
	}
	return in, beginRun(j, in)
}

func (s TaskRunner) input(ctx context.Context, t *taskdir.Task, h *journal.History, p pipeline.Progress, o RunOptions) (pipeline.Input, error) {
	base := begunAt(t, h, p)
	used, err := usedBy(t, h)
	if err != nil {
		return pipeline.Input{}, err
	}
	held, err := s.undelivered(ctx, t, p)
	return pipeline.Input{Code: pipeline.Code, Task: t.ID, Agent: o.Agent, Adopt: o.Adopt, Nonce: nonce(),
		Attempts: p.Attempts, Retries: p.Retries, Revision: p.Revision, Used: used, Implemented: p.Implemented, Baseline: p.Baseline, Begun: p.Begun, Finished: p.Finished,
		Fresh: p.Fresh, Base: base.Commit, Branch: p.Branch, StackedOn: base.On, Undelivered: held, Deliver: o.Deliver,
		React: p.React, Feedback: p.Feedback, Reactions: p.Reactions, Hooks: p.Hooks, Since: p.Since, Borrowed: p.Borrowed, Filled: p.Filled}, err
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

func beginRun(j *journal.Run, in pipeline.Input) error {
	return beginFlow(j, pipeline.Flow, in.Task, in.Code, in)
}

func beginFlow(j *journal.Run, flow, id string, code int, in any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encoding the input of %s: %w", id, err)
	}
	return j.Begin(journal.Spec{Run: fmt.Sprintf("%s/%d", id, j.History().Number+1), Flow: flow, Code: code, Input: raw})
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
	case errors.As(err, new(wordsError)):
		return r, mistaken(err, "trellis start "+trellis.ShellWord(filepath.Base(dir)))
	case errors.Is(err, ErrStopped):
		err = s.states().count(dir, trellis.Paused)
	case errors.As(err, &r.Failure), errors.Is(err, flow.ErrCancelled):
		err = nil
	case errors.As(err, &parked):
		r.Waits, r.Until = bases.Waits{{For: strings.Join(parked.For, ", ")}}, parked.Until
		err = s.states().asleep(dir, parked)
	case errors.As(err, &unmet):
		r.Waits = unmet.Waits
		err = s.states().unmet(dir)
	case errors.Is(err, flow.ErrSuspended) && ctx.Err() != nil:
		r.Interrupted = true
		err = errors.Join(s.states().interrupted(dir), s.states().count(dir, trellis.InProgress))
	case errors.As(err, new(*journal.GoneError)), errors.Is(err, flow.ErrSuspended) && !errors.As(err, new(*ElsewhereError)) && !durable.Exists(dir):
		err = s.gone(dir)
	case errors.Is(err, flow.ErrSuspended) && !errors.Is(err, journal.ErrFenced):
		err = s.unusable(dir, err)
	}
	if t, lerr := s.Store.Load(dir); lerr == nil {
		now := taskState(s.Store, t)
		r.Status, r.Outcome, r.Rollback, r.Unheeded = now.Status, now.Outcome, now.Rollback, now.Unheeded
		if parked != nil {
			r.Failure = now.Failure
		}
	}
	if parked != nil && r.Status == trellis.Waiting && err == nil {
		if l, lerr := s.Assessor().Assess(ctx, dir); lerr == nil {
			r.Waits = stillFor(l)
		}
	}
	return r, err
}

// stillFor is what a run that has parked waits for. Meanwhile it may have been answered, or a file broken.
func stillFor(l Assessment) bases.Waits {
	id := filepath.Base(l.Dir)
	switch {
	case len(l.Waits) > 0:
		return l.Waits
	case len(l.Problems) > 0:
		return bases.Waits{{For: "somebody: " + l.Problems[0].Error(), Next: "trellis validate " + trellis.ShellWord(id)}}
	}
	return bases.Waits{{For: "nothing any more", Next: "trellis start " + trellis.ShellWord(id)}}
}

// gone says that the directory of a run, or its run/, is not where it was.
func (s TaskRunner) gone(dir string) error {
	p := trellis.Problem{File: s.Store.Rel(dir), Message: "was removed or renamed while its run was at work, which ended there",
		Hint: "name it so again, then trellis start " + trellis.ShellWord(filepath.Base(dir)) + "; of one that was removed trellis cleanup shows what is left"}
	if !durable.Goes(dir) {
		p.File, p.Hint = filepath.Join(p.File, taskdir.Run), "trellis retry "+trellis.ShellWord(filepath.Base(dir))
	}
	return &NotReadyError{[]trellis.Problem{p}}
}

// unusable says what is wrong with the task.json of a run that sleeps because of it; other errors are returned.
func (s TaskRunner) unusable(dir string, err error) error {
	var p *trellis.Problem
	switch {
	case errors.Is(err, ErrVanished), errors.Is(err, taskdir.ErrNotFound):
		p = &trellis.Problem{File: s.Store.Rel(filepath.Join(dir, taskdir.TaskJSON)), Message: "is gone, and its run sleeps until it is back (was another branch checked out?)",
			Hint: "bring it back; then trellis start " + trellis.ShellWord(filepath.Base(dir))}
	case errors.As(err, &p):
	default:
		return err
	}
	return &NotReadyError{[]trellis.Problem{*p}}
}

// pipelineDeps are what the effects of a task's run are made of.
func (s TaskRunner) pipelineDeps(dir string) pipeline.Deps {
	d := pipeline.Deps{Dir: dir, Repo: s.Repo, Cast: s.Roles().cast(nonce()), Store: s.Store, Config: s.Config, LookPath: s.LookPath, Neighbours: &s.shared().neighbours, Merges: &s.shared().merges,
		Environ: s.Environ, Box: s.Box, Marker: runlock.Marker(dir), Redact: s.Redact, Secrets: s.Secrets, Disk: s.Disk, Now: s.Clock, Deliver: s.deliver,
		OnCheck: s.eventsOf(dir).checked,
		Step:    func(e workflow.Event) { s.Tell(Event{Task: filepath.Base(dir), Step: &e}) },
		OnState: func(st pipeline.TaskState) {
			s.shared().phases.Store(dir, Phase{st.Phase, st.Round})
			s.Tell(Event{Task: filepath.Base(dir), Round: st.Round, State: &st})
		}}
	s.guard().guardEffects(&d)
	return d
}

func (s TaskRunner) effects(dir string) *pipeline.Effects { return pipeline.New(s.pipelineDeps(dir)) }

// LastPhase is the last phase that a run of this process entered since it was asked before.
func (s TaskRunner) LastPhase(dir string) (Phase, bool) {
	last, ok := s.shared().phases.LoadAndDelete(dir)
	now, _ := last.(Phase)
	return now, ok
}

// Phase is where a run is.
type Phase struct {
	Name  string
	Round int
}

// CheckAgents looks whether the agents of a task's run are there, and room for the temporary files of its checks. Where only the delivery is left no agent is asked, so none need be there; if it
// turns out that something was changed since, the run itself says what is missing.
func (s TaskRunner) CheckAgents(ctx context.Context, t *taskdir.Task, flag string) error {
	h, err := journal.Read(filepath.Join(t.Dir, taskdir.Run))
	if err != nil {
		h = nil // whoever runs it says so
	}
	p, err := pipeline.ReadProgress(h)
	if err == nil && p.Feedback == nil && slices.Contains([]string{"", "prepare", "deliver"}, p.State.Phase) {
		if held, err := s.undelivered(ctx, t, p); err == nil && held != nil {
			return nil
		}
	}
	if err := s.Roles().able(ctx, pipeline.Roles(), t.Pipeline.Agent, flag); err != nil {
		return err
	}
	return CheckTemp()
}
