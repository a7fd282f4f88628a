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

// TaskRunner runs a task: it resumes where the task's journal ends and continues to the end of the run.
type TaskRunner struct{ *Site }

// RunOptions are the options with which a person starts a task.
type RunOptions struct {
	Agent string // agent to use instead of the configured one
	Adopt bool   // use an existing branch that the task did not create
	// Deliver asks for push and pull request, whatever the configuration says.
	Deliver bool
	// Unattended is set if no person starts the task: Run returns a *ConflictError unless it fits beside those on all sharing machines.
	Unattended bool
}

var (
	// ErrStopped is returned when a person stopped the run; the task is paused.
	ErrStopped = errors.New("stopped")
	// ErrVanished is returned when the task directory disappeared during the run (another branch was checked out).
	ErrVanished = errors.New("the task directory is gone")
	// ErrPlanning is returned for a task that is still being planned.
	ErrPlanning = errors.New("the task is being planned")
)

// NotReadyError lists the problems because of which a task can't run.
type NotReadyError struct{ Problems []trellis.Problem }

func (e *NotReadyError) Error() string {
	if len(e.Problems) == 0 {
		return "the task is not ready"
	}
	return e.Problems[0].Error()
}

// RefusedError is returned for a request that the task's state forbids. Hint is the command to type instead, if there is one.
type RefusedError struct{ Why, Hint string }

func (e *RefusedError) Error() string { return e.Why }

// Run runs one task from where its journal ends to the end of the run, or as far as it gets now. It holds the task's lock all
// the time. It returns a *durable.HeldError if another process holds the lock, and an *OtherMachineError if another machine has
// the task. Once the run has begun, it calls begun, unless that is nil.
func (s TaskRunner) Run(ctx context.Context, dir string, o RunOptions, begun func(dir string) error) (Result, error) {
	if s.Sharing == nil {
		return s.run(ctx, dir, o, begun, unsharedLease{})
	}
	lease, err := s.Sharing.Take(ctx, dir, func(running []string) (competes bool, err error) {
		h, _ := journal.Read(filepath.Join(dir, taskdir.Run)) // opening the journal reports what is wrong with it
		if err := checkVersion(dir, h); err != nil {
			return false, err
		}
		t, err := s.Store.Load(dir)
		if err == nil {
			err = s.checkTaskPrograms(t)
		}
		if err == nil {
			err = s.CheckAgents(ctx, t, o.Agent)
		}
		if err != nil || !o.Unattended {
			return false, err
		}
		return s.checkConflicts(t, running)
	})
	if err != nil {
		return Result{Dir: dir}, err
	}
	held, end := lease.Hold(ctx)
	res, err := s.run(held, dir, o, begun, lease)
	return res, errors.Join(err, end(res))
}

func (s TaskRunner) run(ctx context.Context, dir string, o RunOptions, begun func(dir string) error, lease lease) (Result, error) {
	if err := s.guard().checkRun(ctx, dir); err != nil {
		return Result{Dir: dir}, err
	}
	deps, run := s.pipelineDeps(dir), ""
	onState := deps.OnState
	deps.OnState = func(st pipeline.TaskState) {
		if onState(st); st.Job != nil { // task.json now says that the run began; the run continues when the hooks have ended
			s.Hooks().hook(ctx, hooks.AfterStart, dir, run)
		}
	}
	calls := agentCallers(s.Site)
	effects, caller := pipeline.New(deps), calls.caller(dir, deps.Marker)
	caller.Slots, caller.Check, caller.Watch = effects.Prompts.Slots, effects.Prompts.Check, effects.Calls.Watch
	j, err := s.open(ctx, dir, publishEffects(lease, pipeline.WithFailureCodes(append(effects.Activities(), calls.reportFixes(dir, caller.Activities(pipeline.Roles()...))...))), s.mailbox(dir))
	if errors.Is(err, journal.ErrDamaged) {
		return s.states().failDamaged(ctx, s.Repo, dir)
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
	caller.Agents = s.Roles().agents(in.Nonce)
	s.traced(caller, j)
	past, err := pipeline.ReadProgress(j.History())
	if err != nil {
		return Result{Dir: dir}, err
	}
	run = j.History().Run
	if err := s.loadProgress(ctx, lease, effects, run, in.Revision, past); err != nil {
		return Result{Dir: dir}, err
	}
	defer watchEvents(dir, j.Poke)()
	if err := s.states().setInProgress(dir, !o.Unattended); err != nil {
		return Result{Dir: dir}, err
	}
	if past.State.Status == trellis.InProgress { // a replay does not report the state that the journal holds, so report it here
		onState(past.State)
	}
	before := pipeline.CompletedActivities(j.History())
	rep, err := journal.Execute(ctx, j, pipeline.Run(effects.Bundles.Bundle))
	res, err := s.result(ctx, dir, rep, err)
	after := j.History()
	res.Progress = after.Ended || pipeline.CompletedActivities(after) > before
	if res.Status == trellis.Completed {
		_, perr := s.Store.CompleteParents(dir)
		err = errors.Join(err, perr)
	}
	s.Hooks().afterFinish(ctx, dir, after.Run, res.Status)
	s.eventsOf(dir).sendEnd(after, res)
	return res, err
}

// errEnded is returned by begin if there is no run to resume and the task's status does not ask for a new one.
var errEnded = errors.New("the task does not ask to be run")

// begin begins a new run if there is none to resume, and returns the input of the run. It returns errEnded if another process ran
// the task to its end, or a person took it back from a watcher, between the assessment by the caller and the taking of the lock.
func (s TaskRunner) begin(ctx context.Context, j *journal.Run, dir string, o RunOptions) (in pipeline.Input, err error) {
	h := j.History()
	if err := checkVersion(dir, h); err != nil {
		return in, err
	}
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
	asked := t.Status == trellis.Ready || t.Status == trellis.Paused && !pipeline.Stopped(t) // Paused: by Trellis, and somebody removed the journal
	if t.Status.Ended() || o.Unattended && !asked {
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
	base := recordedBase(t, h, p)
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

// undelivered returns what the last run of a task verified and could not deliver, or nil if the branch moved since.
func (s TaskRunner) undelivered(ctx context.Context, t *taskdir.Task, p pipeline.Progress) (*pipeline.Report, error) {
	if !p.HasUndelivered || p.Fresh {
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

// result converts the outcome of journal.Execute to a Result, and updates task.json if the run stopped before its end.
func (s TaskRunner) result(ctx context.Context, dir string, rep pipeline.Report, err error) (Result, error) {
	r := Result{Dir: dir, Report: rep}
	var parked *journal.Parked
	var unmet *bases.UnmetError
	var untrusted *trust.UntrustedError
	switch {
	case errors.As(err, &untrusted):
		return r, untrusted
	case errors.As(err, new(instructionsError)):
		return r, instructionsProblem(err, "trellis start "+trellis.ShellWord(filepath.Base(dir)))
	case errors.Is(err, ErrStopped):
		err = s.states().recordUsage(dir, trellis.Paused)
	case errors.As(err, &r.Failure), errors.Is(err, flow.ErrCancelled):
		err = nil
	case errors.As(err, &parked):
		r.Waits, r.Until = bases.Waits{{For: strings.Join(parked.For, ", ")}}, parked.Until
		err = s.states().restoreWait(dir, parked)
	case errors.As(err, &unmet):
		r.Waits = unmet.Waits
		err = s.states().setWaiting(dir)
	case errors.Is(err, flow.ErrSuspended) && ctx.Err() != nil:
		r.Interrupted = true
		err = errors.Join(s.states().noteInterrupted(dir), s.states().recordUsage(dir, trellis.InProgress))
	case errors.As(err, new(*journal.GoneError)), errors.Is(err, flow.ErrSuspended) && !errors.As(err, new(*OtherMachineError)) && !durable.Exists(dir):
		err = s.goneError(dir)
	case errors.Is(err, flow.ErrSuspended) && !errors.Is(err, journal.ErrFenced):
		err = s.taskJSONProblem(dir, err)
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
			r.Waits = currentWaits(l)
		}
	}
	return r, err
}

// currentWaits returns what a parked run waits for now: meanwhile it may have been answered, or a file broken.
func currentWaits(l Assessment) bases.Waits {
	id := filepath.Base(l.Dir)
	switch {
	case len(l.Waits) > 0:
		return l.Waits
	case len(l.Problems) > 0:
		return bases.Waits{{For: "somebody: " + l.Problems[0].Error(), Next: "trellis validate " + trellis.ShellWord(id)}}
	}
	return bases.Waits{{For: "nothing any more", Next: "trellis start " + trellis.ShellWord(id)}}
}

// goneError returns a *NotReadyError that says that the directory of a run, or its run/, was removed or renamed.
func (s TaskRunner) goneError(dir string) error {
	p := trellis.Problem{File: s.Store.Rel(dir), Message: "was removed or renamed while its run was at work, which ended there",
		Hint: "name it so again, then trellis start " + trellis.ShellWord(filepath.Base(dir)) + "; of one that was removed trellis cleanup shows what is left"}
	if !durable.WaitGone(dir) {
		p.File, p.Hint = filepath.Join(p.File, taskdir.Run), "trellis retry "+trellis.ShellWord(filepath.Base(dir))
	}
	return &NotReadyError{[]trellis.Problem{p}}
}

// taskJSONProblem returns a *NotReadyError with what is wrong with the task.json that a run sleeps for; other errors are returned as is.
func (s TaskRunner) taskJSONProblem(dir string, err error) error {
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

// pipelineDeps returns the dependencies from which the effects of a task's run are made.
func (s TaskRunner) pipelineDeps(dir string) pipeline.Deps {
	d := pipeline.Deps{Dir: dir, Repo: s.Repo, Agents: s.Roles().agents(nonce()), Store: s.Store, Config: s.Config, LookPath: s.LookPath, Neighbours: &s.shared().neighbours, Merges: &s.shared().merges,
		Environ: s.Environ, Box: s.Box, Marker: runlock.Marker(dir), Redact: s.Redact, Secrets: s.Secrets, Disk: s.Disk, Now: s.Clock, Deliver: s.deliver,
		OnCheck: s.eventsOf(dir).sendCheck,
		Step:    func(e workflow.Event) { s.Tell(Event{Task: filepath.Base(dir), Step: &e}) },
		OnState: func(st pipeline.TaskState) {
			s.shared().phases.Store(dir, Phase{st.Phase, st.Round})
			s.Tell(Event{Task: filepath.Base(dir), Round: st.Round, State: &st})
		}}
	s.guard().guardEffects(&d)
	return d
}

func (s TaskRunner) effects(dir string) *pipeline.Effects { return pipeline.New(s.pipelineDeps(dir)) }

// TakeLastPhase returns the phase that a run of this process entered last, if it entered one since the previous call.
func (s TaskRunner) TakeLastPhase(dir string) (Phase, bool) {
	last, ok := s.shared().phases.LoadAndDelete(dir)
	now, _ := last.(Phase)
	return now, ok
}

// Phase is the phase and round that a run is in.
type Phase struct {
	Name  string
	Round int
}

// CheckAgents returns an error unless the agents of a task's run are available, git has an identity to commit with, and temporary
// files can be made. If only the delivery is left, no agent is asked, and none of this is checked; if it turns out that something
// was changed since, the run itself reports what is missing.
func (s TaskRunner) CheckAgents(ctx context.Context, t *taskdir.Task, flag string) error {
	h, err := journal.Read(filepath.Join(t.Dir, taskdir.Run))
	if err != nil {
		h = nil // running the task reports the error
	}
	p, err := pipeline.ReadProgress(h)
	if err == nil && p.Feedback == nil && slices.Contains([]string{"", "prepare", "deliver"}, p.State.Phase) {
		if held, err := s.undelivered(ctx, t, p); err == nil && held != nil {
			return nil
		}
	}
	if err := s.Roles().checkAgentsAndIdentity(ctx, pipeline.Roles(), t.Pipeline.Agent, flag); err != nil {
		return err
	}
	return CheckTemp()
}
