// Package scheduler watches a repository: it assesses its tasks as they change, decides what runs next and beside what, and
// has it run.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// WatchOptions are the options of Watch.
type WatchOptions struct {
	Once     bool          // end when nothing is left to run
	Parallel int           // how many tasks run at once; 0: limits.parallel, also when that changes
	Rescan   time.Duration // how often all tasks are inspected, whatever events say
	Poll     bool          // no file events, only rescans

	Objectives bool   // work on objectives as well, as objectives.watch asks for
	Creator    string // creator of the tasks that steps of objectives become

	Begun func() // called when this watcher holds the repository's lock, before it inspects anything; may be nil

	// Reload returns a site with the current settings, nil if they have not changed. It is called when their files change, at
	// every rescan and at every Hangup. After an error, the previous settings stay.
	Reload func() (*runner.Site, error)
	Hangup <-chan struct{}

	// Look delivers directories to inspect again, since other machines have changed what holds for them; nil: none do.
	Look <-chan string
}

// Watch runs ready tasks, and those that were cut off, until ctx ends (or, with Once, nothing is left). It returns the last
// Result of each task that ran or was held back, without a status if its task.json can't be read, and the errors that were never
// resolved. One process watches a repository: a second one gets a *durable.HeldError.
func Watch(ctx context.Context, s *runner.Site, o WatchOptions) ([]runner.Result, error) {
	lock, err := lockWatch(s)
	if err != nil {
		return nil, err
	}
	if o.Begun != nil {
		o.Begun()
	}
	if err := s.Store.MakeFolder(); err != nil {
		return nil, errors.Join(err, lock.release())
	}
	w := newWatch(s, o, lock)
	w.subscribe()
	defer w.events.close()
	all, err := w.loop(ctx)
	if err := lock.release(); err != nil {
		w.notices.say("%v", err)
	}
	return all, err
}

// watch is the state of a watcher. All of it belongs to the loop's goroutine.
type watch struct {
	*settings
	lock       *watchLock
	events     events
	notices    notices
	schedule   schedule
	admission  admission
	results    results
	heartbeat  heartbeat
	objectives objectives
	pulls      pulls
	promotion  promotion
	scan       scan
	inspector  inspector
	clocks     clocks

	queue         []runner.Assessment
	startDeadline time.Time          // when tasks that could begin stop waiting for inspections that are due; zero: they need not wait
	waiting       map[string]bool    // directories that wait for another task, for people, or for trust
	rest          map[string]rest    // directories that are not run for a while
	settling      settling           // invalid directories that are still being written to
	stalls        stalls             // directories whose runs came to nothing
	failed        map[string]failing // directories with an error that keeps coming back
	ended         chan runOutcome
	lockErr       error // why this watcher has to end
}

func newWatch(s *runner.Site, o WatchOptions, lock *watchLock) *watch {
	c := &settings{s: s, options: o, joined: s.Config.Shared}
	w := &watch{
		settings:  c,
		lock:      lock,
		notices:   notices{settings: c, said: map[string]string{}, warned: map[string][]string{}},
		schedule:  newSchedule(),
		admission: newAdmission(c),
		results:   results{map[string]runner.Result{}, map[string]bool{}},
		promotion: newPromotion(),
		inspector: newInspector(),
		clocks:    clocks{s.Clock().Round(0), time.Now()},
		waiting:   map[string]bool{},
		rest:      map[string]rest{},
		settling:  settling{},
		stalls:    stalls{},
		failed:    map[string]failing{},
		ended:     make(chan runOutcome),
	}
	w.heartbeat = newHeartbeat(c, &w.notices)
	w.pulls = pulls{settings: c, notices: &w.notices, schedule: &w.schedule, ended: make(chan pullCheck)}
	w.objectives = objectives{
		settings: c, notices: &w.notices, schedule: &w.schedule, admission: &w.admission, results: &w.results,
		surveys: make(chan objectivesSurvey), ended: make(chan planningOutcome), backoff: map[step]backoff{}, planned: map[step]bool{},
	}
	return w
}

// rest keeps a directory from being run before a time, as long as its status stays the same.
type rest struct {
	until  time.Time
	status trellis.Status
}

// failing is an error that keeps coming back with a directory that could run.
type failing struct {
	err   error
	times int
}

// tries is how often a watch --once tries again after an error.
const tries = 3

// runOutcome is the end of one task's run in this process.
type runOutcome struct {
	runner.Assessment            // the assessment after which the run was begun
	files             fileStamps // stamps of the directory at that time; task.json is as the run left it
	res               runner.Result
	limited           limit // limit of a provider that the run hit
	begun             bool  // false if the disk was too full to begin
	err               error
}

// subscribe subscribes to file events before the first scan, so that no change is missed in between. It falls back to rescans if
// the system provides no events.
func (w *watch) subscribe() {
	if w.options.Poll {
		return
	}
	var err error
	if w.events, err = subscribeTo(w.s.Store.Tasks()); err != nil {
		w.notices.say("file events are unavailable (%v): looking every %v instead", err, w.options.Rescan)
		return
	}
	w.s.Assessor().Neighbours().Follow()
	w.subscribeToObjectives()
	if path := w.ledgerPath(); path != "" {
		_ = w.events.add(filepath.Dir(path)) // without events, a rescan reads what is trusted by then
	}
	if err := w.events.add(w.settingsDir()); err != nil {
		w.notices.say("file events for .trellis are unavailable (%v): the settings are looked at every %v", err, w.options.Rescan)
	}
}

// subscribeToObjectives subscribes to the events of the folder of objectives, if there is one.
func (w *watch) subscribeToObjectives() {
	if err := w.events.add(w.objectivesDir()); err != nil {
		w.notices.warn("objectives", fmt.Sprintf("file events for the objectives are unavailable (%v): they are looked at every %v", err, w.options.Rescan))
	}
}

func (w *watch) loop(ctx context.Context) ([]runner.Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	tick := time.NewTicker(w.options.Rescan)
	defer tick.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	w.inspectAll()
	for ctx.Err() == nil && w.keepLock(stop) {
		w.processEvents()
		if w.clocks.woke(w.s.Clock()) {
			w.rescan()
		}
		if w.reloadDue() {
			w.reload()
		}
		w.startDueInspections(ctx)
		w.pulls.startIfDue(ctx)
		w.startQueued(ctx)
		w.objectives.wake()
		w.objectives.advance(ctx)
		if w.notices.idleSince.IsZero() && w.nothingLeft() {
			w.notices.idleSince, w.heartbeat.outdated = w.s.Clock(), true
		}
		if !w.heartbeat.next().After(time.Now()) {
			w.heartbeat.write(w.admission.tasks, w.waits())
			w.notices.reportWaits(w.heartbeat.beat, w.options.Once || w.busy())
		}
		if w.options.Once && w.idle() {
			break
		}
		timer.Reset(w.untilNext())
		select {
		case <-ctx.Done():
		case e, ok := <-w.events.happened:
			if ok {
				w.handleEvent(e)
			}
		case err := <-w.events.errors:
			w.handleEventError(err)
		case f := <-w.inspector.found:
			w.take(ctx, f)
		case r := <-w.ended:
			w.end(r)
		case l := <-w.objectives.surveys:
			w.objectives.take(l)
			w.heartbeat.outdated = true
		case p := <-w.objectives.ended:
			w.objectives.end(p)
			w.heartbeat.outdated = true
		case a := <-w.pulls.ended:
			w.pulls.take(a)
		case <-w.options.Hangup:
			w.reload()
			w.inspectAll()
		case dir := <-w.options.Look:
			w.schedule.putNow(dir)
		case <-tick.C:
			w.reload()
			w.inspectAll()
		case <-timer.C:
		}
	}
	return w.shutDown(w.lockErr)
}

// keepLock makes sure that there is no second watcher. If there is one, or the lock can't be taken, this watcher stops, and
// the other one takes over what runs here.
func (w *watch) keepLock(stop context.CancelCauseFunc) bool {
	anew, err := w.lock.renew()
	switch {
	case anew:
		w.s.Tell(runner.Event{Level: slog.LevelWarn, Message: w.s.Store.Rel(w.s.Starter().WatchLock()) + " was removed: it is created again"})
		w.heartbeat.written = time.Time{} // watch.json may be gone as well
	case err != nil:
		w.lockErr = fmt.Errorf("%s was removed, and this watcher ends: %w", w.s.Store.Rel(w.s.Starter().WatchLock()), err)
		w.s.Tell(runner.Event{Level: slog.LevelError, Message: w.lockErr.Error()})
		stop(w.lockErr)
	}
	return err == nil
}

// shutDown waits for everything that is under way, whose contexts have ended, and returns the results and the errors that remain.
func (w *watch) shutDown(why error) ([]runner.Result, error) {
	w.inspector.close()
	if w.pulls.checking {
		<-w.pulls.ended
	}
	for len(w.admission.tasks) > 0 {
		w.end(<-w.ended)
	}
	for w.objectives.surveying || len(w.admission.steps) > 0 {
		select {
		case l := <-w.objectives.surveys:
			w.objectives.take(l)
		case p := <-w.objectives.ended:
			w.objectives.end(p)
		}
	}
	errs := append(w.objectives.errors(), why)
	for _, dir := range slices.Sorted(maps.Keys(w.failed)) {
		errs = append(errs, w.failed[dir].err)
	}
	return w.results.all(), errors.Join(errs...)
}

// inspectAll has every task and objective inspected.
func (w *watch) inspectAll() {
	w.rescan()
	w.objectives.scheduleSurvey()
}

// reload changes to the current settings. Runs under way keep theirs, and invalid settings leave the previous ones in place.
func (w *watch) reload() {
	changed, err := w.settings.reload()
	if err != nil {
		w.notices.fail("settings", err.Error()+"\n  the settings before stay")
		return
	}
	w.notices.forget("settings")
	if changed {
		clear(w.stalls)
		maps.DeleteFunc(w.objectives.backoff, func(_ step, b backoff) bool { return b.asked >= stallTries })
		w.notices.say("the settings were read again; %d at once", w.slots())
		if w.s.Config.Shared != w.joined {
			w.notices.say("what they say of shared counts when trellis watch begins the next time")
		}
		w.inspectAll() // tasks that could not run may be able to now
	}
}

func (w *watch) untilNext() time.Duration {
	if w.scan.list && !w.inspector.isInspecting(w.s.Store.Tasks()) {
		return 0
	}
	next := w.inspector.next(time.Until(w.heartbeat.next()))
	for _, at := range []time.Time{w.startDeadline, w.reloadAt, w.objectives.next()} {
		if !at.IsZero() {
			next = min(next, time.Until(at))
		}
	}
	if w.pulls.due() {
		next = min(next, time.Until(w.pulls.next))
	}
	if w.inspector.hasSlot() {
		next = w.schedule.next(next, w.inspector.isInspecting) // a directory that is being inspected is due again after that
	}
	return max(next, 0)
}

// retryLocked schedules another inspection of a directory that another process holds.
func (w *watch) retryLocked(dir string) {
	delay := w.admission.noteLocked(dir)
	w.schedule.put(dir, time.Now().Add(delay), delay <= time.Second)
}

// isResting reports whether a directory is to be left alone. A new status ends that, since whoever set it wants the task inspected.
func (w *watch) isResting(l runner.Assessment) bool {
	r, ok := w.rest[l.Dir]
	if ok && r.status == l.Task.Status && r.until.After(time.Now()) {
		return true
	}
	delete(w.rest, l.Dir)
	return false
}

// noteAgentFailure notes in a ready task's task.json which agent can't work, for those who follow the task.
func noteAgentFailure(s *runner.Site, l runner.Assessment, err error) error {
	var fail *flow.Failure
	if !errors.As(err, &fail) || l.Task.Status != trellis.Ready || s.Sharing != nil { // another machine may be able to
		return nil
	}
	_, err = s.Store.Update(l.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if old := t.Pipeline.Failure; t.Status == trellis.Ready && (string(old.Code) != fail.Code || old.Detail != fail.Detail) {
			e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Code(fail.Code), Detail: fail.Detail, Retryable: fail.Retryable, At: s.Clock()})
		}
		return nil
	})
	return err
}

// end processes the end of a run.
func (w *watch) end(r runOutcome) {
	delete(w.admission.tasks, r.Dir)
	w.heartbeat.outdated = true
	w.results.put(r.Dir, r.res)
	var fail *flow.Failure
	var nobody *git.IdentityError
	var not *runner.NotReadyError
	var untrusted *trust.UntrustedError
	var elsewhere *runner.OtherMachineError
	var refused *runner.RefusedError
	var crowded *runner.ConflictError
	switch {
	case errors.As(r.err, &untrusted):
		w.reportUntrusted(r.Dir, untrusted)
		w.stalls.record(r)
		w.schedule.putSettled(r.Dir) // the next inspection judges whether it is trusted
	case errors.As(r.err, &not):
		w.notices.warn(r.Dir, problemText(not.Problems))
		w.results.put(r.Dir, runner.Result{Dir: r.Dir, Status: trellis.Ready})
		w.stalls.record(r)
		w.schedule.putSettled(r.Dir) // it may have been mended meanwhile
	case errors.As(r.err, &nobody):
		w.notices.warn("", "no task is started: "+nobody.Error())
	case errors.As(r.err, &elsewhere):
		w.results.drop(r.Dir)
		w.notices.inform(r.Dir, elsewhere.Error())
		w.schedule.putSettled(r.Dir) // its directory is brought up to date meanwhile
	case errors.As(r.err, &crowded): // another machine was quicker
		w.results.put(r.Dir, runner.Result{Dir: r.Dir, Status: trellis.Waiting, Waits: bases.Waits{{For: crowded.Why}}})
		w.notices.inform(r.Dir, crowded.Error())
		w.schedule.put(r.Dir, time.Now().Add(conflictPause), false)
	case errors.As(r.err, &refused):
		w.results.drop(r.Dir) // the task is left to others
		if !w.options.Once {
			w.results.put(r.Dir, runner.Result{Dir: r.Dir, Status: trellis.Ready, Waits: bases.Waits{{For: refused.Why}}})
		}
		w.notices.inform(r.Dir, refused.Error()+"\nnext: "+refused.Hint)
	case runlock.Busy(r.err):
		w.results.drop(r.Dir) // someone else runs it
		w.retryLocked(r.Dir)
	case errors.As(r.err, &fail):
		r.res.Failure = fail
		w.results.put(r.Dir, r.res)
		w.notices.warn(r.Dir, filepath.Base(r.Dir)+" is not started: "+fail.Error())
	case errors.Is(r.err, context.Canceled): // cancelled before it began: this watcher ends, and the next one runs the task
	case r.err != nil:
		if w.failed[r.Dir].times == 0 { // repeated failures don't count as work
			w.notices.idleSince = time.Time{}
		}
		w.fail(r.Assessment, r.err)
		if durable.IsDiskError(r.err) && r.begun { // otherwise an agent that fills the disk would be asked again and again
			w.stalls.record(r)
		}
	default:
		w.notices.idleSince = time.Time{}
		delete(w.failed, r.Dir)
		if r.res.Status == trellis.Review {
			w.pulls.bringForward()
		}
		if !r.res.Until.IsZero() {
			w.rest[r.Dir] = rest{w.realTime(r.res.Until), r.res.Status}
		}
		if r.limited != (limit{}) { // recorded before another task takes the slot
			w.admission.limited[r.Dir] = r.limited
		}
		w.stalls.record(r)
		w.schedule.putNow(r.Dir) // a paused task says when it is resumed, a changed one runs again
	}
}

// fail reports an error with a directory and has it tried again, since most such errors pass.
func (w *watch) fail(l runner.Assessment, err error) {
	w.notices.fail(l.Dir, filepath.Base(l.Dir)+": "+errorText(err))
	f := failing{err, w.failed[l.Dir].times + 1}
	w.failed[l.Dir] = f
	at := time.Now().Add(min(time.Second<<min(f.times-1, 5), 30*time.Second))
	w.schedule.put(l.Dir, at, f.times <= tries)
	if l.Task != nil {
		w.rest[l.Dir] = rest{at, l.Task.Status}
	}
}
