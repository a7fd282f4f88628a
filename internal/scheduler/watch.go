// Package scheduler watches a repository: it assesses its tasks as they change, decides what runs next and beside what, and
// has it run.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/fsnotify/fsnotify"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/trust"
	"github.com/trellis-tasks/trellis/taskdir"
)

// WatchOptions say how to watch.
type WatchOptions struct {
	Once     bool          // until nothing is left to run
	Parallel int           // tasks at once; 0: limits.parallel, also when that changes
	Rescan   time.Duration // how often everything is looked at, whatever events say
	Poll     bool          // no events, rescans alone

	Objectives bool   // work on objectives as well, as objectives.watch asks for
	Creator    string // of the tasks that steps of objectives become

	Begun func() // called when the repository is this watcher's, before it looks at anything; may be nil

	// Reload makes a site of the settings as they are now, nil when they have not changed. It is asked when their
	// files change, at every rescan and at every Hangup. After an error the settings before stay.
	Reload func() (*runner.Site, error)
	Hangup <-chan struct{}
}

// settle is how long events of one directory are collected after the first, which counts at once.
const settle = 50 * time.Millisecond

// Watch picks up ready tasks, and those that were cut off, until ctx ends (or, with Once, nothing is left),
// and returns where each task that ran stood at last, one that can't be read without a status, and what went
// wrong and stayed so. One process watches a repository: a second gets a
// *durable.HeldError.
func Watch(ctx context.Context, s *runner.Site, o WatchOptions) ([]runner.Result, error) {
	lock, err := lockWatch(s)
	if err != nil {
		return nil, err
	}
	if o.Begun != nil {
		o.Begun()
	}
	if err := os.MkdirAll(s.Store.Tasks(), 0o755); err != nil {
		return nil, errors.Join(fmt.Errorf("making the folder of tasks: %w", err), lock.release())
	}
	w := newWatch(s, o)
	w.lock = lock
	w.limit()
	w.alive()
	defer w.events()()
	if w.notify != nil {
		s.Assessor().Neighbours().Follow()
	}
	all, err := w.loop(ctx)
	if err := lock.release(); err != nil {
		w.say("%v", err)
	}
	return all, err
}

// watch is the state of a watcher. All of it belongs to the loop's goroutine.
type watch struct {
	s       *runner.Site
	lock    *watchLock
	o       WatchOptions
	notify  *fsnotify.Watcher // nil: rescans alone
	queue   []runner.Assessment
	running map[string]bool
	due     map[string]time.Time // directories to look at, and when
	seen    map[string]time.Time // when a directory was last looked at
	told    map[string]string    // what was said last about a directory
	waiting map[string]bool      // for another task's end
	rest    map[string]rest      // directories that are left alone for a while
	soon    map[string]bool      // due directories that a watch --once stays for
	unrest  unrest               // directories that are wrong and written to
	held    map[string]int       // how often a directory was found held by another process
	stalls  map[string]stall     // directories whose runs came to nothing
	last    map[string]runner.Result
	noted   map[string]bool // whose last result is only why it can't run
	ended   chan ran
	failed  map[string]failing
	room    room

	scan  scan
	looks inspector
	ripe  time.Time // when what could begin waits no longer for looks at what is due; zero: it need not

	parallel int // asked for; 0: what the settings say
	reloadAt time.Time
	wall     time.Time // when the loop turned last, by the clock on the wall
	counted  time.Time // and by the one that only counts

	life     pulse.Beat
	news     bool // since the last beat
	beaten   time.Time
	beatTook time.Duration
	phases   map[string]pulse.Work

	lost      error // why this watcher has to end
	promotion promotion
	roads     roads
	pulls     pulls
}

func newWatch(s *runner.Site, o WatchOptions) *watch {
	return &watch{
		s:        s,
		o:        o,
		running:  map[string]bool{},
		due:      map[string]time.Time{},
		seen:     map[string]time.Time{},
		told:     map[string]string{},
		waiting:  map[string]bool{},
		rest:     map[string]rest{},
		soon:     map[string]bool{},
		unrest:   unrest{},
		held:     map[string]int{},
		stalls:   map[string]stall{},
		last:     map[string]runner.Result{},
		noted:    map[string]bool{},
		ended:    make(chan ran),
		looks:    newInspector(),
		failed:   map[string]failing{},
		parallel: o.Parallel,
		wall:     s.Clock().Round(0),
		counted:  time.Now(),
		phases:   map[string]pulse.Work{},
		roads:    newRoads(),
		pulls:    pulls{ended: make(chan asked)},
	}
}

// rest keeps a directory from being run before its time, as long as its status stays.
type rest struct {
	until  time.Time
	status trellis.Status
}

// failing is what keeps going wrong with a directory that could run.
type failing struct {
	err   error
	times int
}

// tries is how often a watch --once tries again what went wrong.
const tries = 3

// ran is the end of one task's run in this process.
type ran struct {
	runner.Assessment        // that it was begun after
	files             traces // of the directory then, but for task.json, which is as the run left it
	res               runner.Result
	err               error
}

// events begins to listen before the first scan, so that nothing falls between. It falls back to rescans
// when the system has no events to give.
func (w *watch) events() (stop func()) {
	if w.o.Poll {
		return func() {}
	}
	n, err := fsnotify.NewBufferedWatcher(4096)
	if err == nil {
		if err = n.Add(w.s.Store.Tasks()); err != nil {
			err = errors.Join(err, n.Close())
		}
	}
	if err != nil {
		w.say("file events are not to be had (%v): looking every %v instead", err, w.o.Rescan)
		return func() {}
	}
	w.notify = n
	w.hearRoads()
	w.hearLedger()
	if err := n.Add(w.settingsDir()); err != nil {
		w.say("file events for .trellis are not to be had (%v): the settings are looked at every %v", err, w.o.Rescan)
	}
	return func() { n.Close() }
}

func (w *watch) say(format string, args ...any) {
	w.s.Tell(runner.Event{Message: fmt.Sprintf(format, args...)})
}

func (w *watch) loop(ctx context.Context) ([]runner.Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	tick := time.NewTicker(w.o.Rescan)
	defer tick.Stop()
	timer := time.NewTimer(0)
	defer timer.Stop()
	w.rescan()
	w.remind()
	for ctx.Err() == nil && w.keepLock(stop) {
		w.hear()
		if w.woke() {
			w.rescan()
		}
		w.reloadDue()
		w.inspect(ctx)
		w.askPulls(ctx)
		w.begin(ctx)
		w.wake()
		w.advance(ctx)
		w.beat()
		if w.o.Once && w.idle() {
			break
		}
		timer.Reset(w.untilNext())
		select {
		case <-ctx.Done():
		case e, ok := <-w.fsEvents():
			if ok {
				w.event(e)
			}
		case err := <-w.fsErrors():
			w.missed(err)
		case f := <-w.looks.found:
			w.take(ctx, f)
		case r := <-w.ended:
			w.end(r)
		case l := <-w.roads.looked:
			w.seeRoads(l)
		case p := <-w.roads.ended:
			w.endRoad(p)
		case a := <-w.pulls.ended:
			w.pullsAsked(a)
		case <-w.o.Hangup:
			w.reload()
			w.rescan()
			w.remind()
		case <-tick.C:
			w.reload()
			w.rescan()
			w.remind()
		case <-timer.C:
		}
	}
	return w.leave(w.lost)
}

// keepLock sees to it that there is no second watcher. When there is one, or can be no lock, this one stops, and the
// other goes on with what runs here.
func (w *watch) keepLock(stop context.CancelCauseFunc) bool {
	anew, err := w.lock.keep()
	switch {
	case anew:
		w.s.Tell(runner.Event{Level: slog.LevelWarn, Message: w.s.Store.Rel(w.s.Starter().WatchLock()) + " was removed: it is made anew"})
		w.beaten = time.Time{} // watch.json may be gone as well
	case err != nil:
		w.lost = fmt.Errorf("%s was removed, and this watcher ends: %w", w.s.Store.Rel(w.s.Starter().WatchLock()), err)
		w.s.Tell(runner.Event{Level: slog.LevelError, Message: w.lost.Error()})
		stop(w.lost)
	}
	return err == nil
}

// leave waits for all that is under way, whose contexts have ended, and says how things stand.
func (w *watch) leave(why error) ([]runner.Result, error) {
	w.looks.close()
	if w.pulls.asking {
		<-w.pulls.ended
	}
	for len(w.running) > 0 {
		w.end(<-w.ended)
	}
	for w.roads.looking || len(w.roads.planning) > 0 {
		select {
		case l := <-w.roads.looked:
			w.seeRoads(l)
		case p := <-w.roads.ended:
			w.endRoad(p)
		}
	}
	errs := append(w.roadErrors(), why)
	for _, dir := range slices.Sorted(maps.Keys(w.failed)) {
		errs = append(errs, w.failed[dir].err)
	}
	return w.results(), errors.Join(errs...)
}

func (w *watch) fsEvents() <-chan fsnotify.Event {
	if w.notify == nil {
		return nil
	}
	return w.notify.Events
}

func (w *watch) fsErrors() <-chan error {
	if w.notify == nil {
		return nil
	}
	return w.notify.Errors
}

// mark notes that something happened at path: at once the first time, collected after that.
func (w *watch) mark(path string) {
	rel, err := filepath.Rel(w.s.Store.Tasks(), path)
	if err != nil || rel == "." {
		return
	}
	name, rest, _ := strings.Cut(filepath.ToSlash(rel), "/")
	if !taskName(name) || rest == taskdir.Run || strings.HasPrefix(rest, durable.TempPrefix) {
		return
	}
	dir := filepath.Join(w.s.Store.Tasks(), name)
	w.s.Assessor().Neighbours().Changed(dir)
	at := w.seen[dir].Add(settle)
	if old, ok := w.due[dir]; !ok || old.After(at) {
		w.due[dir] = at
	}
}

// taskName reports whether an entry of the tasks folder is a task: no hidden one (drafts), no archive.
func taskName(name string) bool { return name != "" && name[0] != '.' && name != "archive" }

func (w *watch) untilNext() time.Duration {
	if w.scan.list && !w.looks.at(w.s.Store.Tasks()) {
		return 0
	}
	next := w.looks.next(time.Until(w.beatAt()))
	if !w.ripe.IsZero() {
		next = min(next, time.Until(w.ripe))
	}
	if !w.reloadAt.IsZero() {
		next = min(next, time.Until(w.reloadAt))
	}
	if w.pullsDue() {
		next = min(next, time.Until(w.pulls.next))
	}
	free := w.looks.free()
	for dir, at := range w.due {
		if free && !w.looks.at(dir) { // else what is found has it looked at
			next = min(next, time.Until(at))
		}
	}
	if at := w.nextRoad(); !at.IsZero() {
		next = min(next, time.Until(at))
	}
	return max(next, 0)
}

// real is a time of the site's clock as one of the real clock.
func (w *watch) real(at time.Time) time.Time { return time.Now().Add(at.Sub(w.s.Clock())) }

// calendar has a directory looked at again at a time, for which a watch --once stays when it is work to come
// that a run would sit out as well.
func (w *watch) calendar(dir string, at time.Time, work bool) {
	w.due[dir] = at
	w.soon[dir] = work && time.Until(at) <= runner.ParkAfter
}

// otherwise looks again at a directory that another process holds: a moment later, for an order that is being
// given, and ever more seldom. Nothing tells when a lock is free.
func (w *watch) otherwise(dir string) {
	again := 250 * time.Millisecond << min(w.held[dir], 4)
	w.held[dir]++
	w.calendar(dir, time.Now().Add(again), again <= time.Second)
}

// resting reports whether a directory is to be left alone. Who changes its status means to have it looked at.
func (w *watch) resting(l runner.Assessment) bool {
	r, ok := w.rest[l.Dir]
	if ok && r.status == l.Task.Status && r.until.After(time.Now()) {
		return true
	}
	delete(w.rest, l.Dir)
	return false
}

// unable notes in a ready task's task.json which agent can't work, for those who follow it.
func unable(s *runner.Site, l runner.Assessment, err error) error {
	var fail *flow.Failure
	if !errors.As(err, &fail) || l.Task.Status != trellis.Ready {
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

// end takes in how a run ended.
func (w *watch) end(r ran) {
	delete(w.running, r.Dir)
	w.news = true
	w.last[r.Dir] = r.res
	var fail *flow.Failure
	var nobody *git.IdentityError
	var not *runner.NotReadyError
	var untrusted *trust.UntrustedError
	switch {
	case errors.As(r.err, &untrusted):
		w.awaits(r.Dir, untrusted)
		w.stalled(r)
		w.due[r.Dir] = time.Now().Add(settle) // which is looked at for itself
	case errors.As(r.err, &not):
		w.warn(r.Dir, problemText(not.Problems))
		w.last[r.Dir] = runner.Result{Dir: r.Dir, Status: trellis.Ready}
		w.stalled(r)
		w.due[r.Dir] = time.Now().Add(settle) // it may have been mended meanwhile
	case errors.As(r.err, &nobody):
		w.warn("", "no task is started: "+nobody.Error())
	case runlock.Busy(r.err):
		delete(w.last, r.Dir) // someone else runs it
		w.otherwise(r.Dir)
	case errors.As(r.err, &fail):
		r.res.Failure = fail
		w.last[r.Dir] = r.res
		w.warn(r.Dir, filepath.Base(r.Dir)+" is not started: "+fail.Error())
	case errors.Is(r.err, context.Canceled): // before it began: this watcher ends, and the next one has it
	case r.err != nil:
		w.fail(r.Assessment, r.err)
	default:
		delete(w.failed, r.Dir)
		if r.res.Status == trellis.Review {
			w.pullsSoon()
		}
		if !r.res.Until.IsZero() {
			w.rest[r.Dir] = rest{w.real(r.res.Until), r.res.Status}
		}
		w.stalled(r)
		w.due[r.Dir] = time.Now() // a paused one says when, a changed one runs again
	}
}

// fail says what went wrong with a directory and has it tried again: most such things pass.
func (w *watch) fail(l runner.Assessment, err error) {
	w.trouble(l.Dir, filepath.Base(l.Dir)+": "+err.Error())
	f := failing{err, w.failed[l.Dir].times + 1}
	w.failed[l.Dir] = f
	at := time.Now().Add(min(time.Second<<min(f.times-1, 5), 30*time.Second))
	w.calendar(l.Dir, at, f.times <= tries)
	if l.Task != nil {
		w.rest[l.Dir] = rest{at, l.Task.Status}
	}
}
