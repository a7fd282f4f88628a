package cluster

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

const (
	beatsInSilence = 4                // how often a machine is heard of before its task is another's
	stickiness     = 2 * time.Second  // how long a workflow waits for the machine that had it in memory
	farewell       = 20 * time.Second // how long what runs may take to end in order
	shortly        = 3 * time.Second  // until a task is offered again for which there is no room here
	later          = 30 * time.Second // until a task is offered again that can't be run here now
)

// segment runs a task that this machine was given for as long as it goes, and says where it stands then. An error has the task given to a
// machine again.
func (s *serving) segment(ctx context.Context, in Given) (Standing, error) {
	return s.work(ctx, in, func(own context.Context) (Standing, error) {
		defer s.team.Grant(in.Task, activity.GetInfo(ctx).StartedTime)()
		st, err := s.goOnWith(own, filepath.Join(s.site.Store.Tasks(), in.Task))
		st.Own = s.own
		return st, err
	})
}

// goOnWith brings a task, and runs it where it can.
func (s *serving) goOnWith(ctx context.Context, dir string) (st Standing, err error) {
	if err := s.receive(ctx, dir); err != nil {
		return st, again(shortly, err)
	}
	l, err := s.site.Assessor().AssessAndUpdate(ctx, dir)
	if err != nil {
		return st, again(later, err)
	}
	if l.Untrusted != nil {
		return st, untrusted(l.Untrusted)
	}
	if !l.Run || time.Until(l.At) > 0 {
		return s.rests(ctx, l)
	}
	return s.run(ctx, l)
}

// work does what this machine was given, where there is room for it and it is still this machine's, and has the server hear of the machine
// meanwhile. The context of do ends when the machine is told to, as untilStopped says.
func (s *serving) work(ctx context.Context, in Given, do func(own context.Context) (Standing, error)) (Standing, error) {
	leave, err := s.enter()
	if err != nil {
		return Standing{}, err
	}
	defer leave()
	own, end := untilStopped(ctx)
	defer end()
	if err := s.still(own); err != nil {
		return Standing{}, err
	}
	defer s.beat(ctx, in.Silence)()
	return do(own)
}

// enter takes a place for a task, until leave is called.
func (s *serving) enter() (leave func(), err error) {
	select {
	case s.room <- struct{}{}:
		return func() { <-s.room }, nil
	default:
		return nil, again(shortly, errors.New("no room"))
	}
}

// still makes sure that the task is still given to this machine, which may have been frozen since it was: then another one has it.
func (s *serving) still(ctx context.Context) error {
	if err := s.server.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken); err != nil {
		return again(shortly, fmt.Errorf("asking whether the task is still this machine's: %w", err))
	}
	return nil
}

// receive brings the task, and first what it may depend on.
func (s *serving) receive(ctx context.Context, dir string) error {
	if err := s.pull(ctx); err != nil {
		return err
	}
	s.bring.Lock()
	defer s.bring.Unlock()
	return s.team.Receive(ctx, dir)
}

// pull brings what other machines did. What can't be brought keeps nothing but those that depend on it.
func (s *serving) pull(ctx context.Context) error {
	s.bring.Lock()
	defer s.bring.Unlock()
	_, err := s.team.Pull(ctx)
	if errors.As(err, new(*app.UnbroughtError)) {
		s.say("%v", err)
		return nil
	}
	return err
}

// rests says what a task waits for, and tells the others where that changed it.
func (s *serving) rests(ctx context.Context, l runner.Assessment) (Standing, error) {
	st := Standing{Host: s.host, Until: l.At}
	if _, err := s.team.Submit(ctx, l.Dir); err != nil {
		return st, again(shortly, err)
	}
	t, err := s.site.Store.Load(l.Dir)
	if err != nil {
		return st, again(later, err)
	}
	st.Status, st.Outcome, st.Stopped = t.Status, t.Pipeline.Outcome, pipeline.Stopped(t)
	st.Waits = waitsOf(l.Waits)
	for _, p := range l.Problems {
		st.Waits = append(st.Waits, p.Error())
	}
	return st, nil
}

// waitsOf are what a task waits for, as people read it; not nil, since it is JSON.
func waitsOf(w bases.Waits) []string {
	if len(w) == 0 {
		return []string{}
	}
	return []string{w.String()}
}

// run goes on with the task where it stands.
func (s *serving) run(ctx context.Context, l runner.Assessment) (Standing, error) {
	if err := s.site.TaskRunner().CheckAgents(ctx, l.Task, ""); err != nil {
		return Standing{}, again(later, err)
	}
	res, err := s.site.TaskRunner().Run(ctx, l.Dir, runner.RunOptions{Beside: true}, nil)
	s.say("%s: %s%s", filepath.Base(l.Dir), res.Status, because(err))
	unready, distrust := (*runner.NotReadyError)(nil), (*trust.UntrustedError)(nil)
	switch {
	case errors.As(err, new(*runner.CrowdedError)):
		return Standing{}, again(shortly, err)
	case errors.As(err, &distrust):
		return Standing{}, untrusted(distrust)
	case errors.As(err, new(*runner.ElsewhereError)), errors.Is(err, durable.ErrHeld):
		return Standing{}, again(later, err)
	case errors.As(err, &unready):
		return Standing{Status: res.Status, Waits: []string{err.Error()}, Host: s.host}, nil
	case err != nil:
		return Standing{}, again(later, err)
	case res.Interrupted:
		return Standing{}, again(time.Second, errors.New("this machine was told to end"))
	}
	st := Standing{Status: res.Status, Outcome: res.Outcome, Waits: waitsOf(res.Waits), Until: res.Until, Host: s.host}
	t, err := s.site.Store.Load(l.Dir)
	if err != nil && !errors.Is(err, taskdir.ErrNotFound) {
		return st, again(later, err)
	}
	st.Stopped = err == nil && pipeline.Stopped(t)
	return st, nil
}

// untrusted leaves a task to other machines: what this one has checked out is no matter of theirs.
func untrusted(err *trust.UntrustedError) error {
	return again(later, fmt.Errorf("%w; next, there: %s", err, err.Next()))
}

func because(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// again has the server give the task to a machine again.
func again(in time.Duration, err error) error {
	return temporal.NewApplicationErrorWithOptions(err.Error(), fmt.Sprintf("%T", err), temporal.ApplicationErrorOptions{NextRetryDelay: in, Cause: err})
}

// beat has the server hear of this machine until end is called.
func (s *serving) beat(ctx context.Context, silence time.Duration) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	tick := time.NewTicker(max(silence, leastSilence) / beatsInSilence)
	var beats sync.WaitGroup
	beats.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	})
	return func() { stop(); beats.Wait() }
}

// untilStopped ends when ctx does, and when this process is told to end.
func untilStopped(ctx context.Context) (own context.Context, end func()) {
	own, cancel := context.WithCancel(ctx)
	stopped := activity.GetWorkerStopChannel(ctx)
	var wait sync.WaitGroup
	wait.Go(func() {
		select {
		case <-stopped:
			cancel()
		case <-own.Done():
		}
	})
	return own, func() { cancel(); wait.Wait() }
}
