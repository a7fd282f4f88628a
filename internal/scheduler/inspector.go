package scheduler

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// inspector looks at task directories beside the watcher's loop, since what a task is made of may not answer: a slow
// disk, a pipe, a command of git that hangs. It looks at a few directories at a time, and at each of them once at a
// time. It belongs to the loop's goroutine; a look reports to it through found.
type inspector struct {
	under map[string]*inspection // by directory
	found chan inspected
	over  chan struct{} // closed when nobody takes what is found any more
}

// inspection is a look that is under way.
type inspection struct {
	begun time.Time
	scan  bool // a rescan waits for it
	late  bool // it takes too long: nobody waits for it any more, and its place is another's
}

const (
	lookers   = 4                // directories that are looked at at once
	lookLimit = 5 * time.Second  // after which a look is late
	lookEnd   = 30 * time.Second // after which the commands of a look are ended
	mostLate  = 64               // looks that may be late before no more are begun
	farewell  = time.Second      // how long looks are waited for whose commands were ended
)

func newInspector() inspector {
	return inspector{under: map[string]*inspection{}, found: make(chan inspected), over: make(chan struct{})}
}

// begin has look look at a directory that nobody looks at.
func (i *inspector) begin(ctx context.Context, dir string, scan bool, look func(context.Context) inspected) {
	i.under[dir] = &inspection{begun: time.Now(), scan: scan}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, lookEnd)
		defer cancel()
		f := look(ctx)
		f.Dir = dir
		select {
		case i.found <- f:
		case <-i.over:
		}
	}()
}

// end takes in that a look is over.
func (i *inspector) end(dir string) inspection {
	last := *i.under[dir]
	delete(i.under, dir)
	return last
}

// at reports whether a directory is being looked at.
func (i *inspector) at(dir string) bool { return i.under[dir] != nil }

// late reports whether a directory does not answer.
func (i *inspector) late(dir string) bool { return i.at(dir) && i.under[dir].late }

// free reports whether there is room for one more look.
func (i *inspector) free() bool {
	inTime, late := 0, 0
	for _, l := range i.under {
		if l.late {
			late++
		} else {
			inTime++
		}
	}
	return inTime < lookers && late < mostLate
}

// waited reports whether there is a look in time that a rescan waits for, or one that it does not.
func (i *inspector) waited(scan bool) bool {
	for _, l := range i.under {
		if !l.late && l.scan == scan {
			return true
		}
	}
	return false
}

// pending reports whether some look may still come to something by itself: its commands are not ended yet.
func (i *inspector) pending() bool {
	for _, l := range i.under {
		if time.Since(l.begun) < lookEnd+farewell {
			return true
		}
	}
	return false
}

// overdue are the directories whose looks are late as of now.
func (i *inspector) overdue() (dirs []string) {
	for dir, l := range i.under {
		if !l.late && time.Since(l.begun) >= lookLimit {
			l.late = true
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// next is how long it is until some look is late, or no longer pending.
func (i *inspector) next(most time.Duration) time.Duration {
	for _, l := range i.under {
		if !l.late {
			most = min(most, time.Until(l.begun.Add(lookLimit)))
		} else if left := time.Until(l.begun.Add(lookEnd + farewell)); left > 0 {
			most = min(most, left)
		}
	}
	return most
}

// close waits a moment for the looks under way, whose context has ended, and leaves those that do not answer.
func (i *inspector) close() {
	defer close(i.over)
	patience := time.After(farewell)
	for i.waited(true) || i.waited(false) {
		select {
		case f := <-i.found:
			i.end(f.Dir)
		case <-patience:
			return
		}
	}
}

// inspected is what was found of a directory.
type inspected struct {
	runner.Assessment
	err     error
	gone    bool     // the directory is
	held    bool     // some process runs the task
	touches []string // globs of what it changes
	limited limit
	files   traces
	deaf    error    // why there are no events of it
	dirs    []string // of the folder of tasks: those in it
}

// inspect looks at a task directory, and listens to it. traced asks for files.
func inspect(ctx context.Context, s *runner.Site, dir string, e events, traced bool) (f inspected) {
	f.deaf = e.add(dir)
	f.Assessment, f.err = s.Assessor().AssessAndUpdate(ctx, dir)
	f.gone = f.Task == nil && gone(dir)
	if f.Run || f.Elsewhere != nil {
		f.touches = s.Assessor().Touches(f.Task)
	}
	if !f.Run {
		return f
	}
	_, f.held = runner.Held(dir)
	if traced {
		f.files = tracesOf(dir)
	}
	f.limited = limitOf(dir, f.Task)
	return f
}

// limitOf is what the provider of the agent that a task waits for says, the zero value when it waits for none.
func limitOf(dir string, t *taskdir.Task) (l limit) {
	if t.Status == trellis.Paused && t.Pipeline.Failure.Code == trellis.RateLimited {
		if r, fail := runner.SleepingCall(dir); fail != nil {
			l = limit{r.Agent, t.Pipeline.ResumeAt}
		}
	}
	return l
}

// list looks which directories there are.
func list(s *runner.Site) (f inspected) {
	entries, err := os.ReadDir(s.Store.Tasks())
	f.err = err
	for _, e := range entries {
		if taskName(e.Name()) && (e.IsDir() || e.Type()&os.ModeSymlink != 0) {
			f.dirs = append(f.dirs, filepath.Join(s.Store.Tasks(), e.Name()))
		}
	}
	return f
}
