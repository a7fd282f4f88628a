package scheduler

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// place puts a directory that was looked at into the queue, the calendar, or the list of what was said.
func (w *watch) place(f inspected) {
	dir, l := f.Dir, f.Assessment
	w.queue = slices.DeleteFunc(w.queue, func(l runner.Assessment) bool { return l.Dir == dir })
	delete(w.waiting, dir)
	delete(w.soon, dir)
	if w.noted[dir] {
		delete(w.noted, dir)
		delete(w.last, dir)
	}
	w.promote(f)
	w.learn(f)
	if len(l.Problems) == 0 {
		w.unrest.end(dir)
	}
	if f.gone {
		w.forget(dir)
		return
	}
	if f.err == nil && !l.Run {
		delete(w.failed, dir)
	}
	switch {
	case f.err != nil:
		w.fail(l, f.err)
	case len(l.Problems) > 0:
		if at := w.unrest.until(dir); !w.o.Once && time.Now().Before(at) {
			w.calendar(dir, at, false)
		} else {
			w.unrest.end(dir)
			w.warn(dir, problemText(l.Problems))
		}
		w.note(l)
	case l.Untrusted != nil:
		w.awaits(dir, l.Untrusted)
	case l.Waits != "":
		w.waiting[dir] = true
		w.tell(dir, filepath.Base(dir)+" waits for "+l.Waits)
		w.last[dir] = runner.Result{Dir: dir, Status: trellis.Waiting, Waits: []string{l.Waits}}
	case l.Run && l.At.After(w.s.Clock()):
		w.calendar(dir, w.real(l.At), l.Task.Status == trellis.Paused)
		w.last[dir] = runner.Result{Dir: dir, Status: l.Task.Status, Until: l.At}
	case l.Run && !l.Early() && w.resting(l):
		w.calendar(dir, w.rest[dir].until, true)
	case l.Run && f.held:
		w.otherwise(dir)
	case l.Run && w.leaves(f):
	case l.Run:
		if _, failing := w.failed[dir]; !failing && !w.refused(l) {
			delete(w.told, dir)
		}
		delete(w.held, dir)
		w.queue = append(w.queue, l)
	}
}

// rested is how long nobody wrote in a directory before the watcher says what is wrong with it: a task that is written one
// file after the other is not done before.
const rested = time.Second

// longUnrest is how long the watcher waits at most for a directory that is wrong to rest: one that somebody writes to all
// the time is told of too.
const longUnrest = 10 * time.Second

// unrest is since when directories that are wrong have been written to, as far as nothing was said of it.
type unrest map[string]time.Time

// until is when to say what is wrong with a directory.
func (u unrest) until(dir string) time.Time {
	since, known := u[dir]
	if !known {
		since = time.Now()
		u[dir] = since
	}
	at, latest := restedAt(dir), since.Add(longUnrest)
	if latest.Before(at) {
		return latest
	}
	return at
}

// end begins anew with a directory.
func (u unrest) end(dir string) { delete(u, dir) }

// restedAt is when a directory has rested. What was written in the future has.
func restedAt(dir string) time.Time {
	var last time.Time
	now := time.Now()
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
	return last.Add(rested)
}

// gone reports whether a directory was moved or removed: archived, or taken away by git. One without a task.json is there.
func gone(dir string) bool {
	_, err := os.Stat(dir)
	return errors.Is(err, fs.ErrNotExist)
}

// forget lets go of a directory that is gone. Where its run ended belongs to the results of a watch --once.
func (w *watch) forget(dir string) {
	delete(w.seen, dir)
	delete(w.told, dir)
	delete(w.failed, dir)
	delete(w.rest, dir)
	delete(w.stalls, dir)
	w.promotion.forget(dir)
	if !w.o.Once {
		delete(w.last, dir)
	}
}

// refused reports whether a task was not started when it was tried last, as an agent could not work: that is said once,
// and not at every try.
func (w *watch) refused(l runner.Assessment) bool {
	r := w.last[l.Dir]
	if r.Failure == nil || r.Status != l.Task.Status {
		return false
	}
	code := trellis.Code(r.Failure.Code)
	return code == trellis.AgentMissing || code == trellis.AgentAuth
}

// note keeps what a task that can't run means for the end of a watch --once.
func (w *watch) note(l runner.Assessment) {
	switch {
	case l.Task == nil:
		w.last[l.Dir] = runner.Result{Dir: l.Dir}
	case l.Task.Status == trellis.Ready:
		w.last[l.Dir] = runner.Result{Dir: l.Dir, Status: trellis.Ready}
	default:
		return
	}
	w.noted[l.Dir] = true
}

// tell says something about a directory once.
func (w *watch) tell(dir, text string) { w.once(slog.LevelInfo, dir, text) }

// warn says once what somebody has to do something about.
func (w *watch) warn(dir, text string) { w.once(slog.LevelWarn, dir, text) }

func (w *watch) once(level slog.Level, dir, text string) {
	if w.told[dir] == text {
		return
	}
	w.told[dir] = text
	e := runner.Event{Level: level, Message: text}
	if filepath.IsAbs(dir) {
		e.Task = filepath.Base(dir)
	}
	w.s.Tell(e)
}

func problemText(list []trellis.Problem) string {
	var b strings.Builder
	for i, p := range list {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(p.Error())
		if p.Hint != "" {
			b.WriteString("\n  next: " + p.Hint)
		}
	}
	return b.String()
}

// fill starts what fits: by priority, then by the day it was made, then by name. A task that does not fit now keeps its place, and what it
// changes: those behind it pass it by only where they are not in its way.
func (w *watch) fill(ctx context.Context) {
	now := w.s.Clock()
	slices.SortFunc(w.queue, func(a, b runner.Assessment) int { return before(a.Task, b.Task, now) })
	claims := w.claims()
	var left []runner.Assessment
	for i, l := range w.queue {
		if w.working() >= max(1, w.o.Parallel) || ctx.Err() != nil || w.looks.at(l.Dir) { // which keeps its turn
			left = append(left, w.queue[i:]...)
			break
		}
		h := w.keeps(l, claims)
		if h.why == "" {
			w.start(ctx, l)
		} else {
			w.keep(l, h)
		}
		if h.until.IsZero() {
			claims = w.claimed(claims, l.Dir)
		}
		if h.why != "" && h.until.IsZero() {
			left = append(left, l)
		}
	}
	w.queue = left
}

// before is negative when task a runs before task b.
func before(a, b *taskdir.Task, now time.Time) int {
	return cmp.Or(strings.Compare(priority(a), priority(b)), a.Made(now).Compare(b.Made(now)), strings.Compare(a.Dir, b.Dir))
}

func priority(t *taskdir.Task) string {
	if t.Priority == "" {
		return "P2"
	}
	return t.Priority
}

// attempt runs one task whose agents can work.
func attempt(ctx context.Context, s *runner.Site, l runner.Assessment) (r ran) {
	r.Assessment, r.files = l, tracesOf(l.Dir)
	defer func() { r.files.add(l.Dir, taskdir.TaskJSON) }() // which the run writes; what people saved meanwhile counts as a change
	if err := s.Roles().CheckAgents(ctx, l.Task, ""); err != nil {
		r.res, r.err = runner.Result{Dir: l.Dir, Status: l.Task.Status}, errors.Join(err, unable(s, l, err))
		return r
	}
	s.Starter().PrintAssumptions(l.Dir)
	r.res, r.err = s.TaskRunner().Run(ctx, l.Dir, runner.RunOptions{}, nil)
	if r.err != nil {
		r.Task = nil
		if t, err := s.Store.Load(l.Dir); err == nil {
			r.Task = t
		}
	}
	return r
}

// idle reports whether nothing runs, nothing is queued, and nothing will be looked at soon.
func (w *watch) idle() bool {
	if len(w.running) > 0 || w.pulls.asking || !w.stuck() || !w.roadsIdle() || w.scanning() || w.looks.waited(false) {
		return false
	}
	for dir, at := range w.due {
		if w.looks.late(dir) {
			continue
		}
		if w.soon[dir] || time.Until(at) <= settle {
			return false
		}
	}
	return true
}

func (w *watch) results() (list []runner.Result) {
	for _, r := range w.last {
		list = append(list, r)
	}
	slices.SortFunc(list, func(a, b runner.Result) int { return strings.Compare(a.Dir, b.Dir) })
	return list
}
