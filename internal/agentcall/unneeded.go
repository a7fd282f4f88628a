package agentcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// CallOff ends calls that were made ahead of time, before it was known whether they are needed: those under way, and those that a
// crash cut off and that would be resumed. Each of them fails with code called_off, and its usage counts.
const CallOff flow.Act[UnneededCalls, int] = "call-off"

// UnneededCalls lists calls whose result is no longer needed.
type UnneededCalls struct {
	Calls []string `json:"calls"` // call ids within the run
	Why   string   `json:"why"`
}

// calledOffFile, in the folder of a call, holds the reason why it was called off.
const calledOffFile = "called-off.json"

// calledOffCalls holds the calls of this process that were called off, and those under way that can be.
type calledOffCalls struct {
	mu      sync.Mutex
	reasons map[string]string // reason, by key of the call
	running map[string]context.CancelCauseFunc
}

// CallingOff returns the activity that implements CallOff. Its result is the number of calls that it ended.
func (a *Caller) CallingOff() flow.Activity { return CallOff.With(a.callOff) }

func (a *Caller) callOff(_ context.Context, c flow.Call, in UnneededCalls) (ended int, err error) {
	raw, err := json.Marshal(in.Why)
	if err != nil {
		return 0, fmt.Errorf("encoding why calls are called off: %w", err)
	}
	a.calledOff.mu.Lock()
	defer a.calledOff.mu.Unlock()
	for _, id := range in.Calls {
		call := flow.Call{Run: c.Run, ID: id}
		dir := filepath.Join(a.RunDir, Folder(call))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return ended, fmt.Errorf("making the folder of %s: %w", id, err)
		}
		if err := a.Disk.WriteFile(filepath.Join(dir, calledOffFile), raw, 0o600); err != nil {
			return ended, err
		}
		if a.calledOff.end(call.Key(), in.Why) {
			ended++
		}
	}
	return ended, nil
}

// end ends the call if it is under way, and prevents it from being made later. It reports whether the call was under way.
func (o *calledOffCalls) end(key, why string) bool {
	if o.reasons == nil {
		o.reasons = map[string]string{}
	}
	o.reasons[key] = why
	end, open := o.running[key]
	if open {
		end(callOffFailure(why))
	}
	return open
}

func callOffFailure(why string) *flow.Failure { return flow.Fail(string(trellis.CalledOff), "%s", why) }

// beginEntry creates the folder of an entry, or returns a failure if its call was called off, by this process or by an earlier one.
func (a *Caller) beginEntry(base string, c flow.Call) (dir string, off *flow.Failure, err error) {
	a.calledOff.mu.Lock()
	defer a.calledOff.mu.Unlock()
	if why, off := a.calledOff.reasons[c.Key()]; off {
		return "", callOffFailure(why), nil
	}
	if c.Attempt > 1 {
		if off, err = calledOffEarlier(base); off != nil || err != nil {
			return "", off, err
		}
	}
	dir, err = a.makeFolder(base, c)
	return dir, nil, err
}

// calledOffEarlier returns the failure of a call that an earlier process called off, or nil.
func calledOffEarlier(base string) (*flow.Failure, error) {
	raw, err := durable.ReadBelow(base, calledOffFile, durable.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var why string
	if err == nil {
		err = json.Unmarshal(raw, &why)
	}
	if err != nil {
		return nil, fmt.Errorf("looking whether the call was called off: %w", err)
	}
	return callOffFailure(why), nil
}

// register has end called if the call is called off before done is called.
func (o *calledOffCalls) register(c flow.Call, end context.CancelCauseFunc) (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if why, off := o.reasons[c.Key()]; off {
		end(callOffFailure(why))
	}
	if o.running == nil {
		o.running = map[string]context.CancelCauseFunc{}
	}
	o.running[c.Key()] = end
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.running, c.Key())
	}
}
