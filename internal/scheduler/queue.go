package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// queueOrReport puts an inspected directory into the queue or the schedule, or reports what is wrong with it.
func (w *watch) queueOrReport(f inspectionResult) {
	dir, l := f.Dir, f.Assessment
	w.queue = slices.DeleteFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
	delete(w.waiting, dir)
	delete(w.schedule.onceWaits, dir)
	w.results.clearReason(dir)
	if changed, waiting := w.promotion.promote(f); changed {
		w.objectives.scheduleSurvey()
		w.scan.remaining = append(w.scan.remaining, waiting...) // no task is begun before these are inspected
	}
	w.admission.recordInspection(f)
	if len(l.Problems) == 0 {
		w.settling.end(dir)
	}
	if f.gone {
		w.forget(dir)
		return
	}
	if f.err == nil && !l.Run {
		delete(w.failed, dir)
	}
	if f.err == nil && l.Untrusted == nil {
		w.notices.warnIgnored(dir, l.Warnings)
	}
	switch {
	case f.err != nil:
		w.fail(l, f.err)
	case len(l.Problems) > 0:
		if at := w.settling.until(dir); !w.options.Once && w.schedule.inspectedAt[dir].Before(at) { // problems that were found before it settled may be gone
			w.schedule.put(dir, at, false)
		} else {
			w.settling.end(dir)
			w.notices.warn(dir, problemText(l.Problems))
		}
		w.noteUnrunnable(l)
	case l.Elsewhere != nil:
		w.results.drop(dir)
		w.notices.inform(dir, l.Elsewhere.Error())
	case l.Untrusted != nil:
		w.reportUntrusted(dir, l.Untrusted)
	case len(l.Waits) > 0:
		w.waiting[dir] = true
		w.notices.inform(dir, filepath.Base(dir)+" waits for "+l.Waits.String())
		w.results.put(dir, runner.Result{Dir: dir, Status: trellis.Waiting, Waits: l.Waits})
	case l.Run && l.At.After(w.s.Clock()):
		w.schedule.put(dir, w.realTime(l.At), l.Task.Status == trellis.Paused)
		w.results.put(dir, runner.Result{Dir: dir, Status: l.Task.Status, Until: l.At})
	case l.Run && !l.ResumesEarly() && w.isResting(l):
		w.schedule.put(dir, w.rest[dir].until, true)
	case l.Run && f.held:
		w.retryLocked(dir)
	case l.Run && w.holdIfStalled(f):
	case l.Run:
		if _, failing := w.failed[dir]; !failing && !w.results.unable(l) {
			w.notices.forget(dir)
		}
		delete(w.admission.held, dir)
		w.queue = append(w.queue, l)
	}
}

// holdIfStalled keeps a task from running if its last runs came to nothing and nobody has changed anything since, and reports
// whether it does so.
func (w *watch) holdIfStalled(f inspectionResult) bool {
	s, ok := w.stalls.find(f)
	switch {
	case !ok:
		return false
	case s.isGivenUp():
		w.notices.warn(f.Dir, problemText(s.problems(f.Assessment)))
		w.results.putReason(f.Dir, runner.Result{Dir: f.Dir, Status: trellis.Ready})
		return true
	case s.until.After(time.Now()):
		w.schedule.put(f.Dir, s.until, true)
		return true
	}
	return false
}

// settleTime is how long a directory must be left unchanged before the watcher reports what is wrong with it: a task that is
// written one file after the other is incomplete until then.
const settleTime = 2 * time.Second

// longestSettling is how long the watcher waits at most for an invalid directory to settle: one that is written to all the
// time is reported too.
const longestSettling = 10 * time.Second

// settling is since when directories have been invalid, as long as that is not reported.
type settling map[string]time.Time

// until returns when to report what is wrong with a directory.
func (u settling) until(dir string) time.Time {
	since, known := u[dir]
	if !known {
		since = time.Now()
		u[dir] = since
	}
	at, latest := settledAt(dir), since.Add(longestSettling)
	if latest.Before(at) {
		return latest
	}
	return at
}

// end forgets a directory.
func (u settling) end(dir string) { delete(u, dir) }

// settledAt returns the time at which a directory has been left unchanged for settleTime. Modification times in the future
// are ignored. A directory that was moved or removed after its inspection is to be inspected again.
func settledAt(dir string) time.Time {
	var last time.Time
	now := time.Now()
	if gone(dir) {
		return now.Add(settleTime)
	}
	newer := func(info fs.FileInfo, err error) {
		if err == nil && info.ModTime().After(last) && !info.ModTime().After(now) {
			last = info.ModTime()
		}
	}
	newer(os.Stat(dir))
	entries, _ := os.ReadDir(dir) // a directory that can't be listed counts as settled
	for _, e := range entries {
		if e.Type().IsRegular() {
			newer(e.Info())
		}
	}
	return last.Add(settleTime)
}

// gone reports whether a directory was moved or removed: archived, or taken away by git. A directory without a task.json is not gone.
func gone(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// forget drops what is known about a directory that is gone. A watch --once keeps the result of its run.
func (w *watch) forget(dir string) {
	delete(w.schedule.inspectedAt, dir)
	w.notices.forget(dir)
	delete(w.notices.warned, dir)
	delete(w.failed, dir)
	delete(w.rest, dir)
	delete(w.stalls, dir)
	w.promotion.forget(dir)
	if !w.options.Once {
		w.results.drop(dir)
	}
}

// noteUnrunnable records what a task that can't run means for the result of a watch --once.
func (w *watch) noteUnrunnable(l runner.Assessment) {
	if l.Task == nil {
		w.results.putReason(l.Dir, runner.Result{Dir: l.Dir})
	} else if l.Task.Status == trellis.Ready {
		w.results.putReason(l.Dir, runner.Result{Dir: l.Dir, Status: trellis.Ready})
	}
}

// startFitting starts the tasks that fit: by priority, then by the day they were made, then by name. A task that does not fit now
// keeps its place and its files: tasks behind it pass it only if they don't change the same files.
func (w *watch) startFitting(ctx context.Context) {
	now := w.s.Clock()
	slices.SortFunc(w.queue, func(a, b runner.Assessment) int { return compareTasks(a.Task, b.Task, now) })
	claims := w.admission.filesInUse()
	var left []runner.Assessment
	for i, l := range w.queue {
		if w.admission.full() || ctx.Err() != nil || w.inspector.isInspecting(l.Dir) { // a task that is being inspected keeps its turn
			left = append(left, w.queue[i:]...)
			w.reportQueued(w.queue[i:])
			break
		}
		h := w.admission.admit(l, claims)
		if h.why == "" {
			w.start(ctx, l)
		} else {
			w.postpone(l, h)
		}
		if h.until.IsZero() {
			claims = w.admission.withFilesOf(claims, l.Dir)
		}
		if h.why != "" && h.until.IsZero() {
			left = append(left, l)
		}
	}
	w.queue = left
}

// reportQueued reports, once for each task, that there is no free slot.
func (w *watch) reportQueued(list []runner.Assessment) {
	if !w.admission.full() {
		return
	}
	for _, l := range list {
		if !w.admission.queued[l.Dir] {
			w.admission.queued[l.Dir] = true
			w.notices.task(l.Dir, fmt.Sprintf("is queued (%d of %d slots busy)", len(w.admission.tasks)+len(w.admission.steps), w.slots()))
		}
	}
}

// postpone leaves a task for later, and reports once why.
func (w *watch) postpone(l runner.Assessment, h hold) {
	if w.admission.waits[l.Dir] != h.why {
		w.admission.waits[l.Dir], w.heartbeat.outdated = h.why, true
		w.notices.task(l.Dir, "waits for "+h.why)
	}
	w.results.putReason(l.Dir, runner.Result{Dir: l.Dir, Status: trellis.Waiting, Waits: bases.Waits{{For: h.why}}, Until: h.until})
	if !h.until.IsZero() {
		w.schedule.put(l.Dir, w.realTime(h.until), false)
	}
}

// start runs a task beside the others.
func (w *watch) start(ctx context.Context, l runner.Assessment) {
	delete(w.admission.waits, l.Dir)
	delete(w.admission.queued, l.Dir)
	w.results.clearReason(l.Dir)
	w.admission.tasks[l.Dir] = true
	w.s.TaskRunner().TakeLastPhase(l.Dir) // discard the phase of an earlier run
	w.heartbeat.setPhase(l.Dir, runner.Phase{Name: l.Task.Pipeline.Phase, Round: l.Task.Pipeline.Round})
	s, full := w.s, durable.IsDiskError(w.failed[l.Dir].err) // a reload replaces w.s
	go func() { w.ended <- attempt(ctx, s, l, full) }()
}

// conflictPause is how long a task rests that another machine took first: the next fetch from the remote shows what has ended there.
const conflictPause = 2 * time.Second

// compareTasks returns a negative number if task a runs before task b.
func compareTasks(a, b *taskdir.Task, now time.Time) int {
	return cmp.Or(strings.Compare(priority(a), priority(b)), a.Made(now).Compare(b.Made(now)), strings.Compare(a.Dir, b.Dir))
}

func priority(t *taskdir.Task) string {
	return cmp.Or(t.Priority, "P2")
}

// attempt runs one task if its agents can work. full: the disk was full, and agents are asked only when it has room again.
func attempt(ctx context.Context, s *runner.Site, l runner.Assessment, full bool) (r runOutcome) {
	r.Assessment, r.files = l, fileStampsOf(l.Dir)
	if full {
		if r.err = s.Disk.CheckSpace(l.Dir); r.err != nil {
			r.res = runner.Result{Dir: l.Dir, Status: l.Task.Status}
			return r
		}
	}
	r.begun = true
	defer func() { r.files.add(l.Dir, taskdir.TaskJSON) }() // the run writes this one; other files that people saved count as changes
	if err := s.TaskRunner().CheckAgents(ctx, l.Task, ""); err != nil {
		r.res, r.err = runner.Result{Dir: l.Dir, Status: l.Task.Status}, errors.Join(err, noteAgentFailure(s, l, err))
		return r
	}
	s.Starter().PrintAssumptions(l.Dir)
	r.res, r.err = s.TaskRunner().Run(ctx, l.Dir, runner.RunOptions{Unattended: true}, nil)
	if r.err != nil {
		r.Task = nil
		if t, err := s.Store.Load(l.Dir); err == nil {
			r.Task = t
		}
	} else if t, err := s.Store.Load(l.Dir); err == nil {
		r.limited = limitOf(l.Dir, t)
	}
	return r
}

// busy reports whether something runs here, or waits for its turn.
func (w *watch) busy() bool {
	return len(w.queue) > 0 || len(w.admission.tasks) > 0 || len(w.admission.steps) > 0
}

// nothingLeft reports whether there is nothing to do, and no inspection under way that may find something.
func (w *watch) nothingLeft() bool {
	return !w.busy() && !w.scanning() && !w.inspector.hasInTime(false)
}

// idle reports whether nothing runs, is queued, or is inspected now or soon. A late inspection counts as long as it may end:
// the machine may be slow, and the task is what the watcher was started for.
func (w *watch) idle() bool {
	if len(w.admission.tasks) > 0 || w.pulls.checking || !w.admission.stuck(w.queue) || !w.objectives.idle() || w.scanning() || w.inspector.pending() {
		return false
	}
	return w.schedule.idle(w.inspector.late)
}
