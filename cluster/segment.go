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
	heartbeatsPerSilence = 4                // heartbeats that a machine sends within the silence after which it loses its task
	stickiness           = 2 * time.Second  // how long a workflow waits for the machine that has it in memory
	stopTimeout          = 20 * time.Second // how long running tasks may take to stop in an orderly way
	retrySoon            = 3 * time.Second  // delay before a task is offered again when there is no slot here
	retryLater           = 30 * time.Second // delay before a task is offered again that can't run here now
)

// segment runs a task that this machine was given for as long as it can go on, and returns its state afterwards. After an error
// the server gives the task to a machine again.
func (s *servingMachine) segment(ctx context.Context, in Given) (Standing, error) {
	return s.whileOwned(ctx, in, func(own context.Context) (Standing, error) {
		defer s.team.Grant(in.Task, activity.GetInfo(ctx).StartedTime)()
		st, err := s.fetchAndRun(own, filepath.Join(s.site.Store.Tasks(), in.Task))
		st.Own = s.own
		return st, err
	})
}

// fetchAndRun fetches a task, and runs it if it can run.
func (s *servingMachine) fetchAndRun(ctx context.Context, dir string) (st Standing, err error) {
	if err := s.receive(ctx, dir); err != nil {
		return st, retryAfter(retrySoon, err)
	}
	l, err := s.site.Assessor().AssessAndUpdate(ctx, dir)
	if err != nil {
		return st, retryAfter(retryLater, err)
	}
	if l.Untrusted != nil {
		return st, untrustedError(l.Untrusted)
	}
	if !l.Run || time.Until(l.At) > 0 {
		return s.restingState(ctx, l)
	}
	return s.run(ctx, l)
}

// whileOwned calls do if there is a free slot and the task is still this machine's, and sends heartbeats meanwhile. The context of do
// ends as untilStopped says.
func (s *servingMachine) whileOwned(ctx context.Context, in Given, do func(own context.Context) (Standing, error)) (Standing, error) {
	leave, err := s.takeSlot()
	if err != nil {
		return Standing{}, err
	}
	defer leave()
	own, end := untilStopped(ctx)
	defer end()
	if err := s.checkOwnership(own); err != nil {
		return Standing{}, err
	}
	defer s.startHeartbeats(ctx, in.Silence)()
	return do(own)
}

// takeSlot takes a slot for a task, which leave frees.
func (s *servingMachine) takeSlot() (leave func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	default:
		return nil, retryAfter(retrySoon, errors.New("no room"))
	}
}

// checkOwnership returns an error unless the task is still this machine's: while the machine was frozen another one may have got it.
func (s *servingMachine) checkOwnership(ctx context.Context) error {
	if err := s.server.RecordActivityHeartbeat(ctx, activity.GetInfo(ctx).TaskToken); err != nil {
		return retryAfter(retrySoon, fmt.Errorf("asking whether the task is still this machine's: %w", err))
	}
	return nil
}

// receive fetches the tasks that the task may depend on, and then the task.
func (s *servingMachine) receive(ctx context.Context, dir string) error {
	if err := s.pull(ctx); err != nil {
		return err
	}
	s.fetching.Lock()
	defer s.fetching.Unlock()
	return s.team.Receive(ctx, dir)
}

// pull fetches the results of other machines. What can't be fetched holds up only the tasks that depend on it.
func (s *servingMachine) pull(ctx context.Context) error {
	s.fetching.Lock()
	defer s.fetching.Unlock()
	_, err := s.team.Pull(ctx)
	if errors.As(err, new(*app.NotUpdatedError)) {
		s.say("%v", err)
		return nil
	}
	return err
}

// restingState returns what a task waits for, and shares the task if that changed it.
func (s *servingMachine) restingState(ctx context.Context, l runner.Assessment) (Standing, error) {
	st := Standing{Host: s.host, Until: l.At}
	if _, err := s.team.Submit(ctx, l.Dir); err != nil {
		return st, retryAfter(retrySoon, err)
	}
	t, err := s.site.Store.Load(l.Dir)
	if err != nil {
		return st, retryAfter(retryLater, err)
	}
	st.Status, st.Outcome, st.Stopped = t.Status, t.Pipeline.Outcome, pipeline.Stopped(t)
	st.Waits = waitsOf(l.Waits)
	for _, p := range l.Problems {
		st.Waits = append(st.Waits, p.Error())
	}
	return st, nil
}

// waitsOf returns, in words, what a task waits for. It is never nil, since it is encoded as JSON.
func waitsOf(w bases.Waits) []string {
	if len(w) == 0 {
		return []string{}
	}
	return []string{w.String()}
}

// run continues the task where it stopped.
func (s *servingMachine) run(ctx context.Context, l runner.Assessment) (Standing, error) {
	if err := s.site.TaskRunner().CheckAgents(ctx, l.Task, ""); err != nil {
		return Standing{}, retryAfter(retryLater, err)
	}
	res, err := s.site.TaskRunner().Run(ctx, l.Dir, runner.RunOptions{Unattended: true}, nil)
	s.say("%s: %s%s", filepath.Base(l.Dir), res.Status, errorSuffix(err))
	unready, distrust := (*runner.NotReadyError)(nil), (*trust.UntrustedError)(nil)
	switch {
	case errors.As(err, new(*runner.ConflictError)):
		return Standing{}, retryAfter(retrySoon, err)
	case errors.As(err, &distrust):
		return Standing{}, untrustedError(distrust)
	case errors.As(err, new(*runner.OtherMachineError)), errors.Is(err, durable.ErrHeld):
		return Standing{}, retryAfter(retryLater, err)
	case errors.As(err, &unready):
		return Standing{Status: res.Status, Waits: []string{err.Error()}, Host: s.host}, nil
	case err != nil:
		return Standing{}, retryAfter(retryLater, err)
	case res.Interrupted:
		return Standing{}, retryAfter(time.Second, errors.New("this machine is shutting down"))
	}
	st := Standing{Status: res.Status, Outcome: res.Outcome, Waits: waitsOf(res.Waits), Until: res.Until, Host: s.host}
	t, err := s.site.Store.Load(l.Dir)
	if err != nil && !errors.Is(err, taskdir.ErrNotFound) {
		return st, retryAfter(retryLater, err)
	}
	st.Stopped = err == nil && pipeline.Stopped(t)
	return st, nil
}

// untrustedError returns an error that leaves the task to other machines, which don't depend on what is checked out here.
func untrustedError(err *trust.UntrustedError) error {
	return retryAfter(retryLater, fmt.Errorf("%w; next, there: %s", err, err.Next()))
}

func errorSuffix(err error) string {
	if err == nil {
		return ""
	}
	return ": " + err.Error()
}

// retryAfter returns an error after which the server gives the task to a machine again, after the given delay.
func retryAfter(in time.Duration, err error) error {
	return temporal.NewApplicationErrorWithOptions(err.Error(), fmt.Sprintf("%T", err), temporal.ApplicationErrorOptions{NextRetryDelay: in, Cause: err})
}

// startHeartbeats sends heartbeats to the server until end is called.
func (s *servingMachine) startHeartbeats(ctx context.Context, silence time.Duration) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	tick := time.NewTicker(max(silence, minSilence) / heartbeatsPerSilence)
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

// untilStopped returns a context that ends when ctx does, and when this process is told to stop.
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
