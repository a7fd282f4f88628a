package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/flow/flowtest"
)

// contractSilence is the time without a heartbeat after which an activity is entered again.
const contractSilence = 2 * time.Second

// The contract of flow.Flow holds for an engine that has nothing in common with the journal: a run is a workflow on a real server, and an
// effect is an activity. So the contract does not depend on how the journal happens to work. Only this test runs tasks that way: what
// trellis-cluster gives to machines are segments (flow.go).
func TestContract(t *testing.T) {
	worker.SetStickyWorkflowCacheSize(0) // each step replays the history
	srv := newServer(t)
	c, err := client.Dial(client.Options{HostPort: srv.address(), Logger: silent{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Run("flows", func(t *testing.T) { // which end before the server does
		flowtest.Run(t, func(t *testing.T) flowtest.Engine { return newEngine(t, c) })
	})
}

// engine is a run for the contract suite: a workflow on a queue of its own. Each Run starts a worker of its own, as a process would.
type engine struct {
	t     *testing.T
	c     client.Client
	queue string
	run   client.WorkflowRun

	mu   sync.Mutex
	stop chan struct{}
}

func newEngine(t *testing.T, c client.Client) *engine {
	e := &engine{t: t, c: c, queue: fmt.Sprintf("%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), time.Now().UnixNano())}
	var err error
	if e.run, err = c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: e.queue, TaskQueue: e.queue}, "flow", flowtest.Input); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.TerminateWorkflow(context.Background(), e.queue, "", "the test is over") }) // it may have ended
	return e
}

func (e *engine) Run(fn flowtest.Func, acts ...flow.Activity) (string, error) {
	w := worker.New(e.c, e.queue, worker.Options{WorkerStopTimeout: 5 * time.Second, DeadlockDetectionTimeout: time.Minute, MaxHeartbeatThrottleInterval: 100 * time.Millisecond})
	broken := make(chan error, 100)
	var names []string
	for _, a := range acts {
		names = append(names, a.Name)
		w.RegisterActivityWithOptions(func(ctx context.Context, in entry) (json.RawMessage, error) { return perform(ctx, a, in) }, activity.RegisterOptions{Name: a.Name})
	}
	w.RegisterWorkflowWithOptions(func(ctx workflow.Context, in string) (string, error) {
		out, err := fn(newOnTemporal(ctx, names, func(err error) { broken <- err }), in)
		return out, toTemporal(err)
	}, workflow.RegisterOptions{Name: "flow"})
	stop := make(chan struct{})
	e.mu.Lock()
	e.stop = stop
	e.mu.Unlock()
	if err := w.Start(); err != nil {
		return "", err
	}
	defer w.Stop()
	type end struct {
		out string
		err error
	}
	ended := make(chan end, 1)
	ctx, cancel := context.WithCancel(e.t.Context())
	defer cancel()
	go func() {
		var out string
		err := e.run.Get(ctx, &out)
		ended <- end{out, err}
	}()
	select {
	case r := <-ended:
		return r.out, outcome(r.err)
	case err := <-broken:
		return "", err
	case <-stop:
		return "", flow.ErrSuspended
	case <-time.After(5 * time.Minute):
		return "", errors.New("it comes to no end")
	}
}

// outcome converts the error of a workflow to an error of flows.
func outcome(err error) error {
	var app *temporal.ApplicationError
	var f flow.Failure
	switch {
	case temporal.IsCanceledError(err):
		return flow.ErrCancelled
	case errors.As(err, &app) && app.Details(&f) == nil:
		return &f
	}
	return err
}

func (e *engine) Signal(id, name string, data any) {
	raw, err := json.Marshal(data)
	if err == nil {
		err = e.c.SignalWorkflow(context.Background(), e.queue, "", mail, message{ID: id, Name: name, Data: raw})
	}
	if err != nil && !errors.As(err, new(*serviceerror.NotFound)) { // a run that is over receives no signals
		e.t.Errorf("signal: %v", err)
	}
}

func (e *engine) Cancel() {
	if err := e.c.CancelWorkflow(context.Background(), e.queue, ""); err != nil {
		e.t.Errorf("cancel: %v", err)
	}
}

func (e *engine) Suspend() {
	e.mu.Lock()
	defer e.mu.Unlock()
	select {
	case <-e.stop:
	default:
		close(e.stop)
	}
}
