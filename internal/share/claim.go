package share

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// claim is a task that is about to become this machine's.
type claim struct {
	t   *Team
	dir string
	fit runner.FitCheck
}

// do takes the task, again if other machines were quicker. When it returns, the lease is registered.
func (g claim) do(ctx context.Context) (l *lease, err error) {
	t := g.t
	t.takeLock.Lock()
	defer t.takeLock.Unlock()
	for range tries {
		if l, err = g.tryOnce(ctx); !errors.Is(err, taskref.ErrLost) && !errors.Is(err, taskref.ErrGate) {
			break
		}
	}
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.leases[l.task()] = l
	}
	return l, err
}

// tryOnce is do without a second try.
func (g claim) tryOnce(ctx context.Context) (*lease, error) {
	t, dir := g.t, g.dir
	gate, err := taskref.GateOf(ctx, t.Remote) // before the states are fetched, which then have all claims so far
	if err != nil {
		return nil, err
	}
	states, _, err := t.fetch(ctx)
	if err != nil {
		return nil, err
	}
	s := stateOf(states, filepath.Base(dir))
	if by := t.holder(s); by != nil {
		return nil, by
	}
	if by := t.laterHolder(s); by != nil {
		return nil, by
	}
	if err := errors.Join(g.checkTwin(ctx, s), g.checkNotWithdrawn(ctx, s)); err != nil {
		return nil, err
	}
	brought := s.Work != "" && s.Worker != t.Machine
	if err := t.importState(ctx, dir, s); err != nil {
		return nil, err
	}
	competes, err := g.fit(g.running(states))
	if err != nil {
		return nil, &unfitError{err}
	}
	if brought {
		if err := t.importWork(ctx, dir, s); err != nil {
			return nil, err
		}
	}
	l := &lease{t: t, dir: dir, claim: taskref.Claim{Machine: t.Machine, Host: t.Host, Since: t.Now()}, turn: t.turnAfter(s)}
	if l.state, err = t.Remote.Save(ctx, dir, s.Commit, taskref.SaveAs{Claim: l.claim, Turn: l.turn, Why: "taken", Work: true, Gated: competes, Gate: gate}); err != nil {
		return nil, err
	}
	l.lastPush, l.lastFullPush = t.Now(), t.Now()
	return l, t.sightings.record([]taskref.State{l.state})
}

// running returns the directories of other tasks that a machine works on, according to states.
func (g claim) running(states []taskref.State) (dirs []string) {
	t := g.t
	for _, s := range states {
		dir := filepath.Join(t.Remote.Store.Tasks(), s.Task)
		if dir == g.dir || s.Claim.Machine == "" {
			continue
		}
		_, held := runner.Held(dir)
		if held || t.leaseOf(s.Task) != nil || t.holder(s) != nil {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// checkNotWithdrawn returns an error if others knew a task that the remote no longer has: taking it would publish it to them again.
func (g claim) checkNotWithdrawn(ctx context.Context, s taskref.State) error {
	if s.Commit != "" {
		return nil
	}
	task := filepath.Base(g.dir)
	known, err := g.t.Remote.Known(ctx, task)
	if err != nil || known == "" {
		return err
	}
	return &unfitError{&runner.RefusedError{Why: task + " was taken off " + g.t.Remote.Name + ", and no machine runs it", Hint: "trellis submit " + trellis.ShellWord(task)}}
}

// checkTwin returns a *runner.OtherMachineError if a copy of this clone has the task: it uses the same ID, and published a state unknown here.
func (g claim) checkTwin(ctx context.Context, s taskref.State) error {
	t := g.t
	one, heard := t.sightings.find(s.Task)
	if s.Claim.Machine != t.Machine || heard && one.lapsed(t.Silence) {
		return nil
	}
	known, err := t.Remote.Known(ctx, s.Task)
	if err != nil || known == s.Commit {
		return err
	}
	return &runner.OtherMachineError{Task: s.Task, Host: s.Claim.Host + ", with a copy of this clone,", Since: s.Claim.Since}
}
