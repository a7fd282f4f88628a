package share

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/taskref"
)

// Grant says that what all machines of the team go by gave a task to this one: whoever has it by what was heard is dead or gone, and
// its silence is not waited for until end is called. One that lives all the same loses the task with the next push of this machine.
func (t *Team) Grant(task string) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.grants[task]++
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.grants[task]--; t.grants[task] == 0 {
			delete(t.grants, task)
		}
	}
}

func (t *Team) granted(task string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grants[task] > 0
}

// Receive brings a task that no other machine is at work on to where the others left it, takes it from who had it before this machine was
// granted it, and carries out what people asked of it since. Errors are those of Change.
func (t *Team) Receive(ctx context.Context, dir string) error {
	lock, err := t.lock(dir)
	if err != nil {
		return err
	}
	for range tries {
		if err = t.receive(ctx, dir); !errors.Is(err, taskref.ErrLost) {
			break
		}
	}
	return errors.Join(err, lock.Unlock())
}

// receive is Receive once.
func (t *Team) receive(ctx context.Context, dir string) error {
	s, err := t.find(ctx, filepath.Base(dir))
	if err != nil {
		return err
	}
	if by := t.Elsewhere(dir); by != nil {
		return by
	}
	if err := t.bring(ctx, dir, s); err != nil {
		return err
	}
	if s.Claim.Machine != "" && s.Claim.Machine != t.Machine {
		if s, err = t.give(ctx, dir, s, "taken from "+s.Claim.Host); err != nil {
			return err
		}
	}
	_, orders, err := t.Remote.Seen(ctx)
	if err != nil {
		return err
	}
	var done []taskref.Order
	for _, o := range orders {
		if o.Task == s.Task {
			t.apply(ctx, dir, o)
			done = append(done, o)
		}
	}
	if len(done) == 0 {
		return nil
	}
	_, err = t.give(ctx, dir, s, "did what people asked for", done...)
	return err
}
