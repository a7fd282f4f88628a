package dispatch

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Start runs one task, or goes on with it, to where it ends for now. With a live watcher, and nothing special
// asked for, it hands the task over and follows it. Errors that callers tell apart: *RefusedError, *NotReadyError, *durable.HeldError,
// ErrPlanning, and agent_missing or agent_auth as *flow.Failure, found before anything is claimed.
func (s *Site) Start(ctx context.Context, dir string, o RunOptions) (Result, error) {
	runs, res, err := s.Admit(ctx, dir)
	if err != nil || !runs {
		return res, err
	}
	t, err := s.Store.Load(dir)
	if err != nil {
		return res, err
	}
	if err := s.available(ctx, pipeline.Roles(), t.Pipeline.Agent, o.Agent); err != nil {
		return res, err
	}
	if _, ok := s.Watcher(); ok && o == (RunOptions{}) { // a watcher knows of no options
		return s.Follow(ctx, dir)
	}
	for {
		res, err = s.run(ctx, dir, o)
		if !errors.Is(err, durable.ErrHeld) || t.Status != trellis.InProgress {
			return res, err
		}
		res, err = s.Follow(ctx, dir) // the holder may be about to end without having ended the run
		if err != nil || res.Interrupted || res.Status != trellis.InProgress {
			return res, err
		}
	}
}

// Admit makes a task runnable if its state allows it, as Start does, without running it. It reports whether
// there is something to run.
func (s *Site) Admit(ctx context.Context, dir string) (bool, Result, error) {
	res := Result{Dir: dir}
	if _, draft := drafted(dir); draft {
		return false, res, ErrPlanning
	}
	t, err := s.Store.Load(dir)
	if err != nil {
		return false, res, err
	}
	res.Status, res.Outcome = t.Status, t.Pipeline.Outcome
	retry := "trellis retry " + t.ID
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, journal.ErrDamaged) {
		return false, res, err
	}
	if unplanned(h) && !t.Status.Ended() {
		return false, res, ErrPlanning
	}
	switch t.Status {
	case trellis.Rejected, trellis.Review, trellis.Completed:
		return false, res, nil
	case trellis.Failed, trellis.Cancelled:
		return false, res, &RefusedError{t.ID + " is " + string(t.Status), retry}
	case trellis.Planning:
		if err := s.check(ctx, dir); err != nil {
			return false, res, err
		}
		if err := s.move(look{Dir: dir}, trellis.Planning, trellis.Ready); err != nil {
			return false, res, err
		}
	case trellis.Paused:
		return true, res, s.wake(ctx, dir)
	}
	l, err := s.look(ctx, dir)
	if err != nil {
		return false, res, err
	}
	switch {
	case l.Run:
		return true, res, nil
	case l.Waits != "":
		res.Status, res.Waits = trellis.Waiting, []string{l.Waits}
		return false, res, nil
	case l.Task != nil && len(l.Problems) == 1 && l.Problems[0].Hint == retry:
		return false, res, &RefusedError{l.Problems[0].Message, retry}
	}
	return false, res, &NotReadyError{l.Problems}
}

// wake makes a paused task runnable: its run goes on, or, when a budget ended that, another begins.
func (s *Site) wake(ctx context.Context, dir string) error {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err == nil && h.Flow == pipeline.Flow && h.Ended {
		return s.Retry(ctx, dir, false, RunOptions{})
	}
	if err != nil && !errors.Is(err, journal.ErrNone) && !errors.Is(err, journal.ErrDamaged) {
		return err
	}
	return s.awake(dir)
}

// Follow waits until nobody runs the task any more and says where it stands. A Follow that is told to end
// only stops following.
func (s *Site) Follow(ctx context.Context, dir string) (Result, error) {
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
	for {
		t, err := s.Store.Load(dir)
		if err != nil && !errors.As(err, new(*trellis.Problem)) {
			return Result{Dir: dir}, err
		}
		if err == nil && !s.active(t) {
			return s.standing(t), nil
		}
		select {
		case <-ctx.Done():
			return Result{Dir: dir, Interrupted: true}, nil
		case <-events:
		case <-tick.C:
		}
	}
}

// active reports whether a task runs or is about to.
func (s *Site) active(t *taskdir.Task) bool {
	switch t.Status {
	case trellis.Ready, trellis.InProgress:
		if _, ok := s.Watcher(); ok {
			return true
		}
		return held(t.Dir)
	}
	return held(t.Dir) && !t.Status.Ended()
}

func (s *Site) standing(t *taskdir.Task) Result {
	r := Result{Dir: t.Dir, Status: t.Status, Outcome: t.Pipeline.Outcome}
	if t.Status == trellis.Paused {
		r.Until = t.Pipeline.ResumeAt
	}
	if c := t.Pipeline.Failure; c.Code != "" {
		r.Failure = asFailure(c)
	}
	r.Report.Branch, r.Report.Base, r.Report.Worktree, r.Report.Commit, r.Report.Usage = t.Branch, t.Pipeline.BaseCommit, t.WorktreePath, t.Commit, t.Pipeline.Usage
	return r
}

func drafted(dir string) (string, bool) {
	base := filepath.Base(dir)
	return base, len(base) > len(taskdir.DraftPrefix) && base[:len(taskdir.DraftPrefix)] == taskdir.DraftPrefix
}
