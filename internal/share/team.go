// Package share lets several machines share the tasks of a repository with nothing but a git remote. Each task belongs to one
// machine at a time: a ref of the remote says to which, and moves only by compare and swap. A machine that does not move it
// for a while has lost the task.
package share

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Options are what a Team is made of.
type Options struct {
	Remote  taskref.Remote
	Set     bool             // the remote is named by the settings, and not by a person who started a watcher here: it is not remembered
	Machine string           // ID of this clone
	Host    string           // name of this machine, for people
	Silence time.Duration    // how long nothing is heard of a machine before its tasks are taken from it
	Now     func() time.Time // current time, in the time zone in which days begin
	// Adopt is called after the content of a task directory came from a machine of the team.
	Adopt func(dir string) error
	// Apply carries out in a task directory what a person asked for elsewhere.
	Apply func(dir string, o taskref.Order) error
	// Used returns what the agents of this clone used today, to be published to the others; nil: it is not published.
	Used func() (trellis.Usage, error)
	// Tell is called with what happens to a task; nil: not called.
	Tell func(task, message string)
}

// Team is the machines that share the tasks of a repository, as one of them sees it. Its methods may be called concurrently.
type Team struct {
	Options
	sightings *sightings
	takeLock  sync.Mutex // held to take a task: each taking has to know of those before

	mu     sync.Mutex
	leases map[string]*lease // leases of this process, by task
	grants map[string]grant  // grants to this machine, by task, whoever had the task before
}

// New returns the team that shares the tasks on the remote.
func New(o Options) *Team {
	store := o.Remote.Store
	t := &Team{Options: o, leases: map[string]*lease{}, grants: map[string]grant{},
		sightings: &sightings{path: SightingsFile(store.Root), remote: o.Remote.Name, fromSettings: o.Set, silence: o.Silence, disk: store.Disk, now: o.Now}}
	t.Remote.Spending = t.spending
	return t
}

// Elsewhere returns which other machine has a task, by what was heard last; nil if none has.
func (t *Team) Elsewhere(dir string) *runner.OtherMachineError {
	s, ok := t.sightings.find(filepath.Base(dir))
	if !ok {
		return nil
	}
	return t.elsewhere(s)
}

func (t *Team) elsewhere(s sighting) *runner.OtherMachineError {
	if !s.isElsewhere(t.Machine, t.Silence) || t.granted(s.Task) {
		return nil
	}
	return s.elsewhereError()
}

// holder returns which other machine has a task by a state that was just fetched; nil if none has. It ignores sightings of
// other states, which another process may have recorded meanwhile.
func (t *Team) holder(s taskref.State) *runner.OtherMachineError {
	if s.Claim.Machine == "" || s.Claim.Machine == t.Machine || t.granted(s.Task) {
		return nil
	}
	if one, ok := t.sightings.find(s.Task); ok && one.Commit == s.Commit && one.lapsed(t.Silence) {
		return nil
	}
	return &runner.OtherMachineError{Task: s.Task, Host: s.Claim.Host, Since: s.Claim.Since}
}

// Last reports whether this machine was the last to have a task, or none had it.
func (t *Team) Last(dir string) bool {
	s, ok := t.sightings.find(filepath.Base(dir))
	return !ok || s.Worker == "" || s.Worker == t.Machine
}

// unansweredError is returned if the remote could not be asked.
type unansweredError struct {
	remote string
	err    error
}

func (e *unansweredError) Error() string {
	return fmt.Sprintf("asking %s for the tasks of the team: %v", e.remote, e.err)
}

func (e *unansweredError) Unwrap() error { return e.err }

// fetch asks the remote for the states of the tasks, and for orders.
func (t *Team) fetch(ctx context.Context) ([]taskref.State, []taskref.Order, error) {
	states, orders, err := t.Remote.Fetch(ctx)
	if err != nil {
		return nil, nil, &unansweredError{t.Remote.Name, err}
	}
	return states, orders, t.sightings.recordAll(states)
}

// find returns the state of a task on the remote, the zero State if the remote does not have the task.
func (t *Team) find(ctx context.Context, task string) (taskref.State, error) {
	states, _, err := t.fetch(ctx)
	return stateOf(states, task), err
}

// stateOf returns the state of a task, the zero State if it is not among states.
func stateOf(states []taskref.State, task string) (s taskref.State) {
	if i := slices.IndexFunc(states, func(s taskref.State) bool { return s.Task == task }); i >= 0 {
		s = states[i]
	}
	return s
}

// tries is how often something is tried that another machine did first.
const tries = 5

// Take makes a task this machine's, with what other machines did to it.
func (t *Team) Take(ctx context.Context, dir string, fit runner.FitCheck) (runner.Lease, error) {
	if by, held := runner.Held(dir); held {
		return nil, &durable.HeldError{Path: filepath.Join(dir, taskdir.RunLock), Holder: by}
	}
	lock, err := t.lockSoon(ctx, dir)
	if err != nil {
		return nil, err
	}
	if by, held := runner.Held(dir); held {
		return nil, errors.Join(&durable.HeldError{Path: filepath.Join(dir, taskdir.RunLock), Holder: by}, lock.Unlock())
	}
	l, err := claim{t, dir, fit}.do(ctx)
	if err != nil {
		return nil, errors.Join(asSuspended(err), lock.Unlock())
	}
	l.lock = lock
	return l, nil
}

// unfitError says why this machine does not take a task in its current state.
type unfitError struct{ why error }

func (e *unfitError) Error() string { return e.why.Error() }

// asSuspended makes an error that may pass suspend the run. It returns a *runner.OtherMachineError as it is, and the reason of an *unfitError.
func asSuspended(err error) error {
	if unfit, ok := errors.AsType[*unfitError](err); ok {
		return unfit.why
	}
	if errors.As(err, new(*runner.OtherMachineError)) || errors.Is(err, flow.ErrSuspended) {
		return err
	}
	return fmt.Errorf("%w: %w", flow.ErrSuspended, err)
}

// lockSoon is lock with a wait of up to 20 s, as a person waits: other processes of this clone need a task for moments only.
func (t *Team) lockSoon(ctx context.Context, dir string) (*durable.Lock, error) {
	soon, cancel := patience.New(20 * time.Second).Context(ctx)
	defer cancel()
	for {
		lock, err := t.lock(dir)
		if !errors.Is(err, durable.ErrHeld) {
			return lock, err
		}
		if patience.Sleep(soon, 20*time.Millisecond) != nil { // there is no event for another process's lock
			return nil, cmp.Or(context.Cause(ctx), err)
		}
	}
}

// lock keeps other processes of this clone from taking or changing the task meanwhile.
func (t *Team) lock(dir string) (*durable.Lock, error) {
	path := filepath.Join(t.folder(), filepath.Base(dir)+".lock")
	if err := t.Remote.Disk.MkdirAll(t.folder(), 0o755); err != nil {
		return nil, err
	}
	return durable.TryLock(path, runlock.Holder("", t.Now()))
}

func (t *Team) folder() string {
	return filepath.Join(t.Remote.Store.Root, ".trellis", ".runtime", "shared")
}

// importState makes the directory of a task that of the state, unless it was made from that state, or the state was made from it.
func (t *Team) importState(ctx context.Context, dir string, s taskref.State) error {
	known, err := t.Remote.Known(ctx, filepath.Base(dir))
	if err != nil || s.Commit == "" || s.Commit == known {
		return err
	}
	kept, err := t.Remote.Import(ctx, s)
	if err != nil {
		return fmt.Errorf("bringing %s as %s left it: %w", s.Task, s.From, err)
	}
	if kept != "" {
		t.tell(s.Task, fmt.Sprintf("what this machine had of %s is kept as %s: %s continued it meanwhile\nnext: git show %[2]s", s.Task, kept, s.From))
	}
	return t.Adopt(dir)
}

// importWork makes the worktree of a task that of the state, if the task has a worktree.
func (t *Team) importWork(ctx context.Context, dir string, s taskref.State) error {
	task, err := t.Remote.Store.Load(dir)
	if err != nil || s.Head == "" || task.WorktreePath == "" {
		return err
	}
	if err := t.Remote.Disk.WriteFile(t.broughtMark(dir), nil, 0o644); err != nil {
		return err
	}
	return t.Remote.ImportWork(ctx, s, task.WorktreePath)
}

// broughtMark returns the path of the file that marks the worktree of a task as brought, until it is made fit to work in.
func (t *Team) broughtMark(dir string) string {
	return filepath.Join(t.folder(), filepath.Base(dir)+".brought")
}

func (t *Team) tell(task, message string) {
	if t.Tell != nil {
		t.Tell(task, message)
	}
}

// forgetLease forgets a lease.
func (t *Team) forgetLease(task string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.leases, task)
}

func (t *Team) leaseOf(task string) *lease {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.leases[task]
}
