package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/fsnotify/fsnotify"
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
	return w.scan.list && !w.looks.late(w.s.Store.Tasks()) || len(w.scan.left) > 0 || w.looks.waited(true)
}

// inspect begins to look at what is due, and with the room that is left at what a rescan still has to see.
func (w *watch) inspect(ctx context.Context) {
	w.tellLate()
	if tasks := w.s.Store.Tasks(); w.scan.list && !w.looks.at(tasks) {
		w.scan.list = false
		s := w.s // a reload takes another one
		w.looks.begin(ctx, tasks, true, func(context.Context) inspected { return list(s) })
	}
	for _, dir := range w.dueNow() {
		w.inspectAt(ctx, dir, false)
	}
	for len(w.scan.left) > 0 && w.looks.free() && ctx.Err() == nil {
		dir := w.scan.left[0]
		w.scan.left = w.scan.left[1:]
		w.inspectAt(ctx, dir, true)
	}
	if w.scan.again && !w.scanning() {
		w.rescan()
	}
}

// dueNow are the directories whose time has come and that nobody looks at, those that wait longest first.
func (w *watch) dueNow() (dirs []string) {
	now := time.Now()
	for dir, at := range w.due {
		if !at.After(now) && !w.looks.at(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(w.due[a].Compare(w.due[b]), strings.Compare(a, b)) })
	return dirs
}

// inspectAt begins to look at a directory, unless it runs. One that there is no room for stays due, and one that is being
// looked at is looked at once more: what it is asked for now may have happened after it was read.
func (w *watch) inspectAt(ctx context.Context, dir string, scan bool) {
	if l := w.looks.under[dir]; l != nil {
		l.scan = l.scan || scan
		w.due[dir] = time.Now()
		return
	}
	if !w.running[dir] && !w.looks.free() {
		return
	}
	delete(w.due, dir)
	w.seen[dir] = time.Now()
	w.news = true
	if w.running[dir] {
		return
	}
	s, notify := w.s, w.notify
	_, stalled := w.stalls[dir]
	w.looks.begin(ctx, dir, scan, func(ctx context.Context) inspected { return inspect(ctx, s, dir, notify, stalled) })
}

// tellLate says of which directories looking takes too long. Nobody waits for them any more.
func (w *watch) tellLate() {
	for _, dir := range w.looks.overdue() {
		w.queue = slices.DeleteFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
		w.trouble(dir, fmt.Sprintf("looking at %s takes longer than %v: something in it, or a command of git, does not answer; the other tasks go on", w.s.Store.Rel(dir), lookLimit))
		w.last[dir], w.noted[dir] = runner.Result{Dir: dir}, true
	}
}

// take takes in what was found of a directory.
func (w *watch) take(ctx context.Context, f inspected) {
	of := w.looks.end(f.Dir)
	if ctx.Err() != nil {
		return
	}
	if f.Dir == w.s.Store.Tasks() {
		w.listed(f)
		return
	}
	if f.deaf != nil {
		w.warn("events", fmt.Sprintf("file events for some of the tasks are not to be had (%v): those are looked at every %v", f.deaf, w.o.Rescan))
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
		w.trouble("", "looking through the tasks: "+f.err.Error())
		return
	}
	w.scan.left = append(w.scan.left, f.dirs...)
}

// begin starts what fits, without what a rescan has found that is not at its end. For looks at what is due it waits a
// moment: one of them may be more urgent.
func (w *watch) begin(ctx context.Context) {
	if len(w.queue) == 0 || !w.looks.waited(false) {
		w.ripe = time.Time{}
	} else if w.ripe.IsZero() {
		w.ripe = time.Now().Add(settle)
	}
	if w.ripe.After(time.Now()) {
		return
	}
	w.ripe = time.Time{}
	all := w.queue
	if w.scanning() {
		found := func(l runner.Assessment) bool { return w.scan.found[l.Dir] }
		w.queue = slices.DeleteFunc(slices.Clone(all), found)
		all = slices.DeleteFunc(all, func(l runner.Assessment) bool { return !found(l) })
	} else {
		all = nil
		clear(w.scan.found)
	}
	n := len(w.running)
	w.fill(ctx)
	w.queue = append(w.queue, all...)
	w.news = w.news || len(w.running) != n
}

// inQueue reports whether a directory may run.
func (w *watch) inQueue(dir string) bool {
	return slices.ContainsFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
}

// hear takes in all that has happened so far.
func (w *watch) hear() {
	for range cap(w.fsEvents()) + 1 {
		select {
		case e, ok := <-w.fsEvents():
			if !ok {
				return
			}
			w.event(e)
		case err := <-w.fsErrors():
			w.missed(err)
		default:
			return
		}
	}
}

func (w *watch) event(e fsnotify.Event) {
	if filepath.Dir(e.Name) == w.settingsDir() {
		w.settingsEvent(filepath.Base(e.Name))
		return
	}
	if dir := w.ledgerDir(); dir != "" && filepath.Dir(e.Name) == dir {
		w.ledgerEvent(e.Name)
		return
	}
	if filepath.Dir(e.Name) == w.roadsDir() {
		w.roadEvent(e.Name)
		return
	}
	w.mark(e.Name)
}

// missed takes in an error of the events.
func (w *watch) missed(err error) {
	if errors.Is(err, fsnotify.ErrEventOverflow) {
		w.say("more happened at once than the system tells of, some events were lost: all tasks are looked at")
		w.rescan()
	} else if err != nil {
		w.trouble("", "watching: "+err.Error())
	}
}

// woke reports whether the machine slept, or its clock was set: by more than a moment, the wall clock went
// another way than the one that only counts. Nothing that was to happen at a time is certain then.
func (w *watch) woke() bool {
	now, counted := w.s.Clock().Round(0), time.Now()
	off := now.Sub(w.wall) - counted.Sub(w.counted)
	w.wall, w.counted = now, counted
	return off.Abs() > clockJump
}

// clockJump is more than any clock is put right by as it runs.
const clockJump = 5 * time.Second
