package roadmap

import (
	"context"
	"errors"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// WriteDue writes the due changes into a roadmap, and returns them. After a crash at any point it can be repeated: that a cell
// names a task is noted after the cell is written, that a status becomes blocked is noted before it is written.
func (d Store) WriteDue(ctx context.Context, s taskdir.Store, name string, w *StepTasks) (due []Due, err error) {
	err = d.withLock(ctx, name, func(ctx context.Context) error {
		err := d.edit(ctx, name, func(src []byte) ([]byte, error) {
			r, err := Parse(name, src)
			if err != nil {
				return nil, err
			}
			due = r.Due(w)
			return d.write(s, r, due)
		})
		if err != nil {
			return err
		}
		for _, one := range due {
			if one.Other == "" {
				err = errors.Join(err, writeNote(s, one.Work.Dir, one.Note))
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return due, nil
}

// NoteIssue notes that an issue holds the plan of a step's task.
func (d Store) NoteIssue(ctx context.Context, s taskdir.Store, name, dir string, issue int) error {
	return d.withLock(ctx, name, func(context.Context) error {
		n := ReadNote(dir)
		n.Issue = issue
		return writeNote(s, dir, n)
	})
}

// write returns the text of the roadmap with all due changes.
func (d Store) write(s taskdir.Store, r *Roadmap, due []Due) ([]byte, error) {
	for _, one := range due {
		if was := ReadNote(one.Work.Dir); one.Note.Blocked && !was.Blocked {
			was.Blocked, was.Before = true, one.Note.Before
			if err := writeNote(s, one.Work.Dir, was); err != nil {
				return nil, err
			}
		}
	}
	r, err := r.Apply(due)
	if err != nil {
		return nil, err
	}
	return r.src, nil
}

// Apply returns the roadmap with all due changes applied.
func (r *Roadmap) Apply(due []Due) (_ *Roadmap, err error) {
	for _, one := range due {
		for _, c := range one.Changes {
			if r, err = r.set(c.Step, c.Cell, c.Value); err != nil {
				return nil, err
			}
		}
	}
	return r, nil
}

// CheckLinkable returns an error unless a cell of the step can name its task.
func (r *Roadmap) CheckLinkable(step string) error {
	c, value := PR, "plan task"
	if s := r.Step(step); s != nil && r.hasCell(*s, Plan) {
		c, value = Plan, "task"
	}
	_, err := r.set(step, c, value)
	return err
}

// BlockingDependency returns a dependency of s that prevents planning s, since nothing in progress would complete it, and the reason; ""
// if there is none.
func (r *Roadmap) BlockingDependency(w *StepTasks, s Step) (id, why string) {
	tasks := w.Tasks(r.Name)
	for _, id := range s.DependsOn {
		stands, why := r.Step(id).assess(tasks)
		work, planned := w.Of(r.Name, id)
		switch {
		case stands == stopped:
			return id, why
		case stands == notBegun && (!planned || work.Dead()):
			return id, "is pending"
		}
	}
	return "", ""
}

// DependencyTasks returns the directory names of the tasks that a step's task depends on: those of its dependencies whose work is not in
// the base branch yet.
func (r *Roadmap) DependencyTasks(w *StepTasks, s Step) (ids []string) {
	for _, id := range s.DependsOn {
		work, ok := r.work(w, *r.Step(id))
		if !ok || work.Archived || work.Dead() {
			continue
		}
		if work.Status == trellis.Completed && (work.Pipeline.Outcome != trellis.NoChangeNeeded || work.Pipeline.StackedOn == "") {
			continue
		}
		ids = append(ids, work.Name())
	}
	return ids
}
