package share

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// lease is a task that this machine has, for as long as others hear of this machine.
type lease struct {
	t     *Team
	dir   string
	claim taskref.Claim
	turn  time.Time // when the server of a cluster last gave the task to a machine
	lock  *durable.Lock

	mu           sync.Mutex
	state        taskref.State   // last state on the remote
	lastPush     time.Time       // when the remote last took a push
	lastFullPush time.Time       // when all of the task was last published
	done         []taskref.Order // orders that were carried out, and are still on the remote
	carriedOut   map[string]bool // ids of all orders that were carried out
	lost         error           // why the task is no longer this machine's
	cancel       context.CancelCauseFunc
}

const (
	beatsInSilence = 4                      // heartbeats of a machine in the time after which others take its tasks
	fullPushEvery  = 5 * time.Minute        // how often all of the task is published while a step takes long
	firstPause     = time.Second            // before something that did not arrive is published again
	localPause     = 200 * time.Millisecond // before something that could not be saved is saved again; git's locks are released by then
	endTimeout     = 20 * time.Second       // how long the end of a run waits for a remote that does not answer
)

func (l *lease) task() string { return filepath.Base(l.dir) }

// Brought reports whether the task was another machine's before and its worktree has not been made fit here since, also after
// a process was killed before it did that.
func (l *lease) Brought() bool {
	_, err := os.Stat(l.t.broughtMark(l.dir))
	return err == nil
}

// MarkFit records that the worktree was made fit.
func (l *lease) MarkFit() error {
	if err := os.Remove(l.t.broughtMark(l.dir)); err != nil {
		return fmt.Errorf("noting that the worktree of %s is fit: %w", l.task(), err)
	}
	return nil
}

// Hold keeps the task while it is worked on. The function that it returns gives the task back.
func (l *lease) Hold(ctx context.Context) (context.Context, func(runner.Result) error) {
	held, drop := context.WithCancelCause(ctx)
	l.mu.Lock()
	l.cancel = drop
	l.mu.Unlock()
	var beats sync.WaitGroup
	beats.Go(func() { l.sendBeats(held) })
	return held, func(r runner.Result) error {
		drop(nil)
		beats.Wait()
		parting, cancel := patience.New(endTimeout).Context(context.WithoutCancel(ctx))
		defer cancel()
		err := l.end(parting, r)
		l.t.forgetLease(l.task())
		return errors.Join(err, l.lock.Unlock())
	}
}

// sendBeats sends heartbeats to the others until ctx ends.
func (l *lease) sendBeats(ctx context.Context) {
	tick := time.NewTicker(l.t.Silence / beatsInSilence)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if l.publishBeat(ctx) == nil { // on an error, the next beat tries again; lost is set if the task is gone
				l.carryOutOrders(ctx)
			}
		}
	}
}

// publishBeat publishes a heartbeat or, if the task was not published for long, the task in its current state.
func (l *lease) publishBeat(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t.Now().Sub(l.lastFullPush) > fullPushEvery {
		if err := l.push(ctx, taskref.SaveAs{Claim: l.claim, Turn: l.turn, Why: "at work", Work: true}); err == nil || l.lost != nil {
			return err
		}
	}
	return l.beatOnce(ctx)
}

func (l *lease) beatOnce(ctx context.Context) error {
	return l.handlePush(ctx, func() (taskref.State, error) { return l.t.Remote.RenewClaim(ctx, l.state, l.claim) })
}

// Save publishes the current state of the task, again while that fails and the task is this machine's. What can't be
// published whatever the remote says, a repository within the worktree for instance, is a failure worktree_failed.
func (l *lease) Save(ctx context.Context, why string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keepTrying(ctx, taskref.SaveAs{Claim: l.claim, Turn: l.turn, Why: why, Work: true})
}

func (l *lease) keepTrying(ctx context.Context, as taskref.SaveAs) error {
	unsaved := 0 // failures in a row that were not those of the remote
	for pause := firstPause; ; pause *= 2 {
		rest := min(pause, l.t.Silence/beatsInSilence)
		err := l.push(ctx, as)
		if err == nil || l.lost != nil || ctx.Err() != nil {
			return err
		}
		if local := (*taskref.LocalError)(nil); !errors.As(err, &local) {
			unsaved = 0
		} else if unsaved, rest = unsaved+1, localPause; unsaved == tries {
			return flow.Fail(string(trellis.WorktreeFailed), "the state of %s can't be shared with other machines: %v; fix that, then `trellis retry %[1]s`", l.task(), local)
		} else if serr := l.beatOnce(ctx); serr != nil {
			return serr
		}
		if patience.Sleep(ctx, rest) != nil {
			return asSuspended(err)
		}
	}
}

// push publishes the task once. Its error matches [flow.ErrSuspended].
func (l *lease) push(ctx context.Context, as taskref.SaveAs) error {
	as.Done = slices.Clone(l.done)
	err := l.handlePush(ctx, func() (taskref.State, error) { return l.t.Remote.Save(ctx, l.dir, l.state.Commit, as) })
	if err == nil {
		l.done, l.lastFullPush = nil, l.t.Now()
	}
	return err
}

// handlePush calls push, and processes the result.
func (l *lease) handlePush(ctx context.Context, push func() (taskref.State, error)) error {
	if l.lost != nil {
		return l.lost
	}
	s, err := push()
	if errors.Is(err, taskref.ErrLost) && l.adoptOwnState(ctx) { // an earlier push had arrived, but the answer was lost
		s, err = push()
	}
	now := l.t.Now()
	switch {
	case err == nil:
		l.state, l.lastPush = s, now
		_ = l.t.sightings.record([]taskref.State{s}) // the remote has the state; the next push records it
		return nil
	case errors.Is(err, taskref.ErrLost):
		return l.lose(l.successor(ctx))
	case errors.As(err, new(*taskref.LocalError)), ctx.Err() != nil:
		return asSuspended(err)
	case now.Sub(l.lastPush) > l.t.Silence:
		return l.lose(fmt.Errorf("the claim of %s was not renewed for %v, and others may have taken it: %w", l.task(), l.t.Silence, err))
	}
	return asSuspended(err)
}

// adoptOwnState reports whether the state on the remote is this lease's nevertheless, and if so continues from that state.
func (l *lease) adoptOwnState(ctx context.Context) bool {
	s, err := l.t.find(context.WithoutCancel(ctx), l.task())
	if err != nil || s.Claim.Machine != l.claim.Machine || !s.Claim.Since.Equal(l.claim.Since) {
		return false
	}
	l.state = s
	return true
}

// lose records that the task is no longer this machine's, and ends what works on it.
func (l *lease) lose(why error) error {
	l.lost = fmt.Errorf("%w: %w", flow.ErrSuspended, why)
	if l.cancel != nil {
		l.cancel(why)
	}
	return l.lost
}

// successor returns which machine has the task now.
func (l *lease) successor(ctx context.Context) error {
	gone := &runner.OtherMachineError{Task: l.task(), Host: "another machine"}
	s, err := l.t.find(context.WithoutCancel(ctx), l.task())
	if err == nil && s.Claim.Machine != "" {
		gone.Host, gone.Since = s.Claim.Host, s.Claim.Since
	}
	return gone
}

// end gives the task back in its current state.
func (l *lease) end(ctx context.Context, r runner.Result) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if elsewhere, ok := errors.AsType[*runner.OtherMachineError](l.lost); ok {
		return elsewhere
	}
	err := l.push(ctx, taskref.SaveAs{Status: r.Status, Until: r.Until, Turn: l.turn, Why: "now " + string(r.Status), Work: true})
	if elsewhere, ok := errors.AsType[*runner.OtherMachineError](err); ok {
		return elsewhere
	}
	if err != nil && l.lost == nil { // leave out the work, which can't be published
		err = l.push(ctx, taskref.SaveAs{Status: r.Status, Until: r.Until, Turn: l.turn, Why: "now " + string(r.Status)})
	}
	if l.lost == nil {
		l.lost = errEnded
	}
	if err != nil {
		return fmt.Errorf("the state of %s was not shared with other machines: %w", l.task(), err)
	}
	return nil
}

// errEnded is the error after the task was given back.
var errEnded = fmt.Errorf("%w: the task was given back", flow.ErrSuspended)

// carryOutOrders carries out what people asked for at other machines. What can't be fetched now is fetched with the next beat.
func (l *lease) carryOutOrders(ctx context.Context) {
	if _, orders, err := l.t.fetch(ctx); err == nil {
		_ = l.obey(ctx, orders) // tried again with the next beat, unless the task is lost
	}
}

// obey carries out the orders for this task, each once, and publishes that.
func (l *lease) obey(ctx context.Context, orders []taskref.Order) error {
	var did []string
	for _, o := range orders {
		if o.Task == l.task() && l.carryOut(o) {
			did = append(did, o.What)
		}
	}
	if len(did) == 0 {
		return nil
	}
	return l.Save(ctx, "did what people asked for: "+strings.Join(did, ", "))
}

// carryOut carries out an order, unless that was done before. Nothing is published meanwhile: the state that removes the
// order from the remote has what came of it.
func (l *lease) carryOut(o taskref.Order) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil || l.carriedOut[o.ID] {
		return false
	}
	if l.carriedOut == nil {
		l.carriedOut = map[string]bool{}
	}
	l.carriedOut[o.ID] = true
	l.t.apply(l.dir, o)
	l.done = append(l.done, o)
	return true
}
