package dispatch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
)

// turn is how long the watcher looks at directories before it sees what else happened. One is looked at in any case.
const turn = 5 * time.Millisecond

// scan is a rescan under way: every task directory is looked at, some in each turn of the loop.
type scan struct {
	left  []string        // directories to look at
	found map[string]bool // that may run, and wait for the rest, whatever else happens to them: the most urgent may come last
	again bool            // something was missed meanwhile
}

// rescan has every task directory looked at.
func (w *watch) rescan() {
	if len(w.scan.left) > 0 {
		w.scan.again = true
		return
	}
	w.s.shared().neighbours.Changed("")
	entries, err := os.ReadDir(w.s.Store.Tasks())
	if err != nil {
		w.trouble("", "looking through the tasks: "+err.Error())
		return
	}
	w.scan = scan{found: map[string]bool{}}
	for _, e := range entries {
		if taskName(e.Name()) && (e.IsDir() || e.Type()&os.ModeSymlink != 0) {
			w.scan.left = append(w.scan.left, filepath.Join(w.s.Store.Tasks(), e.Name()))
		}
	}
}

// lookAround looks at what is due, and with the time that is left at what a rescan still has to see.
func (w *watch) lookAround(ctx context.Context) {
	end := time.Now().Add(turn)
	w.lookAtDue(ctx, end)
	for len(w.scan.left) > 0 && time.Now().Before(end) && ctx.Err() == nil {
		dir := w.scan.left[0]
		w.scan.left = w.scan.left[1:]
		w.listen(dir)
		queued := w.inQueue(dir) // for its turn, which it keeps
		w.lookAt(ctx, dir)
		w.scan.found[dir] = w.scan.found[dir] || !queued && w.inQueue(dir)
	}
	if len(w.scan.left) == 0 && w.scan.again {
		w.rescan()
	}
}

// begin starts what fits, without what a rescan has found that is not at its end.
func (w *watch) begin(ctx context.Context) {
	all := w.queue
	if len(w.scan.left) > 0 {
		found := func(l look) bool { return w.scan.found[l.Dir] }
		w.queue = slices.DeleteFunc(slices.Clone(all), found)
		all = slices.DeleteFunc(all, func(l look) bool { return !found(l) })
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
	return slices.ContainsFunc(w.queue, func(l look) bool { return l.Dir == dir })
}

// lookAtDue looks at directories whose time has come, until end.
func (w *watch) lookAtDue(ctx context.Context, end time.Time) {
	now := time.Now()
	for dir, at := range w.due {
		if at.After(now) {
			continue
		}
		w.lookAt(ctx, dir)
		if !time.Now().Before(end) {
			return
		}
	}
}

// lookAt looks at a directory now, unless it runs.
func (w *watch) lookAt(ctx context.Context, dir string) {
	delete(w.due, dir)
	w.seen[dir] = time.Now()
	w.news = true
	if !w.running[dir] {
		w.look(ctx, dir)
	}
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
	now, counted := w.s.now().Round(0), time.Now()
	off := now.Sub(w.wall) - counted.Sub(w.counted)
	w.wall, w.counted = now, counted
	return off.Abs() > clockJump
}

// clockJump is more than any clock is put right by as it runs.
const clockJump = 5 * time.Second
