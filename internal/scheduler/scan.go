package scheduler

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// scan is a rescan under way: every task directory is looked at, as far as there is room beside what is due.
type scan struct {
	list  bool            // the folder of tasks is still to be listed
	left  []string        // directories to look at
	found map[string]bool // that may run, and wait for the rest, whatever else happens to them: the most urgent may come last
	again bool            // something was missed meanwhile
}

// rescan has every task directory looked at.
func (w *watch) rescan() {
	if w.scanning() {
		w.scan.again = true
		return
	}
	w.s.Assessor().Neighbours().Changed("")
	w.scan = scan{list: true, found: map[string]bool{}}
}

// scanning reports whether a rescan is not at its end. It does not wait for what does not answer.
func (w *watch) scanning() bool {
	return w.scan.list && !w.inspector.late(w.s.Store.Tasks()) || len(w.scan.left) > 0 || w.inspector.waited(true)
}

// inspect begins to look at what is due, and with the room that is left at what a rescan still has to see.
func (w *watch) inspect(ctx context.Context) {
	w.tellLate()
	if tasks := w.s.Store.Tasks(); w.scan.list && !w.inspector.at(tasks) {
		w.scan.list = false
		s := w.s // a reload takes another one
		w.inspector.begin(ctx, tasks, true, func(context.Context) inspected { return list(s) })
	}
	for _, dir := range w.schedule.ready(w.inspector.at) {
		w.inspectAt(ctx, dir, false)
	}
	for len(w.scan.left) > 0 && w.inspector.free() && ctx.Err() == nil {
		dir := w.scan.left[0]
		w.scan.left = w.scan.left[1:]
		w.inspectAt(ctx, dir, true)
	}
	if w.scan.again && !w.scanning() {
		w.rescan()
	}
}

// inspectAt begins to look at a directory, unless it runs. One that there is no room for stays due, and one that is being
// looked at is looked at once more: what it is asked for now may have happened after it was read.
func (w *watch) inspectAt(ctx context.Context, dir string, scan bool) {
	if l := w.inspector.under[dir]; l != nil {
		l.scan = l.scan || scan
		w.schedule.now(dir)
		return
	}
	if !w.admission.tasks[dir] && !w.inspector.free() {
		return
	}
	w.schedule.begin(dir)
	w.heartbeat.news = true
	if w.admission.tasks[dir] {
		return
	}
	s, events := w.s, w.events
	_, stalled := w.stalls[dir]
	w.inspector.begin(ctx, dir, scan, func(ctx context.Context) inspected { return inspect(ctx, s, dir, events, stalled) })
}

// tellLate says of which directories looking takes too long. Nobody waits for them any more.
func (w *watch) tellLate() {
	for _, dir := range w.inspector.overdue() {
		w.queue = slices.DeleteFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
		w.notices.fail(dir, fmt.Sprintf("looking at %s takes longer than %v: something in it, or a command of git, does not answer; the other tasks go on", w.s.Store.Rel(dir), lookLimit))
		w.results.note(dir, runner.Result{Dir: dir})
	}
}

// take takes in what was found of a directory.
func (w *watch) take(ctx context.Context, f inspected) {
	of := w.inspector.end(f.Dir)
	if ctx.Err() != nil {
		return
	}
	if f.Dir == w.s.Store.Tasks() {
		w.results.begin(f.Dir)
		w.listed(f)
		return
	}
	if w.options.Once && f.err != nil && time.Since(of.begun) >= lookEnd { // its commands were ended: that it was late is its result
		w.notices.fail(f.Dir, filepath.Base(f.Dir)+": "+f.err.Error())
		return
	}
	if f.deaf != nil {
		w.notices.warn("events", fmt.Sprintf("file events for some of the tasks are unavailable (%v): those are looked at every %v", f.deaf, w.options.Rescan))
	}
	queued := w.inQueue(f.Dir) // for its turn, which it keeps
	w.place(f)
	if of.scan && !queued && w.inQueue(f.Dir) {
		w.scan.found[f.Dir] = true
	}
}

// listed takes in which directories there are.
func (w *watch) listed(f inspected) {
	if f.err != nil {
		w.notices.fail("", "looking through the tasks: "+f.err.Error())
		return
	}
	w.scan.left = append(w.scan.left, f.dirs...)
}

// begin starts what fits, without what a rescan has found that is not at its end. For looks at what is due it waits a
// moment: one of them may be more urgent.
func (w *watch) begin(ctx context.Context) {
	if len(w.queue) == 0 || !w.inspector.waited(false) {
		w.startDeadline = time.Time{}
	} else if w.startDeadline.IsZero() {
		w.startDeadline = time.Now().Add(settle)
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
	w.fill(ctx)
	w.queue = append(w.queue, all...)
	w.heartbeat.news = w.heartbeat.news || len(w.admission.tasks) != n
}

// inQueue reports whether a directory may run.
func (w *watch) inQueue(dir string) bool {
	return slices.ContainsFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
}
