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

// place puts a directory that was looked at into the queue, the calendar, or the list of what was said.
func (w *watch) place(f inspected) {
	dir, l := f.Dir, f.Assessment
	w.queue = slices.DeleteFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
	delete(w.waiting, dir)
	delete(w.schedule.soon, dir)
	w.results.begin(dir)
	if changed, waiting := w.promotion.promote(f); changed {
		w.objectives.remind()
		w.scan.left = append(w.scan.left, waiting...) // none is begun before all are seen
	}
	w.admission.learn(f)
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
		w.notices.passedOver(dir, l.Warnings)
	}
	switch {
	case f.err != nil:
		w.fail(l, f.err)
	case len(l.Problems) > 0:
		if at := w.settling.until(dir); !w.options.Once && w.schedule.seen[dir].Before(at) { // what was found before it rested may be mended
			w.schedule.put(dir, at, false)
		} else {
			w.settling.end(dir)
			w.notices.warn(dir, problemText(l.Problems))
		}
		w.note(l)
	case l.Elsewhere != nil:
		w.results.drop(dir)
		w.notices.inform(dir, l.Elsewhere.Error())
	case l.Untrusted != nil:
		w.awaits(dir, l.Untrusted)
	case len(l.Waits) > 0:
		w.waiting[dir] = true
		w.notices.inform(dir, filepath.Base(dir)+" waits for "+l.Waits.String())
		w.results.put(dir, runner.Result{Dir: dir, Status: trellis.Waiting, Waits: l.Waits})
	case l.Run && l.At.After(w.s.Clock()):
		w.schedule.put(dir, w.real(l.At), l.Task.Status == trellis.Paused)
		w.results.put(dir, runner.Result{Dir: dir, Status: l.Task.Status, Until: l.At})
	case l.Run && !l.Early() && w.resting(l):
		w.schedule.put(dir, w.rest[dir].until, true)
	case l.Run && f.held:
		w.retryLocked(dir)
	case l.Run && w.stalled(f):
	case l.Run:
		if _, failing := w.failed[dir]; !failing && !w.results.unable(l) {
			w.notices.over(dir)
		}
		delete(w.admission.held, dir)
		w.queue = append(w.queue, l)
	}
}

// stalled leaves a task alone whose last runs came to nothing, if nobody did anything about it since, and reports whether
// it is so.
func (w *watch) stalled(f inspected) bool {
	s, ok := w.stalls.of(f)
	switch {
	case !ok:
		return false
	case s.over():
		w.notices.warn(f.Dir, problemText(s.problems(f.Assessment)))
		w.results.note(f.Dir, runner.Result{Dir: f.Dir, Status: trellis.Ready})
		return true
	case s.until.After(time.Now()):
		w.schedule.put(f.Dir, s.until, true)
		return true
	}
	return false
}

// settleTime is how long nobody wrote in a directory before the watcher says what is wrong with it: a task that is written one
// file after the other is not done before.
const settleTime = 2 * time.Second

// longestSettling is how long the watcher waits at most for a directory that is wrong to rest: one that somebody writes to all
// the time is told of too.
const longestSettling = 10 * time.Second

// settling is since when invalid directories have been written to, as far as nothing was said of it.
type settling map[string]time.Time

// until is when to say what is wrong with a directory.
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

// end begins anew with a directory.
func (u settling) end(dir string) { delete(u, dir) }

// settledAt is when nobody has written in a directory for long enough. What was written in the future counts as settled, and one
// that was moved or removed since it was looked at is looked at again.
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
	entries, _ := os.ReadDir(dir) // what can't be listed rests
	for _, e := range entries {
		if e.Type().IsRegular() {
			newer(e.Info())
		}
	}
	return last.Add(settleTime)
}

// gone reports whether a directory was moved or removed: archived, or taken away by git. One without a task.json is there.
func gone(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// forget lets go of a directory that is gone. Where its run ended belongs to the results of a watch --once.
func (w *watch) forget(dir string) {
	delete(w.schedule.seen, dir)
	w.notices.over(dir)
	delete(w.notices.warned, dir)
	delete(w.failed, dir)
	delete(w.rest, dir)
	delete(w.stalls, dir)
	w.promotion.forget(dir)
	if !w.options.Once {
		w.results.drop(dir)
	}
}

// note keeps what a task that can't run means for the end of a watch --once.
func (w *watch) note(l runner.Assessment) {
	if l.Task == nil {
		w.results.note(l.Dir, runner.Result{Dir: l.Dir})
	} else if l.Task.Status == trellis.Ready {
		w.results.note(l.Dir, runner.Result{Dir: l.Dir, Status: trellis.Ready})
	}
}

// fill starts what fits: by priority, then by the day it was made, then by name. A task that does not fit now keeps its place, and what it
// changes: those behind it pass it by only where they are not in its way.
func (w *watch) fill(ctx context.Context) {
	now := w.s.Clock()
	slices.SortFunc(w.queue, func(a, b runner.Assessment) int { return before(a.Task, b.Task, now) })
	claims := w.admission.filesInUse()
	var left []runner.Assessment
	for i, l := range w.queue {
		if w.admission.full() || ctx.Err() != nil || w.inspector.at(l.Dir) { // which keeps its turn
			left = append(left, w.queue[i:]...)
			w.enqueue(w.queue[i:])
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

// enqueue says once of tasks that there is no room for them.
func (w *watch) enqueue(list []runner.Assessment) {
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

// postpone leaves a task for later, and says once why.
func (w *watch) postpone(l runner.Assessment, h hold) {
	if w.admission.waits[l.Dir] != h.why {
		w.admission.waits[l.Dir], w.heartbeat.news = h.why, true
		w.notices.task(l.Dir, "waits for "+h.why)
	}
	w.results.note(l.Dir, runner.Result{Dir: l.Dir, Status: trellis.Waiting, Waits: bases.Waits{{For: h.why}}, Until: h.until})
	if !h.until.IsZero() {
		w.schedule.put(l.Dir, w.real(h.until), false)
	}
}

// start runs a task beside the others.
func (w *watch) start(ctx context.Context, l runner.Assessment) {
	delete(w.admission.waits, l.Dir)
	delete(w.admission.queued, l.Dir)
	w.results.begin(l.Dir)
	w.admission.tasks[l.Dir] = true
	w.s.TaskRunner().LastPhase(l.Dir) // of a run before
	w.heartbeat.enters(l.Dir, runner.Phase{Name: l.Task.Pipeline.Phase, Round: l.Task.Pipeline.Round})
	s, full := w.s, durable.Unfit(w.failed[l.Dir].err) // a reload takes another one
	go func() { w.ended <- attempt(ctx, s, l, full) }()
}

// crowdedPause is until a task is tried again that another machine was quicker than: what ended there is known here with the next look at all.
const crowdedPause = 2 * time.Second

// before is negative when task a runs before task b.
func before(a, b *taskdir.Task, now time.Time) int {
	return cmp.Or(strings.Compare(priority(a), priority(b)), a.Made(now).Compare(b.Made(now)), strings.Compare(a.Dir, b.Dir))
}

func priority(t *taskdir.Task) string {
	return cmp.Or(t.Priority, "P2")
}

// attempt runs one task whose agents can work; full: the disk was, and agents are asked again when it has room.
func attempt(ctx context.Context, s *runner.Site, l runner.Assessment, full bool) (r ran) {
	r.Assessment, r.files = l, tracesOf(l.Dir)
	if full {
		if r.err = s.Disk.Room(l.Dir); r.err != nil {
			r.res = runner.Result{Dir: l.Dir, Status: l.Task.Status}
			return r
		}
	}
	r.begun = true
	defer func() { r.files.add(l.Dir, taskdir.TaskJSON) }() // which the run writes; what people saved meanwhile counts as a change
	if err := s.TaskRunner().CheckAgents(ctx, l.Task, ""); err != nil {
		r.res, r.err = runner.Result{Dir: l.Dir, Status: l.Task.Status}, errors.Join(err, unable(s, l, err))
		return r
	}
	s.Starter().PrintAssumptions(l.Dir)
	r.res, r.err = s.TaskRunner().Run(ctx, l.Dir, runner.RunOptions{Beside: true}, nil)
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

// settled reports whether there is nothing to do, and no look is under way that may find something.
func (w *watch) settled() bool {
	return !w.busy() && !w.scanning() && !w.inspector.waited(false)
}

// idle reports whether nothing runs, nothing is queued, and nothing is looked at or will be soon. A look that is late counts as long as
// it may come to something: the machine may be slow, and the task is what the watcher was started for.
func (w *watch) idle() bool {
	if len(w.admission.tasks) > 0 || w.pulls.asking || !w.admission.stuck(w.queue) || !w.objectives.idle() || w.scanning() || w.inspector.pending() {
		return false
	}
	return w.schedule.idle(w.inspector.late)
}
