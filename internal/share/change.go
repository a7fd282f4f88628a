package share

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Change makes a change to a task that no other machine works on, after it brought what others did to it, and publishes the
// result if the task is on the remote: [Team.Submit] puts it there. A task that this machine works on is changed as it is,
// and published by its run. Change returns a *runner.OtherMachineError if another machine works on the task.
func (t *Team) Change(ctx context.Context, dir string, change func() error) error {
	if _, held := runner.Held(dir); held {
		return change()
	}
	lock, err := t.lockSoon(ctx, dir)
	if err != nil {
		if _, held := runner.Held(dir); held { // its run began meanwhile
			return change()
		}
		return err
	}
	for range tries {
		var s taskref.State
		if s, err = t.change(ctx, dir, func(taskref.State) error { return change() }); err == nil && s.Commit != "" {
			_, err = t.publish(ctx, dir, s, "changed by a person")
		}
		if !errors.Is(err, taskref.ErrLost) {
			break
		}
	}
	return errors.Join(err, lock.Unlock())
}

// change makes a change to a task as others left it, and returns that state. publish returns [taskref.ErrLost] for that state if
// another machine changed the task at the same moment: then the caller changes what the other machine made of it.
func (t *Team) change(ctx context.Context, dir string, change func(taskref.State) error) (taskref.State, error) {
	s, err := t.find(ctx, filepath.Base(dir))
	if err != nil {
		return s, err
	}
	if by := t.holder(s); by != nil {
		return s, by
	}
	if err := t.importState(ctx, dir, s); err != nil {
		return s, err
	}
	return s, change(s)
}

// Submit publishes a task as this machine has it, and reports whether others did not know that yet. Errors are those of Change.
func (t *Team) Submit(ctx context.Context, dir string) (news bool, err error) {
	if by, held := runner.Held(dir); held {
		return false, &durable.HeldError{Path: filepath.Join(dir, taskdir.RunLock), Holder: by}
	}
	lock, err := t.lockSoon(ctx, dir)
	if err != nil {
		return false, err
	}
	s, err := t.change(ctx, dir, func(s taskref.State) (err error) {
		news, err = t.differs(ctx, dir, s)
		return err
	})
	if err == nil {
		_, err = t.publish(ctx, dir, s, "changed by a person")
	}
	return news, errors.Join(err, lock.Unlock())
}

// Withdraw removes a task from the remote, with its work. The task stays as it is here, and in the clones that have it; none
// of them publishes it again by itself. Errors are those of Change.
func (t *Team) Withdraw(ctx context.Context, dir string) error {
	lock, err := t.lockSoon(ctx, dir)
	if err != nil {
		return err
	}
	s, err := t.find(ctx, filepath.Base(dir))
	if by := t.holder(s); err == nil && by != nil {
		err = by
	}
	if err == nil && s.Commit != "" {
		err = t.Remote.Remove(ctx, s)
	}
	if err == nil {
		err = t.sightings.record(nil, s.Task)
	}
	return errors.Join(err, lock.Unlock())
}

// publish publishes the state of a task on which no machine works.
func (t *Team) publish(ctx context.Context, dir string, was taskref.State, why string, done ...taskref.Order) (taskref.State, error) {
	task, err := t.Remote.Store.Load(dir)
	if err != nil {
		return was, err
	}
	s, err := t.Remote.Save(ctx, dir, was.Commit, taskref.SaveAs{Status: task.Status, Until: task.Pipeline.ResumeAt, Turn: t.turnAfter(was), Why: why, Done: done, Work: was.Worker == "" || was.Worker == t.Machine})
	if err != nil {
		return was, fmt.Errorf("telling the team of %s: %w", filepath.Base(dir), err)
	}
	return s, t.sightings.record([]taskref.State{s})
}

// differs reports whether a task directory differs from its state.
func (t *Team) differs(ctx context.Context, dir string, s taskref.State) (bool, error) {
	if s.Commit == "" {
		return true, nil
	}
	return t.Remote.Differs(ctx, dir, s)
}

// Ask sends an order to the machine that has a task.
func (t *Team) Ask(ctx context.Context, o taskref.Order) error {
	if err := t.Remote.Send(ctx, o); err != nil {
		return fmt.Errorf("asking the machine that has %s: %w", o.Task, err)
	}
	return nil
}
