// Package flowtest tests the contract of flow.Flow. Every engine runs these tests.
package flowtest

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
)

// Input is the input of every run of the suite.
const Input = "the input"

// Func is the flow code of a run.
type Func func(f flow.Flow, in string) (string, error)

// Engine is one run of an engine under test. Run is called from one goroutine at a time, the other methods from any goroutine,
// even before Run.
type Engine interface {
	// Run begins the run with Input, or resumes it as a new process would, and returns the result of the flow. It waits as long
	// as the flow does. It returns early, with an error that matches flow.ErrSuspended, after Suspend, and with any other error
	// if the flow breaks a rule.
	Run(fn Func, acts ...flow.Activity) (string, error)
	// Signal sends a signal, and returns when the next Await is certain to see it.
	Signal(id, name string, data any)
	// Cancel calls the run off.
	Cancel()
	// Suspend makes Run stop working on the run, as the end of its process would.
	Suspend()
}

// Run runs the suite. engine creates a new run for each test.
func Run(t *testing.T, engine func(t *testing.T) Engine) {
	tests := map[string]func(*suite){
		"Results":              (*suite).results,
		"Failures":             (*suite).failures,
		"FlowFails":            (*suite).flowFails,
		"IDs":                  (*suite).ids,
		"EndedOnlyAnswers":     (*suite).endedOnlyAnswers,
		"Payloads":             (*suite).payloads,
		"Suspend":              (*suite).suspend,
		"SuccessWhileStopping": (*suite).successWhileStopping,
		"FailureWhileStopping": (*suite).failureWhileStopping,
		"Signals":              (*suite).signals,
		"SignalsAreTakenOnce":  (*suite).signalsAreTakenOnce,
		"AwaitLimits":          (*suite).awaitLimits,
		"LookWithoutWaiting":   (*suite).awaitWithoutWaiting,
		"Sleep":                (*suite).sleep,
		"BranchOrder":          (*suite).branchOrder,
		"BranchPool":           (*suite).branchPool,
		"BranchErrors":         (*suite).branchErrors,
		"BranchesResume":       (*suite).branchesResume,
		"NestedBranches":       (*suite).nestedBranches,
		"CancelActivity":       (*suite).cancelActivity,
		"CancelWait":           (*suite).cancelWait,
		"CancelBeforeRun":      (*suite).cancelBeforeRun,
		"CancelCutOff":         (*suite).cancelCutOff,
		"CancelledButDone":     (*suite).cancelledButDone,
		"CancelResumes":        (*suite).cancelResumes,
		"CancelBranches":       (*suite).cancelBranches,
		"Misuse":               (*suite).misuse,
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(newSuite(t, engine))
		})
	}
}

// activityFunc is the code of an activity of the suite. c.Attempt is that of the call.
type activityFunc func(ctx context.Context, c flow.Call, in string) (any, error)

// suite has three activities, a, b and c, which return their input unless activities says otherwise, and logs
// each entry.
type suite struct {
	*testing.T
	newEngine  func(*testing.T) Engine
	engine     Engine
	activities map[string]activityFunc // set before Run only

	mu     sync.Mutex
	calls  []flow.Call
	inputs []string
}

func newSuite(t *testing.T, engine func(*testing.T) Engine) *suite {
	return &suite{T: t, newEngine: engine, engine: engine(t), activities: map[string]activityFunc{}}
}

const (
	a flow.Act[string, string] = "a"
	b flow.Act[string, string] = "b"
	c flow.Act[string, string] = "c"
)

// run calls Engine.Run with the suite's activities.
func (s *suite) run(fn Func) (string, error) {
	var acts []flow.Activity
	for _, name := range []string{"a", "b", "c"} {
		acts = append(acts, flow.Activity{Name: name, Run: func(ctx context.Context, c flow.Call, raw json.RawMessage) (any, error) {
			var in string
			if err := json.Unmarshal(raw, &in); err != nil {
				return nil, err
			}
			s.log(c, in)
			if work := s.activities[name]; work != nil {
				return work(ctx, c, in)
			}
			return in, nil
		}})
	}
	return s.engine.Run(fn, acts...)
}

func (s *suite) log(c flow.Call, in string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls, s.inputs = append(s.calls, c), append(s.inputs, in)
}

// entered returns the ids of the calls so far, in order.
func (s *suite) entered() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []string
	for _, c := range s.calls {
		ids = append(ids, c.ID)
	}
	return ids
}

func (s *suite) wantEntered(want ...string) {
	s.Helper()
	if got := s.entered(); !slices.Equal(got, want) {
		s.Errorf("entered %q, want %q", got, want)
	}
}

// wantRun runs fn and compares its result and error.
func (s *suite) wantRun(fn Func, want string, wantErr error) {
	s.Helper()
	got, err := s.run(fn)
	if wantErr == nil && (err != nil || got != want) {
		s.Errorf("got %q, %v, want %q", got, err, want)
	}
	if wantErr != nil && !errors.Is(err, wantErr) {
		s.Errorf("got %q, %v, want error %v", got, err, wantErr)
	}
}

func isInternal(err error) bool { return errors.Is(err, &flow.Failure{Code: "internal"}) }
