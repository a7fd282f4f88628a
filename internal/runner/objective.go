package runner

import (
	"context"
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Objectives plans the steps of objectives and writes into roadmaps what became of them.
type Objectives struct{ *Site }

// Objectives works on s.
func (s *Site) Objectives() Objectives { return Objectives{s} }

// StepError says why a step is not planned.
type StepError struct {
	Objective string
	Step      string // "": none comes next
	Code      roadmap.Code
	Why       string
}

func (e *StepError) Error() string {
	if e.Step == "" {
		return fmt.Sprintf("objective %s: no step is planned (%s): %s", e.Objective, e.Code, e.Why)
	}
	return fmt.Sprintf("objective %s: step %s is not planned: %s", e.Objective, e.Step, e.Why)
}

// BusyError says that another process plans a step. It matches durable.ErrHeld.
type BusyError struct {
	Objective, Step string
	Held            *durable.HeldError
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("step %s of %s is being planned by %s", e.Step, e.Objective, e.Held.By())
}

func (e *BusyError) Unwrap() error { return e.Held }

// ErrOtherPlan says that a step's cell names another plan.
var ErrOtherPlan = errors.New("its cell names another plan")

func (s Objectives) desk() roadmap.Desk {
	return roadmap.Desk{Root: s.Store.Root, Disk: s.Disk, Holder: runlock.Holder("", s.Clock())}
}

// Advance is what an objective has come to.
type Advance struct {
	Name     string
	Road     *roadmap.Roadmap  // with the changes
	Changes  []roadmap.Change  // written into its roadmap, or due in a dry run
	Others   []roadmap.Due     // tasks of steps whose cells name another plan
	Gone     []trellis.Problem // warnings of steps whose task is gone
	Decision roadmap.Decision
	Ready    []roadmap.Step // that can be planned now, or whose planning can be gone on with
}

// Advance writes into a roadmap what became of its tasks, and says what comes next. A dry one says the same and
// writes nothing.
func (s Objectives) Advance(ctx context.Context, name string, works *roadmap.Works, dry bool) (a Advance, err error) {
	a.Name = name
	road, err := roadmap.Load(s.Store.Root, name)
	if err != nil {
		return a, err
	}
	due := road.Due(works)
	if dry {
		road, err = road.With(due)
	} else if len(due) > 0 {
		if due, err = s.desk().Settle(ctx, s.Store, name, works); err == nil {
			road, err = roadmap.Load(s.Store.Root, name)
		}
	}
	if err != nil {
		return a, err
	}
	for _, d := range due {
		a.Changes = append(a.Changes, d.Changes...)
		if d.Other != "" {
			a.Others = append(a.Others, d)
		}
	}
	a.Road, a.Gone = road, road.Gone(works)
	tasks := works.Tasks(name)
	a.Decision = road.Next(tasks)
	for _, step := range road.Ready(tasks) {
		if road.Free(works, step) {
			a.Ready = append(a.Ready, step)
		}
	}
	return a, nil
}
