package pipeline_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// scripted is a flow without an engine: its activities do nothing and return the results that a test has set, so that the test
// sees how flow code reacts to them. Branches run one after the other, waits end at once, and no journal is written.
type scripted struct {
	T *testing.T
	// Results holds, by activity, the results of its calls in order; the last one is repeated. Each is JSON as a string, or an
	// error. An activity without results must not be called.
	Results map[string][]any
	// Signals holds, by name, the JSON data of the signals that have arrived, in order. Await without a limit suspends if none is left.
	Signals map[string][]string

	Calls []calledActivity
	Slept []time.Duration
	stop  error // ErrCancelled or ErrSuspended, once an activity or Await has returned it
}

// calledActivity is one call of an activity.
type calledActivity struct {
	ID, Name string
	In       json.RawMessage
}

// Flow returns the flow at its root scope.
func (p *scripted) Flow() flow.Flow { return scriptedScope{scripted: p} }

// Names returns the names of the activities that were called, in order, except those given.
func (p *scripted) Names(without ...string) (list []string) {
	for _, c := range p.Calls {
		if !slices.Contains(without, c.Name) {
			list = append(list, c.Name)
		}
	}
	return list
}

// Last decodes the input of the last call of an activity into in. It fails the test if the activity was not called.
func (p *scripted) Last(name string, in any) {
	p.T.Helper()
	for _, c := range slices.Backward(p.Calls) {
		if c.Name != name {
			continue
		}
		if err := json.Unmarshal(c.In, in); err != nil {
			p.T.Fatalf("input of %s: %v", c.ID, err)
		}
		return
	}
	p.T.Fatalf("%s was not called", name)
}

type scriptedScope struct {
	*scripted
	scope  string
	shield bool
}

func (f scriptedScope) Do(name string, in, out any) error {
	if f.stop != nil && !(f.shield && errors.Is(f.stop, flow.ErrCancelled)) {
		return f.stop
	}
	raw, err := json.Marshal(in)
	if err != nil {
		f.T.Fatalf("input of %s: %v", name, err)
	}
	if len(raw) > flow.MaxPayload {
		f.T.Errorf("input of %s has %d bytes", name, len(raw))
	}
	n := 1
	for _, c := range f.Calls {
		if strings.HasPrefix(c.ID, f.scope+name+"#") {
			n++
		}
	}
	f.Calls = append(f.Calls, calledActivity{fmt.Sprintf("%s%s#%d", f.scope, name, n), name, raw})
	results := f.Results[name]
	if len(results) == 0 {
		f.T.Fatalf("%s%s was called, and the test does not say what comes of it; called were %s", f.scope, name, strings.Join(f.Names(), " "))
	}
	if len(results) > 1 {
		f.Results[name] = results[1:]
	}
	return f.result(name, results[0], out)
}

func (f scriptedScope) result(name string, result, out any) error {
	switch result := result.(type) {
	case error:
		if errors.Is(result, flow.ErrCancelled) || errors.Is(result, flow.ErrSuspended) {
			f.stop = result
		}
		if fail := (*flow.Failure)(nil); errors.As(result, &fail) { // a copy, since flow code may change the failure that it gets
			copied := *fail
			return &copied
		}
		return result
	case string:
		if out == nil {
			return nil
		}
		if err := json.Unmarshal([]byte(result), out); err != nil {
			f.T.Fatalf("result of %s: %v in %s", name, err, result)
		}
		return nil
	}
	f.T.Fatalf("result of %s is a %T", name, result)
	return nil
}

func (f scriptedScope) Sleep(d time.Duration) error {
	if f.stop != nil {
		return f.stop
	}
	f.Slept = append(f.Slept, d)
	return nil
}

func (f scriptedScope) Await(signal string, limit time.Duration, out any) (bool, error) {
	if f.stop != nil {
		return false, f.stop
	}
	there := f.Signals[signal]
	if len(there) == 0 && limit == flow.Forever {
		f.stop = fmt.Errorf("waiting for %s: %w", signal, flow.ErrSuspended)
		return false, f.stop
	}
	if len(there) == 0 {
		f.Slept = append(f.Slept, limit)
		return false, nil
	}
	f.Signals[signal] = there[1:]
	if out == nil || there[0] == "" {
		return true, nil
	}
	return true, json.Unmarshal([]byte(there[0]), out)
}

func (f scriptedScope) All(_ int, branches ...flow.Branch) error {
	var errs []error
	for ended := map[string]bool{}; len(ended) < len(branches); {
		before := len(ended)
		for _, b := range branches {
			if ended[b.Name] || slices.ContainsFunc(b.After, func(name string) bool { return !ended[name] }) {
				continue
			}
			ended[b.Name] = true
			errs = append(errs, b.Run(f.In(b.Name)))
		}
		if len(ended) == before {
			f.T.Fatal("branches wait for each other")
		}
	}
	return errors.Join(errs...)
}

func (f scriptedScope) In(scope string) flow.Flow {
	f.scope += scope + "/"
	return f
}

func (f scriptedScope) Shield() flow.Flow {
	f.shield = true
	return f
}
