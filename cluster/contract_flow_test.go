package cluster_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// message is what people send to a run: the payload of its one signal.
type message struct {
	ID   string // a message with an ID that was seen before is ignored
	Name string
	Data json.RawMessage
}

// mail is the name of that signal.
const mail = "mail"

// entry is the input of an activity.
type entry struct {
	ID string
	In json.RawMessage
}

// execution is the state of one run in its workflow.
type execution struct {
	names  []string // of the activities that exist
	asked  map[string]int
	inbox  []message
	seen   map[string]bool
	mail   workflow.ReceiveChannel
	broken func(error) // is called when flow code breaks a rule
}

// strand is one goroutine of flow code.
type strand struct {
	path, in string
	over     bool
}

// onTemporal is a flow.Flow on a workflow for each run: finished calls answer from the history, which is replayed.
type onTemporal struct {
	*execution
	ctx    workflow.Context
	path   string
	strand *strand
}

var _ flow.Flow = (*onTemporal)(nil)

func newOnTemporal(ctx workflow.Context, names []string, broken func(error)) *onTemporal {
	return &onTemporal{&execution{names: names, asked: map[string]int{}, seen: map[string]bool{}, mail: workflow.GetSignalChannel(ctx, mail), broken: broken}, ctx, "", &strand{}}
}

// find receives what has come, and returns the index of the oldest message of that name, or less than 0 if there is none.
func (e *execution) find(name string) int {
	for m := (message{}); e.mail.ReceiveAsync(&m); m = (message{}) {
		if !e.seen[m.ID] {
			e.seen[m.ID] = true
			e.inbox = append(e.inbox, m)
		}
	}
	return slices.IndexFunc(e.inbox, func(m message) bool { return m.Name == name })
}

// breaks fails the workflow task, which Temporal would try again after the code was repaired.
func (f *onTemporal) breaks(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	f.broken(err)
	panic(err)
}

func (f *onTemporal) enter(what string) (leave func()) {
	switch s := f.strand; {
	case s.over:
		f.breaks("%s%s was asked for by the flow of branch %s, which is over", f.path, what, s.path)
	case s.in != "":
		f.breaks("%s%s was asked for during %s", f.path, what, s.in)
	}
	f.strand.in = what
	return func() { f.strand.in = "" }
}

func legal(name string) bool {
	return name != "" && name != "." && name != ".." && !strings.ContainsAny(name, "/#")
}

func (f *onTemporal) In(scope string) flow.Flow {
	if !legal(scope) {
		f.breaks("%q is not a name for a scope", scope)
	}
	c := *f
	c.path += scope + "/"
	return &c
}

func (f *onTemporal) Shield() flow.Flow {
	c := *f
	c.ctx, _ = workflow.NewDisconnectedContext(f.ctx)
	return &c
}

func (f *onTemporal) id(name string) string {
	key := f.path + name
	f.asked[key]++
	return fmt.Sprintf("%s#%d", key, f.asked[key])
}

func (f *onTemporal) Do(name string, in, out any) error {
	raw, err := json.Marshal(in)
	if err == nil && len(raw) > flow.MaxPayload {
		err = fmt.Errorf("%d bytes are too many", len(raw))
	}
	if err != nil {
		return flow.Fail("internal", "input of %s: %v", name, err)
	}
	defer f.enter(name)()
	if !slices.Contains(f.names, name) {
		f.breaks("there is no activity %q", name)
	}
	id := f.id(name)
	if f.ctx.Err() != nil {
		return flow.ErrCancelled
	}
	ctx := workflow.WithActivityOptions(f.ctx, workflow.ActivityOptions{ActivityID: id, ScheduleToCloseTimeout: time.Hour, HeartbeatTimeout: contractSilence, WaitForCancellation: true,
		RetryPolicy: &temporal.RetryPolicy{InitialInterval: 200 * time.Millisecond, MaximumInterval: time.Minute}})
	var result json.RawMessage
	if err := workflow.ExecuteActivity(ctx, name, entry{id, raw}).Get(ctx, &result); err != nil {
		return fromTemporal(err)
	}
	if out == nil || len(result) == 0 {
		return nil
	}
	return json.Unmarshal(result, out)
}

func (f *onTemporal) Sleep(d time.Duration) error {
	defer f.enter("sleep")()
	return fromTemporal(workflow.Sleep(f.ctx, d))
}

func (f *onTemporal) Await(signal string, limit time.Duration, out any) (bool, error) {
	defer f.enter("await:" + signal)()
	if f.ctx.Err() != nil {
		return false, flow.ErrCancelled
	}
	var err error
	switch there := func() bool { return f.find(signal) >= 0 }; {
	case there() || limit == 0:
	case limit < 0:
		err = workflow.Await(f.ctx, there)
	default:
		_, err = workflow.AwaitWithTimeout(f.ctx, limit, there)
	}
	i := f.find(signal)
	if err != nil || i < 0 {
		return false, fromTemporal(err)
	}
	m := f.inbox[i]
	f.inbox = slices.Delete(f.inbox, i, i+1)
	if out == nil || len(m.Data) == 0 {
		return true, nil
	}
	return true, json.Unmarshal(m.Data, out)
}

func (f *onTemporal) All(n int, branches ...flow.Branch) error {
	defer f.enter("All")()
	ended := map[string]bool{}
	free := func(b flow.Branch) bool {
		return !slices.ContainsFunc(b.After, func(name string) bool { return !ended[name] })
	}
	f.check(branches)
	errs, begun := make([]error, len(branches)), make([]bool, len(branches))
	running := 0
	for {
		for i, b := range branches {
			if begun[i] || n > 0 && running >= n || !free(b) {
				continue
			}
			begun[i] = true
			running++
			workflow.GoNamed(f.ctx, f.path+b.Name, func(ctx workflow.Context) {
				own := &onTemporal{f.execution, ctx, f.path + b.Name + "/", &strand{path: f.path + b.Name + "/"}}
				errs[i] = b.Run(own)
				own.strand.over, ended[b.Name] = true, true
				running--
			})
		}
		if running == 0 {
			return errors.Join(errs...)
		}
		deaf, _ := workflow.NewDisconnectedContext(f.ctx) // each branch decides what a cancel means
		if was := running; workflow.Await(deaf, func() bool { return running < was }) != nil {
			return flow.ErrSuspended
		}
	}
}

// check fails if names of branches are not unique, or if branches wait for each other or for one that does not exist.
func (f *onTemporal) check(branches []flow.Branch) {
	left := map[string]flow.Branch{}
	for _, b := range branches {
		if _, double := left[b.Name]; double || !legal(b.Name) {
			f.breaks("All: %q is not a name for a branch, or two have it", b.Name)
		}
		left[b.Name] = b
	}
	ended := map[string]bool{}
	for len(left) > 0 {
		before := len(left)
		for _, b := range branches {
			if _, is := left[b.Name]; is && !slices.ContainsFunc(b.After, func(name string) bool { return !ended[name] }) {
				ended[b.Name] = true
				delete(left, b.Name)
			}
		}
		if len(left) == before {
			f.breaks("All: branches wait for each other, or for one that is not there")
		}
	}
}

// toTemporal converts a failure to an error that is not retried, and fromTemporal converts it back.
func toTemporal(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, flow.ErrCancelled):
		return temporal.NewCanceledError()
	}
	f := flow.AsFailure(err)
	return temporal.NewNonRetryableApplicationError(f.Error(), f.Code, nil, f)
}

func fromTemporal(err error) error {
	var app *temporal.ApplicationError
	var f flow.Failure
	switch {
	case err == nil:
		return nil
	case temporal.IsCanceledError(err):
		return flow.ErrCancelled
	case errors.As(err, &app) && app.HasDetails() && app.Details(&f) == nil && f.Code != "":
		return &f
	}
	return flow.Fail("internal", "%v", err)
}

// perform enters an activity. Heartbeats keep it alive, and bring a cancel; after the end of the worker it is entered again.
func perform(ctx context.Context, a flow.Activity, e entry) (json.RawMessage, error) {
	own, end := context.WithCancelCause(context.WithoutCancel(ctx))
	defer end(nil)
	done := make(chan struct{})
	defer close(done)
	go func() {
		beat := time.NewTicker(contractSilence / 20)
		defer beat.Stop()
		for {
			select {
			case <-done:
				return
			case <-activity.GetWorkerStopChannel(ctx):
				end(flow.ErrSuspended)
				return
			case <-ctx.Done():
				end(endOf(ctx))
				return
			case <-beat.C:
				activity.RecordHeartbeat(ctx)
			}
		}
	}()
	out, err := safely(own, a, flow.Call{Run: "task/1", ID: e.ID, Attempt: int(activity.GetInfo(ctx).Attempt)}, e.In)
	cause := context.Cause(own)
	switch {
	case err == nil:
		return out, nil
	case errors.Is(err, flow.ErrSuspended), errors.Is(cause, flow.ErrSuspended):
		return nil, temporal.NewApplicationErrorWithOptions(err.Error(), "suspended", temporal.ApplicationErrorOptions{NextRetryDelay: 300 * time.Millisecond}) // during which a cancel arrives
	case errors.Is(cause, flow.ErrCancelled):
		return nil, temporal.NewCanceledError()
	}
	return nil, toTemporal(err)
}

// endOf distinguishes a cancelled run from an entry that another worker has taken over.
func endOf(ctx context.Context) error {
	if errors.As(context.Cause(ctx), new(*temporal.CanceledError)) {
		return flow.ErrCancelled
	}
	return flow.ErrSuspended
}

func safely(ctx context.Context, a flow.Activity, c flow.Call, in json.RawMessage) (raw json.RawMessage, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = flow.Fail("internal", "panic: %v\n%.4000s", p, debug.Stack())
		}
	}()
	v, err := a.Run(ctx, c, in)
	if err != nil {
		return nil, err
	}
	if raw, err = json.Marshal(v); err != nil || len(raw) > flow.MaxPayload {
		return nil, flow.Fail("internal", "the result can't be kept: %d bytes, %v", len(raw), err)
	}
	return raw, nil
}
