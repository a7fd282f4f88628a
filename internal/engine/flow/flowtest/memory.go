package flowtest

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

// Memory is a run without an engine, for tests of flow code: each activity answers what the test says, and the calls
// are noted. Branches run one after the other. It is not resumed and not cancelled.
type Memory struct {
	Calls   []Call           // in the order in which they were made
	Slept   []time.Duration  // by Sleep, and by Await when no signal came
	Signals map[string][]any // that Await takes, by name

	t       testing.TB
	answers map[string]func(in json.RawMessage) (any, error)
	made    map[string]int
}

// Call is one activity that was called.
type Call struct {
	ID   string // <scope>/<activity>#<nth call in scope>
	Name string
	In   json.RawMessage
}

// NewMemory is a run whose activities are given with On.
func NewMemory(t testing.TB) *Memory {
	return &Memory{t: t, answers: map[string]func(json.RawMessage) (any, error){}, made: map[string]int{}, Signals: map[string][]any{}}
}

// On says what an activity answers. One that nobody said anything of fails the test.
func On[I, O any](m *Memory, name string, answer func(in I) (O, error)) {
	m.answers[name] = func(raw json.RawMessage) (any, error) {
		var in I
		if err := json.Unmarshal(raw, &in); err != nil {
			return nil, fmt.Errorf("decoding input of %s: %w", name, err)
		}
		return answer(in)
	}
}

// Names are the names of the activities in the order in which they were called.
func (m *Memory) Names() (list []string) {
	for _, c := range m.Calls {
		list = append(list, c.Name)
	}
	return list
}

// Flow is the flow that the code under test is given.
func (m *Memory) Flow() flow.Flow { return memory{m: m} }

type memory struct {
	m     *Memory
	scope string
}

func (f memory) In(scope string) flow.Flow {
	return memory{f.m, strings.TrimPrefix(f.scope+"/"+scope, "/")}
}

func (f memory) Shield() flow.Flow { return f }

func (f memory) Do(name string, in, out any) error {
	raw, err := json.Marshal(in)
	if err != nil {
		f.m.t.Errorf("encoding the input of %s: %v", name, err)
		return flow.AsFailure(err)
	}
	f.m.note(strings.TrimPrefix(f.scope+"/"+name, "/"), name, raw)
	answer := f.m.answers[name]
	if answer == nil {
		f.m.t.Errorf("nobody says what %s answers to %s", name, raw)
		return flow.Fail("internal", "no answer of %s", name)
	}
	said, err := answer(raw)
	if errors.Is(err, flow.ErrCancelled) || errors.Is(err, flow.ErrSuspended) {
		return err
	}
	if err != nil {
		return flow.AsFailure(err)
	}
	if raw, err = json.Marshal(said); err != nil || out == nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

func (m *Memory) note(id, name string, in json.RawMessage) {
	m.made[id]++
	m.Calls = append(m.Calls, Call{fmt.Sprintf("%s#%d", id, m.made[id]), name, in})
}

func (f memory) Sleep(d time.Duration) error {
	f.m.Slept = append(f.m.Slept, d)
	return nil
}

func (f memory) Await(signal string, limit time.Duration, out any) (bool, error) {
	waiting := f.m.Signals[signal]
	if len(waiting) == 0 {
		if limit == flow.Forever {
			return false, flow.ErrSuspended
		}
		return false, f.Sleep(limit)
	}
	f.m.Signals[signal] = waiting[1:]
	if out == nil {
		return true, nil
	}
	raw, err := json.Marshal(waiting[0])
	if err != nil {
		return true, err
	}
	return true, json.Unmarshal(raw, out)
}

func (f memory) All(_ int, branches ...flow.Branch) error {
	var errs []error
	for done := []string{}; len(done) < len(branches); {
		i := slices.IndexFunc(branches, func(b flow.Branch) bool {
			return !slices.Contains(done, b.Name) && !slices.ContainsFunc(b.After, func(name string) bool { return !slices.Contains(done, name) })
		})
		if i < 0 {
			f.m.t.Fatal("branches wait for each other, or for one that there is not")
		}
		done = append(done, branches[i].Name)
		errs = append(errs, branches[i].Run(f.In(branches[i].Name)))
	}
	return errors.Join(errs...)
}
