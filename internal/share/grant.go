package share

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
)

// grant is the record of a task that this machine was given.
type grant struct {
	n    int       // how many grants have not been ended
	turn time.Time // turn of the newest grant
}

// Grant records that the server of a cluster, which assigns tasks for the whole team, gave a task to this machine: whoever
// has the task by what was heard is dead or gone, and its silence is not waited for until end is called. If it is alive
// nevertheless, it loses the task with the next push of this machine. turn is when the task was given, by the clock of that
// server: a machine that was frozen since then takes nothing that was given to another one later.
func (t *Team) Grant(task string, turn time.Time) (end func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.grants[task]
	g.n++
	if turn.After(g.turn) {
		g.turn = turn
	}
	t.grants[task] = g
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		g := t.grants[task]
		if g.n--; g.n == 0 {
			delete(t.grants, task)
			return
		}
		t.grants[task] = g
	}
}

func (t *Team) granted(task string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.grants[task].n > 0
}

// turnAfter returns the turn for the state that follows s.
func (t *Team) turnAfter(s taskref.State) time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	if turn := t.grants[s.Task].turn; turn.After(s.Turn) {
		return turn
	}
	return s.Turn
}

// laterHolder returns which machine was given a task later than this one; nil if none was, or no server assigns tasks.
func (t *Team) laterHolder(s taskref.State) *runner.OtherMachineError {
	t.mu.Lock()
	g := t.grants[s.Task]
	t.mu.Unlock()
	if g.n == 0 || !s.Turn.After(g.turn) {
		return nil
	}
	return &runner.OtherMachineError{Task: s.Task, Host: s.From, Since: s.At}
}

// Receive brings a task that no other machine works on to where the others left it, takes it from the machine that had it
// before this one was granted it, and carries out what people have asked of it since. Errors are those of Change.
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

func (t *Team) receive(ctx context.Context, dir string) error {
	s, err := t.find(ctx, filepath.Base(dir))
	if err != nil {
		return err
	}
	if by := t.holder(s); by != nil {
		return by
	}
	if by := t.laterHolder(s); by != nil {
		return by
	}
	if err := t.importState(ctx, dir, s); err != nil {
		return err
	}
	if s.Claim.Machine != "" && s.Claim.Machine != t.Machine {
		if s, err = t.publish(ctx, dir, s, "taken from "+s.Claim.Host); err != nil {
			return err
		}
	}
	_, orders, err := t.Remote.LastFetched(ctx)
	if err != nil {
		return err
	}
	var done []taskref.Order
	for _, o := range orders {
		if o.Task == s.Task {
			t.apply(dir, o)
			done = append(done, o)
		}
	}
	if len(done) == 0 {
		return nil
	}
	_, err = t.publish(ctx, dir, s, "did what people asked for", done...)
	return err
}
