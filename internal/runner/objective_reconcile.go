package runner

import (
	"context"
	"errors"

	"github.com/trellis-tasks/trellis/internal/roadmap"
)

// ReconcileOptions say what is reconciled.
type ReconcileOptions struct {
	Names   []string // nil: all objectives whose auto_advance is true
	All     bool     // plan all steps that could start now, not the next one alone
	Dry     bool     // decide the same, and write nothing
	Creator string   // of the tasks
}

// Reconciled is what came of one objective.
type Reconciled struct {
	Advance
	Steps   []roadmap.Step // that are planned, or would be in a dry run
	Planned []StepResult   // of those
	Busy    []*BusyError   // of those: another process plans them
	Err     error
}

// Reconcile writes into roadmaps what became of their tasks, and plans what comes next, one step after the other. What
// goes wrong with one objective stops no other. After an interruption what was not begun is left out.
func (s Objectives) Reconcile(ctx context.Context, o ReconcileOptions) ([]Reconciled, error) {
	names, err := s.objectives(o.Names)
	if err != nil {
		return nil, err
	}
	var all []Reconciled
	for _, name := range names {
		if ctx.Err() != nil {
			break
		}
		all = append(all, s.reconcile(ctx, name, o))
	}
	return all, nil
}

// objectives are the names given, or else those of all objectives that go on by themselves. One that can't be read may
// be one of them.
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

func (s Objectives) reconcile(ctx context.Context, name string, o ReconcileOptions) (r Reconciled) {
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
		if busy := (*BusyError)(nil); errors.As(err, &busy) {
			r.Busy = append(r.Busy, busy)
			continue
		}
		errs = append(errs, err)
	}
	r.Err = errors.Join(errs...)
	return r
}
