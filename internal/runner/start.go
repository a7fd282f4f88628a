package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Starter starts a task that a person wants to run, or hands it to the watcher and follows it.
type Starter struct {
	store    taskdir.Store
	assessor Assessor
	runner   TaskRunner
	orders   Orders
	guard    trustGuard
	states   states
	tell     func(Event)
	now      func() time.Time
}

// Start runs or resumes a task until its run ends or has to wait. If a watcher is alive and no options are set, it hands the
// task over and follows it. Callers tell these errors apart: *RefusedError, *NotReadyError, *durable.HeldError, ErrPlanning,
// *git.IdentityError, and a *flow.Failure agent_missing or agent_auth, found before anything is claimed.
func (st Starter) Start(ctx context.Context, dir string, o RunOptions) (Result, error) {
	t, res, err := st.startable(ctx, dir, o.Adopt)
	if refused, ok := errors.AsType[*RefusedError](err); ok && o.Adopt && refused.Hint == retryOf(dir) { // plain retry would refuse its branch
		if err = st.orders.Retry(ctx, dir, false, o); err == nil {
			t, res, err = st.startable(ctx, dir, o.Adopt)
		}
	}
	if runlock.Busy(err) && !res.Status.Ended() {
		return st.followOrRestart(ctx, dir, o, err)
	}
	st.warn(dir, res, err)
	if err != nil || t == nil {
		return res, err
	}
	if err := st.runner.CheckAgents(ctx, t, o.Agent); err != nil {
		return res, err
	}
	st.PrintAssumptions(dir)
	_, taken := st.WatcherFor(dir)
	hand := taken && o == (RunOptions{}) // options can't be passed to a watcher
	if why := st.assessor.conflictingTask(t); why != "" && hand {
		st.tell(Event{Task: t.ID, Message: t.ID + " waits for " + why})
	} else if why != "" {
		st.tell(Event{Task: t.ID, Message: t.ID + " is started while it conflicts with " + why})
	}
	if hand {
		runs, res, err := st.admit(ctx, dir)
		if err == nil && runs || runlock.Busy(err) && !res.Status.Ended() {
			return st.followOrRestart(ctx, dir, o, err)
		}
		return res, err
	}
	res, err = st.runner.Run(ctx, dir, o, st.markReady)
	if runlock.Busy(err) && !t.Status.Ended() {
		return st.followOrRestart(ctx, dir, o, err)
	}
	return res, err
}

// followOrRestart follows a task that was handed to a watcher or that another process holds; busy is the error in the second case. If
// that process ends without having ended the run, or without having begun it, followOrRestart starts the task again.
func (st Starter) followOrRestart(ctx context.Context, dir string, o RunOptions, busy error) (Result, error) {
	if held, ok := errors.AsType[*durable.HeldError](busy); ok {
		st.tell(Event{Task: filepath.Base(dir), Message: filepath.Base(dir) + " is held by " + held.By() + ": waiting for it"})
	}
	res, err := st.Follow(ctx, dir)
	if err != nil || res.Interrupted || len(res.Waits) > 0 {
		return res, err
	}
	failed := res.Failure != nil && !wasInterrupted(res)
	if !failed && (res.Status == trellis.Ready || res.Status == trellis.InProgress) || busy != nil && res.Status == trellis.Planning {
		return st.Start(ctx, dir, o)
	}
	return res, nil
}

// wasInterrupted reports whether a run was ended by Ctrl-C or a signal and can be resumed.
func wasInterrupted(res Result) bool {
	return res.Status == trellis.InProgress && res.Failure != nil && res.Failure.Code == string(trellis.Interrupted)
}

// PrintAssumptions reports what people have to make sure of before the work on a task begins. The run checks the rest itself.
func (st Starter) PrintAssumptions(dir string) {
	p, err := pipeline.ReadPlan(st.store, dir)
	_, assumed := pipeline.Preconditions(p)
	if err != nil || len(assumed) == 0 {
		return // claiming the task reports what is wrong
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if done, perr := pipeline.ReadProgress(h); err == nil && (perr != nil || done.Begun) {
		return
	}
	for _, sentence := range assumed {
		st.tell(Event{Task: filepath.Base(dir), Message: filepath.Base(dir) + ": make sure before the work begins: " + sentence})
	}
}

// markReady makes a task that a person wrote ready once its run has begun, so that a watcher that sees the change finds the run.
func (st Starter) markReady(dir string) error {
	return st.states.move(dir, trellis.Planning, trellis.Ready)
}

// Admit makes a task runnable if its state allows that, as Start does, but does not run it. It reports whether there is something to run.
func (st Starter) Admit(ctx context.Context, dir string) (bool, Result, error) {
	runs, res, err := st.admit(ctx, dir)
	st.warn(dir, res, err)
	return runs, res, err
}

// warn reports what Trellis ignores in a task, before its work begins.
func (st Starter) warn(dir string, res Result, err error) {
	if err != nil {
		return
	}
	for _, p := range res.Warnings {
		st.tell(Event{Task: filepath.Base(dir), Level: slog.LevelWarn, Message: WarningText(p)})
	}
}

// WarningText returns a warning in the form in which it is shown before the work on a task begins.
func WarningText(p trellis.Problem) string {
	s := "warning: " + p.Error()
	if p.Hint != "" {
		s += "\nnext: " + p.Hint
	}
	return s
}

// admit is Admit without the warnings.
func (st Starter) admit(ctx context.Context, dir string) (bool, Result, error) {
	t, res, err := st.startable(ctx, dir, false)
	if err != nil || t == nil {
		return false, res, err
	}
	switch t.Status {
	case trellis.Planning:
		err = st.markReady(dir)
	case trellis.Paused:
		err = st.wake(ctx, dir)
	case trellis.Waiting:
		_, err = st.assessor.AssessAndUpdate(ctx, dir)
	}
	if err == nil { // shows a watcher that a person wants the task, even if nothing else about it changes
		now := time.Now()
		if err = os.Chtimes(filepath.Join(dir, taskdir.TaskJSON), now, now); err != nil {
			err = fmt.Errorf("telling the watcher: %w", err)
		}
	}
	return err == nil, res, err
}

// startable returns the task if there is something to run, and nil otherwise; Result says where the task stands. It changes a
// task only if the task has to wait, or if its run has delivered already: then to the status of that run. If another process
// works on the task meanwhile, which may look like a fault of the task, the error is a *durable.HeldError.
func (st Starter) startable(ctx context.Context, dir string, adopt bool) (*taskdir.Task, Result, error) {
	t, res, err := st.checkStartable(ctx, dir, adopt)
	if !errors.As(err, new(*NotReadyError)) {
		return t, res, err
	}
	if by, held := Held(dir); held {
		return nil, res, &durable.HeldError{Path: filepath.Join(dir, taskdir.RunLock), Holder: by}
	}
	return st.checkStartable(ctx, dir, adopt) // the process that worked on it during the first check has ended
}

// checkStartable is startable for a task on which no other process works.
func (st Starter) checkStartable(ctx context.Context, dir string, adopt bool) (*taskdir.Task, Result, error) {
	res := Result{Dir: dir}
	if drafted(dir) {
		return nil, res, ErrPlanning
	}
	t, err := st.store.Load(dir)
	if err != nil {
		return nil, res, err
	}
	res.Status, res.Outcome = t.Status, t.Pipeline.Outcome
	if err := refuseArchived(st.store, dir); err != nil && t.Status != trellis.Completed {
		return nil, res, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, journal.ErrDamaged) {
		return nil, res, err
	}
	if hasUnfinishedPlanning(h) && !t.Status.Ended() {
		return nil, res, ErrPlanning
	}
	if err := st.guard.checkToStart(ctx, t, h); err != nil {
		return nil, res, err
	}
	switch t.Status {
	case trellis.Review:
		if cut, err := st.states.resumeCutOff(dir, h); err != nil || !cut {
			return nil, res, err
		}
		t, err = st.store.Load(dir)
		return t, res, err
	case trellis.Rejected, trellis.Completed:
		return nil, res, nil
	case trellis.Failed, trellis.Cancelled:
		return nil, res, &RefusedError{t.ID + " is " + string(t.Status), retryOf(dir)}
	case trellis.Planning:
		return st.startableHandwritten(ctx, t, res, adopt)
	case trellis.Paused:
		if done, err := pipeline.DeliveredBy(h); err != nil || done == "" {
			return t, res, err
		}
		if t, err = st.states.restore(dir, h); err != nil {
			return nil, Result{Dir: dir}, err
		}
		st.tell(Event{Message: t.ID + " was delivered before it was paused: it is " + string(t.Status) + " again, and not run twice"})
		return nil, taskState(st.store, t), nil
	}
	return st.startableAssessed(ctx, t, res, adopt)
}

// startableHandwritten is startable for a task that a person wrote and nobody set ready. It may have to wait nevertheless.
func (st Starter) startableHandwritten(ctx context.Context, t *taskdir.Task, res Result, adopt bool) (_ *taskdir.Task, _ Result, err error) {
	if res.Warnings, err = st.assessor.check(ctx, t.Dir, adopt); err != nil {
		return nil, res, st.notPlannedError(ctx, t, err)
	}
	l := Assessment{Dir: t.Dir, Task: t, From: trellis.Planning, To: trellis.Waiting}
	if l.Waits, err = st.assessor.waitReasons(ctx, t, nil); err != nil || len(l.Waits) == 0 {
		return t, res, err
	}
	res.Status, res.Waits = trellis.Waiting, l.Waits
	return nil, res, st.assessor.applyStatus(l)
}

// notPlannedError returns err or, if a planning was to write the task and did not, a *RefusedError with what became of the planning.
func (st Starter) notPlannedError(ctx context.Context, t *taskdir.Task, err error) error {
	again, nerr := st.assessor.Next(ctx, t.Dir)
	if nerr != nil || !strings.HasPrefix(again, "trellis plan --retry ") {
		return err
	}
	if f := t.Pipeline.Failure; f.Code != "" {
		return &RefusedError{fmt.Sprintf("%s is not planned: its planning failed with %s: %s", t.ID, f.Code, f.Detail), again}
	}
	return &RefusedError{t.ID + " is not planned yet", again}
}

// startableAssessed is startable for a task in a status that a watcher handles too.
func (st Starter) startableAssessed(ctx context.Context, t *taskdir.Task, res Result, adopt bool) (*taskdir.Task, Result, error) {
	l, err := st.assessor.assess(ctx, Assessment{Dir: t.Dir, Adopt: adopt})
	res.Warnings = l.Warnings
	switch {
	case err != nil:
		return nil, res, err
	case l.Run:
		return t, res, nil
	case l.Elsewhere != nil:
		return nil, res, l.Elsewhere
	case l.Untrusted != nil:
		return nil, res, l.Untrusted
	case len(l.Waits) > 0:
		res.Status, res.Waits = trellis.Waiting, l.Waits
		return nil, res, st.assessor.applyStatus(l)
	case l.Task != nil && len(l.Problems) == 1 && l.Problems[0].Hint == retryOf(t.Dir):
		return nil, res, &RefusedError{l.Problems[0].Message, retryOf(t.Dir)}
	}
	return nil, res, &NotReadyError{l.Problems}
}

// retryOf returns the command that asks for another run of a task.
func retryOf(dir string) string { return "trellis retry " + trellis.ShellWord(filepath.Base(dir)) }

// wake makes a paused task runnable: its run is resumed or, if a budget ended that run, another one is begun.
func (st Starter) wake(ctx context.Context, dir string) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && h.Flow == pipeline.Flow && h.Ended {
		return st.orders.Retry(ctx, dir, false, RunOptions{})
	}
	if err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, journal.ErrDamaged) {
		return err
	}
	if err := checkVersion(dir, h); err != nil {
		return err
	}
	return st.states.setInProgress(dir, true)
}

// Follow waits until no process runs the task any more and returns where the task stands. If ctx is cancelled, Follow only
// stops following; the task continues.
func (st Starter) Follow(ctx context.Context, dir string) (Result, error) {
	changed := make(chan struct{}, 1)
	defer watchEvents(dir, func() { // without file events, the ticker below has to do
		select {
		case changed <- struct{}{}:
		default:
		}
	})()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	begun := time.Now()
	for {
		t, err := st.store.Load(dir)
		if err != nil && !errors.As(err, new(*trellis.Problem)) {
			return Result{Dir: dir}, err
		}
		if err == nil && !st.active(t) {
			return taskState(st.store, t), nil
		}
		if _, held := Held(dir); !held && time.Since(begun) > takenWithin {
			begun = time.Now()
			if res, why := st.untakenReason(ctx, dir); why != nil || res.Waits != nil || res.Failure != nil {
				return res, why
			}
		}
		select {
		case <-ctx.Done():
			return Result{Dir: dir, Interrupted: true}, nil
		case <-changed:
		case <-tick.C:
		}
	}
}

// takenWithin is how long Follow waits for a process to take the task before it checks why none does.
const takenWithin = 2 * time.Second

// untakenReason returns why a watcher does not take a task. With neither Waits nor Failure set, the watcher takes it when a slot is free.
func (st Starter) untakenReason(ctx context.Context, dir string) (Result, error) {
	l, err := st.assessor.Assess(ctx, dir)
	if err != nil {
		return Result{Dir: dir}, err
	}
	if l.Elsewhere != nil {
		return Result{Dir: dir}, l.Elsewhere
	}
	if l.Untrusted != nil {
		return Result{Dir: dir}, l.Untrusted
	}
	if len(l.Problems) > 0 {
		return Result{Dir: dir}, &NotReadyError{l.Problems}
	}
	if err := st.runner.Roles().checkInstructions(pipeline.Roles()); l.Run && err != nil {
		return Result{Dir: dir}, err
	}
	if why := st.givenUpReason(dir); why != "" {
		return Result{Dir: dir}, &NotReadyError{l.WithProblem("the watcher waits for "+why, "trellis logs "+trellis.ShellWord(l.Task.ID)).Problems}
	}
	res := taskState(st.store, l.Task)
	if code := l.Task.Pipeline.Failure.Code; l.Task.Status != trellis.Ready || code != trellis.AgentMissing && code != trellis.AgentAuth {
		res.Failure = nil // only an agent that is missing or not signed in, noted for a ready task, keeps it from starting
	}
	switch {
	case len(l.Waits) > 0:
		res.Status, res.Waits = trellis.Waiting, l.Waits
	case l.Run && l.At.Sub(st.now()) > takenWithin:
		res.Waits, res.Until = bases.Waits{{For: "its time: " + l.At.Format(time.RFC3339)}}, l.At
	}
	return res, nil
}

// active reports whether a task runs or is about to run.
func (st Starter) active(t *taskdir.Task) bool {
	_, watched := st.Watcher()
	_, held := Held(t.Dir)
	return held && !t.Status.Ended() || watched && (t.Status == trellis.Ready || t.Status == trellis.InProgress)
}

// GivenUp is the text that a watcher gives as the wait of a task that it has given up.
const GivenUp = "somebody: its runs come to nothing"

// givenUpReason returns GivenUp if the watcher has given up the task because its runs came to nothing, and "" otherwise.
func (st Starter) givenUpReason(dir string) string {
	for _, w := range pulse.Look(st.store.Root, st.now()).Beat.Waiting {
		if w.Task == filepath.Base(dir) && w.For == GivenUp {
			return w.For
		}
	}
	return ""
}

// drafted reports whether dir is the folder of a planning that is not published.
func drafted(dir string) bool {
	name, draft := strings.CutPrefix(filepath.Base(dir), taskdir.DraftPrefix)
	return draft && name != ""
}

// Held reports whether a process runs the task, and which one.
func Held(dir string) (durable.Holder, bool) { return holder(filepath.Join(dir, taskdir.RunLock)) }

func holder(path string) (by durable.Holder, held bool) {
	if held = durable.Held(path); held {
		by, _ = durable.ReadHolder(path) // used only in messages
	}
	return by, held
}

// WatcherFor returns the watcher and whether it takes a task that a person starts: it leaves a task alone whose not_before is to come.
func (st Starter) WatcherFor(dir string) (durable.Holder, bool) {
	h, watched := st.Watcher()
	t, err := st.store.Load(dir)
	return h, watched && !(err == nil && t.Pipeline.NotBefore.After(st.now()))
}

// Watcher returns the process that watches this repository, if there is one.
func (st Starter) Watcher() (durable.Holder, bool) { return holder(st.WatchLock()) }

// WatchLock returns the path of the lock that a watcher holds.
func (st Starter) WatchLock() string { return pulse.Lock(st.store.Root) }
