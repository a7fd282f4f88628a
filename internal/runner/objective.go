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

// StepError says why a step is not planned.
type StepError struct {
	Objective string
	Step      string // "" if no step comes next
	Code      roadmap.Code
	Why       string
}

func (e *StepError) Error() string {
	if e.Step == "" {
		return fmt.Sprintf("objective %s: no step is planned (%s): %s", e.Objective, e.Code, e.Why)
	}
	return fmt.Sprintf("objective %s: step %s is not planned: %s", e.Objective, e.Step, e.Why)
}

// BusyError is returned if another process plans a step. It matches durable.ErrHeld.
type BusyError struct {
	Objective, Step string
	Held            *durable.HeldError
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("step %s of %s is being planned by %s", e.Step, e.Objective, e.Held.By())
}

func (e *BusyError) Unwrap() error { return e.Held }

// ErrOtherPlan is returned if the cell of a step names another plan.
var ErrOtherPlan = errors.New("its cell names another plan")

func (s Objectives) roadmaps() roadmap.Store {
	return roadmap.Store{Root: s.Store.Root, Disk: s.Disk, Holder: runlock.Holder("", s.Clock())}
}

// Advance is the state of an objective and what comes next for it.
type Advance struct {
	Name     string
	Road     *roadmap.Roadmap  // the roadmap with the changes
	Changes  []roadmap.Change  // written into its roadmap, or due in a dry run
	Others   []roadmap.Due     // tasks of steps whose cells name another plan
	Gone     []trellis.Problem // warnings of steps whose task is gone
	Decision roadmap.Decision
	Ready    []roadmap.Step // steps that can be planned now, or whose planning can be resumed
}

// Advance writes into a roadmap what became of its tasks, and returns what comes next. With dry, it returns the same and writes nothing.
func (s Objectives) Advance(ctx context.Context, name string, works *roadmap.StepTasks, dry bool) (a Advance, err error) {
	a.Name = name
	road, err := roadmap.Load(s.Store.Root, name)
	if err != nil {
		return a, err
	}
	due := road.Due(works)
	if dry {
		road, err = road.Apply(due)
	} else if len(due) > 0 {
		if due, err = s.roadmaps().WriteDue(ctx, s.Store, name, works); err == nil {
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
	a.Road, a.Gone = road, road.LostPlans(works)
	tasks := works.Tasks(name)
	a.Decision = road.Next(tasks)
	for _, step := range road.Ready(tasks) {
		if road.Free(works, step) {
			a.Ready = append(a.Ready, step)
		}
	}
	return a, nil
}

// ReconcileOptions say what Reconcile does.
type ReconcileOptions struct {
	Names   []string // nil: all objectives whose auto_advance is true
	All     bool     // plan all steps that could start now, not the next one alone
	Dry     bool     // decide the same, but write nothing
	Creator string   // creator of the tasks
}

// ReconcileResult is the result for one objective.
type ReconcileResult struct {
	Advance
	Steps   []roadmap.Step // steps that are planned, or would be in a dry run
	Planned []StepResult   // results of those steps that were planned
	Busy    []*BusyError   // those steps that another process plans
	Err     error
}

// Reconcile writes into roadmaps what became of their tasks, and plans what comes next, one step after the other. An error of
// one objective does not stop the others. After an interruption, objectives that were not begun are left out.
func (s Objectives) Reconcile(ctx context.Context, o ReconcileOptions) ([]ReconcileResult, error) {
	names, err := s.objectives(o.Names)
	if err != nil {
		return nil, err
	}
	var all []ReconcileResult
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		all = append(all, s.reconcile(ctx, name, o))
	}
	return all, nil
}

// objectives returns names or, without any, those of all objectives that advance by themselves, and of those that can't be
// read, which may be among them.
func (s Objectives) objectives(names []string) (list []string, err error) {
	if len(names) > 0 {
		return names, nil
	}
	all, err := roadmap.Names(s.Store.Root)
	if err != nil {
		return nil, err
	}
	for _, name := range all {
		if road, err := roadmap.Load(s.Store.Root, name); road == nil || road.Auto || err != nil && len(road.Steps) == 0 {
			list = append(list, name)
		}
	}
	return list, nil
}

func (s Objectives) reconcile(ctx context.Context, name string, o ReconcileOptions) (r ReconcileResult) {
	works, err := s.SurveyWorks(ctx, o.Dry)
	if err == nil {
		r.Advance, err = s.Advance(ctx, name, works, o.Dry)
	}
	if r.Name, r.Err = name, err; err != nil {
		return r
	}
	if r.Steps = r.Ready; !o.All && len(r.Steps) > 1 {
		r.Steps = r.Steps[:1]
	}
	var errs []error
	for _, step := range r.Steps {
		if o.Dry || ctx.Err() != nil {
			break
		}
		res, err := s.PlanOne(ctx, name, StepOptions{Step: step.ID, Creator: o.Creator}, false)
		if res.Task != "" {
			r.Planned = append(r.Planned, res)
		}
		if busy, ok := errors.AsType[*BusyError](err); ok {
			r.Busy = append(r.Busy, busy)
			continue
		}
		errs = append(errs, err)
	}
	r.Err = errors.Join(errs...)
	return r
}
