package scheduler

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// scan is a rescan under way: every task directory is inspected, as far as inspections that are due leave room.
type scan struct {
	list      bool            // the folder of tasks has still to be listed
	remaining []string        // directories to inspect
	found     map[string]bool // directories that may run, but wait for the end of the scan whatever happens: the most urgent may come last
	repeat    bool            // another rescan was asked for meanwhile
}

// rescan has every task directory inspected.
func (w *watch) rescan() {
	if w.scanning() {
		w.scan.repeat = true
		return
	}
	w.s.Assessor().Neighbours().Changed("")
	w.scan = scan{list: true, found: map[string]bool{}}
}

// scanning reports whether a rescan is under way. It does not wait for directories that do not answer.
func (w *watch) scanning() bool {
	return w.scan.list && !w.inspector.late(w.s.Store.Tasks()) || len(w.scan.remaining) > 0 || w.inspector.hasInTime(true)
}

// startDueInspections begins the inspections that are due and, in the slots that are left, those that a rescan still has to make.
func (w *watch) startDueInspections(ctx context.Context) {
	w.reportLate()
	if tasks := w.s.Store.Tasks(); w.scan.list && !w.inspector.isInspecting(tasks) {
		w.scan.list = false
		s := w.s // a reload replaces w.s
		w.inspector.start(ctx, tasks, true, func(context.Context) inspectionResult { return listTasks(s) })
	}
	for _, dir := range w.schedule.dueDirs(w.inspector.isInspecting) {
		w.inspectAt(ctx, dir, false)
	}
	for len(w.scan.remaining) > 0 && w.inspector.hasSlot() && ctx.Err() == nil {
		dir := w.scan.remaining[0]
		w.scan.remaining = w.scan.remaining[1:]
		w.inspectAt(ctx, dir, true)
	}
	if w.scan.repeat && !w.scanning() {
		w.rescan()
	}
}

// inspectAt begins to inspect a directory, unless its task runs. Without a free slot, the directory stays due. One that is
// being inspected is inspected again: what it is due for may have happened after it was read.
func (w *watch) inspectAt(ctx context.Context, dir string, scan bool) {
	if l := w.inspector.inspections[dir]; l != nil {
		l.scan = l.scan || scan
		w.schedule.putNow(dir)
		return
	}
	if !w.admission.tasks[dir] && !w.inspector.hasSlot() {
		return
	}
	w.schedule.markInspecting(dir)
	w.heartbeat.outdated = true
	if w.admission.tasks[dir] {
		return
	}
	s, events := w.s, w.events
	_, stalled := w.stalls[dir]
	w.inspector.start(ctx, dir, scan, func(ctx context.Context) inspectionResult { return inspectDir(ctx, s, dir, events, stalled) })
}

// reportLate reports directories whose inspection takes too long. Nothing waits for them any more.
func (w *watch) reportLate() {
	for _, dir := range w.inspector.markLate() {
		w.queue = slices.DeleteFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
		w.notices.fail(dir, fmt.Sprintf("checking %s takes longer than %v: something in it, or a command of git, does not answer; the other tasks continue", w.s.Store.Rel(dir), lateAfter))
		w.results.putReason(dir, runner.Result{Dir: dir})
	}
}

// take processes what an inspection found.
func (w *watch) take(ctx context.Context, f inspectionResult) {
	last := w.inspector.finish(f.Dir)
	if ctx.Err() != nil {
		return
	}
	if f.Dir == w.s.Store.Tasks() {
		w.results.clearReason(f.Dir)
		w.takeList(f)
		return
	}
	if w.options.Once && f.err != nil && time.Since(last.begun) >= inspectionTimeout { // its commands were killed: being late is its result
		w.notices.fail(f.Dir, filepath.Base(f.Dir)+": "+f.err.Error())
		return
	}
	if f.eventsErr != nil {
		w.notices.warn("events", fmt.Sprintf("file events for some of the tasks are unavailable (%v): those are looked at every %v", f.eventsErr, w.options.Rescan))
	}
	queued := w.inQueue(f.Dir) // a queued directory keeps its turn
	w.queueOrReport(f)
	if last.scan && !queued && w.inQueue(f.Dir) {
		w.scan.found[f.Dir] = true
	}
}

// takeList processes the list of task directories.
func (w *watch) takeList(f inspectionResult) {
	if f.err != nil {
		w.notices.fail("", "looking through the tasks: "+f.err.Error())
		return
	}
	w.scan.remaining = append(w.scan.remaining, f.dirs...)
}

// startQueued starts tasks that fit, except those found by a rescan that is still under way. It waits a moment for inspections that
// are due: one of them may find a more urgent task.
func (w *watch) startQueued(ctx context.Context) {
	if len(w.queue) == 0 || !w.inspector.hasInTime(false) {
		w.startDeadline = time.Time{}
	} else if w.startDeadline.IsZero() {
		w.startDeadline = time.Now().Add(eventPause)
	}
	if w.startDeadline.After(time.Now()) {
		return
	}
	w.startDeadline = time.Time{}
	all := w.queue
	if w.scanning() {
		found := func(l runner.Assessment) bool { return w.scan.found[l.Dir] }
		w.queue = slices.DeleteFunc(slices.Clone(all), found)
		all = slices.DeleteFunc(all, func(l runner.Assessment) bool { return !found(l) })
	} else {
		all = nil
		clear(w.scan.found)
	}
	n := len(w.admission.tasks)
	w.startFitting(ctx)
	w.queue = append(w.queue, all...)
	w.heartbeat.outdated = w.heartbeat.outdated || len(w.admission.tasks) != n
}

// inQueue reports whether a directory is in the queue of those that may run.
func (w *watch) inQueue(dir string) bool {
	return slices.ContainsFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
}
