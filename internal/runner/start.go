package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Starter begins a task that a person wants to run, or hands it to the watcher and follows it.
type Starter struct{ *Site }

// Starter works on s.
func (s *Site) Starter() Starter { return Starter{s} }

// Start runs one task, or goes on with it, to where it ends for now. With a live watcher, and nothing special
// asked for, it hands the task over and follows it. Errors that callers tell apart: *RefusedError, *NotReadyError, *durable.HeldError,
// ErrPlanning, *git.IdentityError, and agent_missing or agent_auth as *flow.Failure, found before anything is claimed.
func (s Starter) Start(ctx context.Context, dir string, o RunOptions) (Result, error) {
	t, res, err := s.startable(ctx, dir, o.Adopt)
	if err != nil || t == nil {
		return res, err
	}
	if err := s.Roles().CheckAgents(ctx, t, o.Agent); err != nil {
		return res, err
	}
	s.PrintAssumptions(dir)
	hand := func() bool { _, ok := s.Starter().Watcher(); return ok && o == (RunOptions{}) } // a watcher knows of no options
	if why := s.Assessor().others(t); why != "" && hand() {
		s.Tell(Event{Task: t.ID, Message: t.ID + " waits for " + why})
	} else if why != "" {
		s.Tell(Event{Task: t.ID, Message: t.ID + " is started beside " + why})
	}
	if hand() {
		if runs, res, err := s.Admit(ctx, dir); err != nil || !runs {
			return res, err
		}
	}
	for {
		if !hand() {
			res, err = s.TaskRunner().Run(ctx, dir, o, s.readied)
			if !runlock.Busy(err) || t.Status != trellis.InProgress {
				return res, err
			}
		}
		res, err = s.Follow(ctx, dir) // the holder, or the watcher, may be about to end without having ended the run
		if err != nil || res.Interrupted || len(res.Waits) > 0 || res.Failure != nil || res.Status != trellis.InProgress && res.Status != trellis.Ready {
			return res, err
		}
	}
}

// foretell says what people are to make sure of before the work on a task begins. Its run makes sure of the rest.
func (s Starter) PrintAssumptions(dir string) {
	p, err := pipeline.ReadPlan(s.Store, dir)
	if err != nil || len(pipeline.Assumed(p)) == 0 {
		return // what is wrong is said when the task is claimed
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if done, perr := pipeline.ReadProgress(h); err == nil && (perr != nil || done.Begun) {
		return
	}
	for _, sentence := range pipeline.Assumed(p) {
		s.Tell(Event{Task: filepath.Base(dir), Message: filepath.Base(dir) + ": make sure before the work begins: " + sentence})
	}
}

// readied makes a task that a person wrote ready, once its run is begun: a watcher who sees it finds the run.
func (s Starter) readied(dir string) error {
	return s.Assessor().move(Assessment{Dir: dir}, trellis.Planning, trellis.Ready)
}

// Admit makes a task runnable if its state allows it, as Start does, without running it. It reports whether
// there is something to run.
func (s Starter) Admit(ctx context.Context, dir string) (bool, Result, error) {
	t, res, err := s.startable(ctx, dir, false)
	if err != nil || t == nil {
		return false, res, err
	}
	switch t.Status {
	case trellis.Planning:
		err = s.readied(dir)
	case trellis.Paused:
		err = s.wake(ctx, dir)
	case trellis.Waiting:
		_, err = s.Assessor().Settle(ctx, dir)
	}
	if err == nil {
		err = touch(dir)
	}
	return err == nil, res, err
}

// startable is the task when there is something to run, nil when there is not; Result says where it stands.
// It changes a task only when that has to wait, or when its run has delivered already: then to what the run says.
// What another process does for the task meanwhile is no fault of it: *durable.HeldError then.
func (s Starter) startable(ctx context.Context, dir string, adopt bool) (*taskdir.Task, Result, error) {
	t, res, err := s.judge(ctx, dir, adopt)
	if !errors.As(err, new(*NotReadyError)) {
		return t, res, err
	}
	if by, held := Held(dir); held {
		return nil, res, &durable.HeldError{Path: filepath.Join(dir, taskdir.RunLock), Holder: by}
	}
	return s.judge(ctx, dir, adopt) // whoever was at it when it was judged is done
}

// judge is startable for a task that no other process works on.
func (s Starter) judge(ctx context.Context, dir string, adopt bool) (*taskdir.Task, Result, error) {
	res := Result{Dir: dir}
	if _, draft := drafted(dir); draft {
		return nil, res, ErrPlanning
	}
	t, err := s.Store.Load(dir)
	if err != nil {
		return nil, res, err
	}
	res.Status, res.Outcome = t.Status, t.Pipeline.Outcome
	if err := s.Orders().live(dir); err != nil && t.Status != trellis.Completed {
		return nil, res, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, journal.ErrDamaged) {
		return nil, res, err
	}
	if unplanned(h) && !t.Status.Ended() {
		return nil, res, ErrPlanning
	}
	if err := s.guard().trustedToStart(ctx, t, h); err != nil {
		return nil, res, err
	}
	switch t.Status {
	case trellis.Review:
		if cut, err := s.cutOff(dir, h); err != nil || !cut {
			return nil, res, err
		}
		t, err = s.Store.Load(dir)
		return t, res, err
	case trellis.Rejected, trellis.Completed:
		return nil, res, nil
	case trellis.Failed, trellis.Cancelled:
		return nil, res, &RefusedError{t.ID + " is " + string(t.Status), "trellis retry " + t.ID}
	case trellis.Planning:
		return s.written(ctx, t, res, adopt)
	case trellis.Paused:
		if done, err := delivered(h); err != nil || done == "" {
			return t, res, err
		}
		res, err = s.restore(dir, h)
		return nil, res, err
	}
	return s.runnable(ctx, t, res, adopt)
}

// written is startable for a task that a person wrote and nobody set ready. It may have to wait all the same.
func (s Starter) written(ctx context.Context, t *taskdir.Task, res Result, adopt bool) (_ *taskdir.Task, _ Result, err error) {
	if err := s.Assessor().check(ctx, t.Dir, adopt); err != nil {
		return nil, res, s.unplannedYet(ctx, t, err)
	}
	l := Assessment{Dir: t.Dir, Task: t, From: trellis.Planning, To: trellis.Waiting}
	if l.Waits, err = s.Assessor().waits(ctx, l, nil); err != nil || l.Waits == "" {
		return t, res, err
	}
	res.Status, res.Waits = trellis.Waiting, []string{l.Waits}
	return nil, res, s.Assessor().take(l)
}

// unplannedYet is err, or, of a task that a planning was to write and did not, what became of that.
func (s Starter) unplannedYet(ctx context.Context, t *taskdir.Task, err error) error {
	again := "trellis plan --retry " + t.ID
	if command, nerr := s.Assessor().Next(ctx, t.Dir); nerr != nil || command != again {
		return err
	}
	if f := t.Pipeline.Failure; f.Code != "" {
		return &RefusedError{fmt.Sprintf("%s is not planned: its planning failed with %s: %s", t.ID, f.Code, f.Detail), again}
	}
	return &RefusedError{t.ID + " is not planned yet", again}
}

// runnable is startable for a task of which a watcher would know what to do.
func (s Starter) runnable(ctx context.Context, t *taskdir.Task, res Result, adopt bool) (*taskdir.Task, Result, error) {
	l, err := s.Assessor().assess(ctx, Assessment{Dir: t.Dir, Adopt: adopt})
	retry := "trellis retry " + t.ID
	switch {
	case err != nil:
		return nil, res, err
	case l.Run:
		return t, res, nil
	case l.Untrusted != nil:
		return nil, res, l.Untrusted
	case l.Waits != "":
		res.Status, res.Waits = trellis.Waiting, []string{l.Waits}
		return nil, res, s.Assessor().take(l)
	case l.Task != nil && len(l.Problems) == 1 && l.Problems[0].Hint == retry:
		return nil, res, &RefusedError{l.Problems[0].Message, retry}
	}
	return nil, res, &NotReadyError{l.Problems}
}

// delivered is the outcome of a run that ended with all done, "" for any other.
func delivered(h *journal.History) (trellis.Outcome, error) {
	if h == nil || h.Flow != pipeline.Flow || !h.Ended {
		return "", nil
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil || p.Outcome != trellis.Delivered && p.Outcome != trellis.NoChangeNeeded {
		return "", err
	}
	return p.Outcome, nil
}

// restore has a task say again what its run, which delivered, said last.
func (s Starter) restore(dir string, h *journal.History) (Result, error) {
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return Result{Dir: dir}, err
	}
	t, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		e.Project(p.Standing.Status)
		e.Set("pipeline.outcome", p.Outcome)
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("pipeline.resume_at", time.Time{})
		return nil
	})
	if err != nil {
		return Result{Dir: dir}, err
	}
	s.Tell(Event{Message: t.ID + " was delivered before it was paused: it is " + string(t.Status) + " again, and not run twice"})
	return s.standing(t), nil
}

// wake makes a paused task runnable: its run goes on, or, when a budget ended that, another begins.
func (s Starter) wake(ctx context.Context, dir string) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && h.Flow == pipeline.Flow && h.Ended {
		return s.Orders().Retry(ctx, dir, false, RunOptions{})
	}
	if err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, journal.ErrDamaged) {
		return err
	}
	return s.TaskRunner().awake(dir)
}

// Follow waits until nobody runs the task any more and says where it stands. A Follow that is told to end
// only stops following.
func (s Starter) Follow(ctx context.Context, dir string) (Result, error) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		defer w.Close()
		err = w.Add(dir)
	}
	var events <-chan fsnotify.Event
	if err == nil { // without events there is still the clock
		events = w.Events
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	begun := time.Now()
	for {
		t, err := s.Store.Load(dir)
		if err != nil && !errors.As(err, new(*trellis.Problem)) {
			return Result{Dir: dir}, err
		}
		if err == nil && !s.active(t) {
			return s.standing(t), nil
		}
		if time.Since(begun) > patience && !IsHeld(dir) {
			begun = time.Now()
			if res, why := s.untaken(ctx, dir); why != nil || res.Waits != nil || res.Failure != nil {
				return res, why
			}
		}
		select {
		case <-ctx.Done():
			return Result{Dir: dir, Interrupted: true}, nil
		case <-events:
		case <-tick.C:
		}
	}
}

// patience is how long a task that nobody takes is followed before it is looked at why.
const patience = 2 * time.Second

// untaken says why a watcher does not take a task. The zero Result is one that it takes when it has room.
func (s Starter) untaken(ctx context.Context, dir string) (Result, error) {
	l, err := s.Assessor().Assess(ctx, dir)
	if err != nil {
		return Result{Dir: dir}, err
	}
	if l.Untrusted != nil {
		return Result{Dir: dir}, l.Untrusted
	}
	if len(l.Problems) > 0 {
		return Result{Dir: dir}, &NotReadyError{l.Problems}
	}
	if why := s.givenUp(dir); why != "" {
		return Result{Dir: dir}, &NotReadyError{l.Because("the watcher waits for "+why, "trellis logs "+l.Task.ID).Problems}
	}
	res := s.standing(l.Task)
	if code := l.Task.Pipeline.Failure.Code; l.Task.Status != trellis.Ready || code != trellis.AgentMissing && code != trellis.AgentAuth {
		res.Failure = nil // what the watcher noted of a ready one keeps it from starting
	}
	switch {
	case l.Waits != "":
		res.Status, res.Waits = trellis.Waiting, []string{l.Waits}
	case l.Run && l.At.Sub(s.Clock()) > patience:
		res.Waits, res.Until = []string{"its time: " + l.At.Format(time.RFC3339)}, l.At
	}
	return res, nil
}

// active reports whether a task runs or is about to.
func (s Starter) active(t *taskdir.Task) bool {
	switch t.Status {
	case trellis.Ready, trellis.InProgress:
		if _, ok := s.Starter().Watcher(); ok {
			return true
		}
		return IsHeld(t.Dir)
	}
	return IsHeld(t.Dir) && !t.Status.Ended()
}

func (s Starter) standing(t *taskdir.Task) Result {
	r := Result{Dir: t.Dir, Status: t.Status, Outcome: t.Pipeline.Outcome}
	if t.Status == trellis.Paused {
		r.Until = t.Pipeline.ResumeAt
	}
	if c := t.Pipeline.Failure; c.Code != "" {
		r.Failure = asFailure(c)
	}
	r.Rollback = s.TaskRunner().rollback(t)
	r.Report.Branch, r.Report.Base, r.Report.Stacked, r.Report.Worktree, r.Report.Commit, r.Report.Usage = t.Branch, t.Pipeline.BaseCommit, t.Pipeline.StackedOn, t.WorktreePath, t.Commit, t.Pipeline.Usage
	r.Report.Delivery.PRURL = t.PRURL
	return r
}

// touch tells a watcher that a person wants a task to run, though nothing else about it changes.
func touch(dir string) error {
	now := time.Now()
	if err := os.Chtimes(filepath.Join(dir, taskdir.TaskJSON), now, now); err != nil {
		return fmt.Errorf("telling the watcher: %w", err)
	}
	return nil
}

// givenUp is what a watcher says a task waits for that it has given up.
const GivenUp = "somebody: its runs come to nothing"

// givenUp is what the watcher says of a task whose runs came to nothing, "" while it tries.
func (s Starter) givenUp(dir string) string {
	for _, w := range pulse.Look(s.Store.Root, s.Clock()).Beat.Waiting {
		if w.Task == filepath.Base(dir) && w.For == GivenUp {
			return w.For
		}
	}
	return ""
}

func drafted(dir string) (string, bool) {
	base := filepath.Base(dir)
	return base, len(base) > len(taskdir.DraftPrefix) && base[:len(taskdir.DraftPrefix)] == taskdir.DraftPrefix
}
