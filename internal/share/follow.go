package share

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/taskref"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Bounds of how often the remote is asked.
const (
	minInterval = 500 * time.Millisecond
	maxInterval = 15 * time.Second
)

// Sync keeps this checkout and the team up to date with each other until ctx ends: what other machines do appears in the
// task directories here, what is ready here is offered to them, and orders for what this machine has are carried out. look is
// called with directories that may have become free to run.
func (t *Team) Sync(ctx context.Context, look func(dir string)) {
	t.follower(look, false).run(ctx)
}

// Mirror is Sync in one direction: nothing that is done here is published.
func (t *Team) Mirror(ctx context.Context, look func(dir string)) {
	t.follower(look, true).run(ctx)
}

// Pull brings what other machines did, once, also for tasks whose directories were removed here, since the caller asks for
// it. It returns the directories that changed. A *SyncError says which tasks could not be brought; the others were.
func (t *Team) Pull(ctx context.Context) (changed []string, err error) {
	f := t.follower(func(dir string) { changed = append(changed, dir) }, true)
	f.bringRemoved = true
	err = f.round(ctx)
	return changed, err
}

func (t *Team) follower(look func(dir string), only bool) *follower {
	return &follower{Team: t, look: look, pullOnly: only, publishedChange: map[string]time.Time{}, reportedLapse: map[string]string{}, partial: map[string]string{}, reported: map[string]string{}}
}

func (f *follower) run(ctx context.Context) {
	every := min(max(f.Silence/(2*beatsInSilence), minInterval), maxInterval)
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		if err := f.round(ctx); ctx.Err() == nil {
			f.reportErrors(err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// reportErrors reports what went wrong in a round, once as long as it is the same.
func (f *follower) reportErrors(err error) {
	unbrought := (*SyncError)(nil)
	if answers := err == nil || errors.As(err, &unbrought); answers && f.failing {
		f.failing = false
		f.tell("", f.Remote.Name+" answers again")
	} else if !answers {
		if !f.failing {
			f.failing = true
			f.tell("", fmt.Sprintf("%v; nothing new is begun until it answers", err))
		}
		return
	}
	now := map[string]string{}
	if unbrought != nil {
		for task, why := range unbrought.Of {
			now[task] = why.Error()
		}
	}
	for _, task := range slices.Sorted(maps.Keys(now)) {
		if f.reported[task] != now[task] {
			f.tell(task, unbroughtText(task, unbrought.Of[task])+"; it is tried again")
		}
	}
	f.reported = now
}

// SyncError has the tasks that could not be updated to what other machines made of them, or not be published. All others were.
type SyncError struct{ Of map[string]error } // by task

func (e *SyncError) Error() string {
	var lines []string
	for _, task := range slices.Sorted(maps.Keys(e.Of)) {
		lines = append(lines, unbroughtText(task, e.Of[task]))
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the errors of all tasks.
func (e *SyncError) Unwrap() []error { return slices.Collect(maps.Values(e.Of)) }

func unbroughtText(task string, why error) string {
	return fmt.Sprintf("%s is not the same here and on other machines: %v", task, why)
}

// follower is what Sync, Mirror and Pull keep from one round to the next.
type follower struct {
	*Team
	look            func(dir string)
	pullOnly        bool                 // brings, and publishes nothing
	bringRemoved    bool                 // also brings tasks that a person removed here
	failing         bool                 // the remote does not answer
	publishedChange map[string]time.Time // by directory: its last change, as far as others have that
	reportedLapse   map[string]string    // by task: commit of the claim that was reported as lapsed
	partial         map[string]string    // by task: commit of a state that could be brought only in part
	reported        map[string]string    // by task: the error that was reported
}

// round brings and publishes once. An error with one task stops no other: round then returns a *SyncError.
func (f *follower) round(ctx context.Context) error {
	before, err := f.Remote.KnownAll(ctx)
	if err != nil {
		return err
	}
	states, orders, err := f.fetch(ctx)
	if err != nil {
		return err
	}
	changed := slices.DeleteFunc(slices.Clone(states), func(s taskref.State) bool { return s.Commit == before[s.Task] })
	_ = f.Remote.FetchWork(ctx, changed) // on an error, each task fetches its own
	failed := failures{}
	known := map[string]bool{}
	for _, s := range states {
		known[s.Task] = true
		err := f.syncTask(ctx, s, before[s.Task])
		if errors.As(err, new(*unansweredError)) {
			return err
		}
		failed.add(s.Task, err)
	}
	if !f.pullOnly {
		err = f.offer(ctx, known, failed)
		f.obey(ctx, states, orders, failed)
	}
	if err == nil && len(failed) > 0 {
		err = &SyncError{failed}
	}
	return err
}

// failures are errors by task.
type failures map[string]error

func (f failures) add(task string, err error) {
	if err != nil {
		f[task] = errors.Join(f[task], err)
	}
}

// syncTask brings a task to what others made of it, or publishes what people here did. before is the commit that this clone
// knew of it when the remote was asked.
func (f *follower) syncTask(ctx context.Context, s taskref.State, before string) error {
	dir := filepath.Join(f.Remote.Store.Tasks(), s.Task)
	if away, err := f.Remote.Store.Archived(s.Task); away != "" || err != nil || f.leaseOf(s.Task) != nil {
		return err
	}
	if _, held := runner.Held(dir); held {
		return nil
	}
	lock, err := f.lock(dir)
	if err != nil {
		return unlessHeld(err) // another process of this clone takes or changes the task
	}
	err = f.syncLocked(ctx, dir, s, before)
	return errors.Join(err, lock.Unlock())
}

func (f *follower) syncLocked(ctx context.Context, dir string, s taskref.State, before string) error {
	known, err := f.Remote.Known(ctx, s.Task)
	if err != nil {
		return err
	}
	if _, gone := os.Stat(dir); errors.Is(gone, fs.ErrNotExist) && known != "" && (known == s.Commit || !f.bringRemoved) {
		return nil // a person removed it here: nothing else removes a directory that was here before
	}
	if known != s.Commit || f.partial[s.Task] == s.Commit {
		if known == before {
			err = f.importAll(ctx, dir, s)
		}
		if known != before || err != nil { // changed here after the remote was asked, or the remote has a newer state
			was, failed := s.Commit, err
			if s, err = f.find(ctx, s.Task); err != nil || s.Commit == "" {
				return err
			}
			if s.Commit == was && failed != nil {
				return failed
			}
			if s.Commit == known {
				return nil
			}
			err = f.importAll(ctx, dir, s)
		}
		if err == nil {
			f.publishedChange[dir] = changedAt(dir)
			f.look(dir)
		}
		return err
	}
	if one, ok := f.sightings.find(s.Task); ok && one.Machine != "" && one.Machine != f.Machine && one.lapsed(f.Silence) && f.reportedLapse[s.Task] != s.Commit {
		f.reportedLapse[s.Task] = s.Commit
		f.tell(s.Task, fmt.Sprintf("%s did not renew its claim for %v: %s is free again", one.Host, f.Silence, s.Task))
		f.look(dir)
	}
	if f.pullOnly || f.Elsewhere(dir) != nil {
		return nil
	}
	return f.publishChanged(ctx, dir, s)
}

// importAll brings a task, and the result of its work.
func (f *follower) importAll(ctx context.Context, dir string, s taskref.State) error {
	if err := f.importState(ctx, dir, s); err != nil {
		return err
	}
	f.partial[s.Task] = s.Commit
	if err := f.importResult(ctx, dir, s); err != nil {
		return err
	}
	delete(f.partial, s.Task)
	return nil
}

// importResult brings the branch of a task. A worktree that this machine made for the task earlier is updated once no machine
// works on the task, unless the work is from this machine: then the worktree, if it differs, is newer.
func (f *follower) importResult(ctx context.Context, dir string, s taskref.State) error {
	task, err := f.Remote.Store.Load(dir)
	if err != nil {
		return err
	}
	if _, gone := os.Stat(task.WorktreePath); task.WorktreePath == "" || gone != nil {
		return f.Remote.ImportBranch(ctx, s)
	}
	if s.Claim.Machine != "" || s.Worker == f.Machine {
		return nil
	}
	return f.importWork(ctx, dir, s)
}

// settleTime is how long a directory must be left unchanged before what people did there is published.
const settleTime = 2 * time.Second

// publishChanged publishes what was done to a task here since it was last published.
func (f *follower) publishChanged(ctx context.Context, dir string, s taskref.State) error {
	at := changedAt(dir)
	if f.publishedChange[dir].Equal(at) && s.Claim.Machine == "" || f.Now().Sub(at) < settleTime {
		return nil
	}
	differs, err := f.differs(ctx, dir, s)
	if err != nil {
		return err
	}
	if differs || s.Claim.Machine == f.Machine && f.isResting(dir) {
		if _, err := f.publish(ctx, dir, s, "changed"); err != nil && !errors.Is(err, taskref.ErrLost) {
			return err
		}
	}
	f.publishedChange[dir] = at
	return nil
}

// isResting reports whether nothing is going to run for a task that others think this machine has: the end of its run did not reach them.
func (f *follower) isResting(dir string) bool {
	task, err := f.Remote.Store.Load(dir)
	return err == nil && task.Status != trellis.InProgress
}

// changedAt returns when something directly in a directory, or the journal of the task, was last changed.
func changedAt(dir string) (last time.Time) {
	for _, name := range []string{"", taskdir.Journal} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	entries, _ := os.ReadDir(dir) // a directory that can't be listed counts as unchanged
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.Type().IsRegular() && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last
}

// offer publishes the tasks that are ready here and unknown to the others.
func (f *follower) offer(ctx context.Context, known map[string]bool, failed failures) error {
	entries, err := f.Remote.Store.List()
	if err != nil {
		return err
	}
	for _, e := range entries {
		task := filepath.Base(e.Dir)
		if e.Task == nil || known[task] || f.leaseOf(task) != nil || !slices.Contains([]trellis.Status{trellis.Ready, trellis.Waiting}, e.Task.Status) || f.Now().Sub(changedAt(e.Dir)) < settleTime {
			continue
		}
		failed.add(task, f.offerOne(ctx, e.Dir))
	}
	return nil
}

// unlessHeld returns err, or nil if it says that another process holds a lock.
func unlessHeld(err error) error {
	if errors.Is(err, durable.ErrHeld) {
		return nil
	}
	return err
}

// offerOne publishes a task that was never published from here: a task that was withdrawn from the remote stays withdrawn.
func (f *follower) offerOne(ctx context.Context, dir string) error {
	lock, err := f.lock(dir)
	if err != nil {
		return unlessHeld(err) // another process takes or changes it
	}
	known, err := f.Remote.Known(ctx, filepath.Base(dir))
	if _, held := runner.Held(dir); err == nil && !held && known == "" {
		if _, err = f.publish(ctx, dir, taskref.State{}, "offered"); errors.Is(err, taskref.ErrLost) {
			err = nil // another machine was quicker
		}
	}
	return errors.Join(err, lock.Unlock())
}

// obey carries out what people asked of tasks that this machine has, or that no machine has.
func (f *follower) obey(ctx context.Context, states []taskref.State, orders []taskref.Order, failed failures) {
	for _, o := range orders {
		dir := filepath.Join(f.Remote.Store.Tasks(), o.Task)
		if _, err := os.Stat(dir); err != nil || stateOf(states, o.Task).Commit == "" || f.Elsewhere(dir) != nil {
			continue // also if a person removed or archived it here: others have it
		}
		if l := f.leaseOf(o.Task); l != nil {
			_ = l.obey(ctx, orders) // its next beat tries again, unless the task is lost
			continue
		}
		failed.add(o.Task, f.obeyFree(ctx, dir, o))
	}
}

// obeyFree carries out an order for a task on which no machine works. Another machine may do so at the same moment: the later
// one takes what the other made of the task.
func (f *follower) obeyFree(ctx context.Context, dir string, o taskref.Order) error {
	lock, err := f.lock(dir)
	if err != nil {
		return unlessHeld(err) // the next round tries again
	}
	if _, held := runner.Held(dir); !held {
		err = f.obeyNow(ctx, dir, o)
	}
	return errors.Join(err, lock.Unlock())
}

func (f *follower) obeyNow(ctx context.Context, dir string, o taskref.Order) error {
	states, orders, err := f.fetch(ctx)
	if err != nil {
		return err
	}
	s, stands := stateOf(states, o.Task), slices.ContainsFunc(orders, func(other taskref.Order) bool { return other.Task == o.Task && other.ID == o.ID })
	if !stands || s.Commit == "" || f.holder(s) != nil { // what was fetched before the lock may be old: another machine may have obeyed and be at work
		return nil
	}
	if err := f.importState(ctx, dir, s); err != nil {
		return err
	}
	f.apply(dir, o)
	if _, err = f.publish(ctx, dir, s, "did what "+o.By+" asked for", o); errors.Is(err, taskref.ErrLost) {
		err = nil
	}
	f.look(dir)
	return err
}

// apply carries out an order. If it can't be carried out, that is reported here, and the order is done with.
func (t *Team) apply(dir string, o taskref.Order) {
	if err := t.Apply(dir, o); err != nil {
		t.tell(o.Task, fmt.Sprintf("%s of %s by %s was not carried out: %v", o.What, o.Task, o.By, err))
		return
	}
	t.tell(o.Task, fmt.Sprintf("%s of %s by %s", o.What, o.Task, o.By))
}
