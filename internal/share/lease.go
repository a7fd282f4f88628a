package share

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
)

// lease is a task that this machine has, for as long as others hear of it.
type lease struct {
	t     *Team
	dir   string
	claim taskref.Claim
	lock  *durable.Lock

	mu    sync.Mutex
	state taskref.State   // that the remote had last
	heard time.Time       // when that was
	done  []taskref.Order // orders that were carried out, and stand on the remote yet
	asked map[string]bool // ids of all that were
	lost  error           // why it is this machine's no more
	drop  context.CancelCauseFunc
}

const (
	beatsInSilence = 4                // how often others hear of a machine before they would take its tasks
	firstPause     = time.Second      // before something is given again that did not arrive
	farewell       = 20 * time.Second // how long the end of a run waits for a remote that does not answer
)

// Brought reports whether the task was another machine's before, and its worktree was not made fit here since: also by a process that
// was killed before it did.
func (l *lease) Brought() bool {
	_, err := os.Stat(l.t.broughtMark(l.dir))
	return err == nil
}

// Fits notes that the worktree was made fit.
func (l *lease) Fits() error {
	if err := os.Remove(l.t.broughtMark(l.dir)); err != nil {
		return fmt.Errorf("noting that the worktree of %s is fit: %w", l.state.Task, err)
	}
	return nil
}

// Hold keeps the task while it is worked on, and gives it back at the end.
func (l *lease) Hold(ctx context.Context) (context.Context, func(runner.Result) error) {
	held, drop := context.WithCancelCause(ctx)
	l.mu.Lock()
	l.drop = drop
	l.mu.Unlock()
	var beats sync.WaitGroup
	beats.Go(func() { l.beat(held) })
	return held, func(r runner.Result) error {
		drop(nil)
		beats.Wait()
		parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), farewell)
		defer cancel()
		err := l.end(parting, r)
		l.t.let(l.state.Task)
		return errors.Join(err, l.lock.Unlock())
	}
}

// beat has others hear of this machine until ctx ends.
func (l *lease) beat(ctx context.Context) {
	tick := time.NewTicker(l.t.Silence / beatsInSilence)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.mu.Lock()
			err := l.push(ctx, taskref.SaveAs{Claim: l.claim, Why: "at work", Work: true}) // tried again with the next beat; lost is noted
			l.mu.Unlock()
			if err == nil {
				l.attend(ctx)
			}
		}
	}
}

// Save gives the task to the others as it is, and again while that fails and it is this machine's.
func (l *lease) Save(ctx context.Context, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keepTrying(ctx, taskref.SaveAs{Claim: l.claim, Why: why, Work: true})
}

func (l *lease) keepTrying(ctx context.Context, as taskref.SaveAs) error {
	for pause := firstPause; ; pause *= 2 {
		err := l.push(ctx, as)
		if err == nil || l.lost != nil || ctx.Err() != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return sleeps(err)
		case <-time.After(min(pause, l.t.Silence/beatsInSilence)):
		}
	}
}

// push gives the task to the others once. The error matches [flow.ErrSuspended].
func (l *lease) push(ctx context.Context, as taskref.SaveAs) error {
	if l.lost != nil {
		return l.lost
	}
	as.Done = slices.Clone(l.done)
	s, err := l.t.Remote.Save(ctx, l.dir, l.state.Commit, as)
	now := l.t.Now()
	switch {
	case err == nil:
		l.state, l.heard, l.done = s, now, nil
		return l.t.sightings.take([]taskref.State{s})
	case errors.Is(err, taskref.ErrLost):
		return l.lose(ctx, l.successor(ctx))
	case now.Sub(l.heard) > l.t.Silence:
		return l.lose(ctx, fmt.Errorf("others were told nothing of %s for %v, and may have taken it: %w", l.state.Task, l.t.Silence, err))
	}
	return sleeps(err)
}

// lose notes that the task is no longer this machine's, and ends what works on it.
func (l *lease) lose(_ context.Context, why error) error {
	l.lost = fmt.Errorf("%w: %w", flow.ErrSuspended, why)
	if l.drop != nil {
		l.drop(why)
	}
	return l.lost
}

// successor says which machine has the task now.
func (l *lease) successor(ctx context.Context) error {
	gone := &runner.ElsewhereError{Task: l.state.Task, Host: "another machine"}
	s, err := l.t.find(context.WithoutCancel(ctx), l.state.Task)
	if err == nil && s.Claim.Machine != "" {
		gone.Host, gone.Since = s.Claim.Host, s.Claim.Since
	}
	return gone
}

// end gives the task back, as it stands now.
func (l *lease) end(ctx context.Context, r runner.Result) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if elsewhere := (*runner.ElsewhereError)(nil); errors.As(l.lost, &elsewhere) {
		return elsewhere
	}
	err := l.push(ctx, taskref.SaveAs{Status: r.Status, Until: r.Until, Why: "now " + string(r.Status), Work: true})
	if elsewhere := (*runner.ElsewhereError)(nil); errors.As(err, &elsewhere) {
		return elsewhere
	}
	if err != nil {
		return fmt.Errorf("other machines were not told where %s stands: %w", l.state.Task, err)
	}
	return nil
}

// attend carries out what people asked for at other machines. What can't be found out now is with the next beat.
func (l *lease) attend(ctx context.Context) {
	if _, orders, err := l.t.fetch(ctx); err == nil {
		_ = l.obey(ctx, orders) // it is tried again, and once the task is lost nobody is asked any more
	}
}

// obey carries out those orders that are for this task, each once, and says so to the others.
func (l *lease) obey(ctx context.Context, orders []taskref.Order) error {
	var did []string
	for _, o := range orders {
		if o.Task != l.state.Task || !l.first(o) {
			continue
		}
		l.t.apply(ctx, l.dir, o)
		did = append(did, o.What)
	}
	if len(did) == 0 {
		return nil
	}
	return l.Save(ctx, "did what people asked for: "+strings.Join(did, ", "))
}

// first notes that an order is carried out now, unless it was.
func (l *lease) first(o taskref.Order) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked[o.ID] {
		return false
	}
	if l.asked == nil {
		l.asked = map[string]bool{}
	}
	l.asked[o.ID], l.done = true, append(l.done, o)
	return true
}
