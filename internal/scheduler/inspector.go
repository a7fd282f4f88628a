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

// inspector inspects task directories in goroutines beside the watcher's loop, since what it reads may not answer: a slow
// disk, a pipe, a git command that hangs. It inspects a few directories at a time, and each of them once at a time. It
// belongs to the goroutine of the loop; an inspection reports to that through found.
type inspector struct {
	under map[string]*inspection // by directory
	found chan inspected
	over  chan struct{} // closed when nothing receives from found any more
}

// inspection is an inspection that is under way.
type inspection struct {
	begun time.Time
	scan  bool // a rescan waits for it
	late  bool // it takes too long: nothing waits for it any more, and its slot is free
}

const (
	lookers   = 4                // directories that are inspected at the same time
	lookLimit = 5 * time.Second  // time after which an inspection is late
	lookEnd   = 30 * time.Second // time after which the commands of an inspection are killed
	mostLate  = 64               // number of late inspections at which no more are begun
	farewell  = time.Second      // how long to wait for inspections whose commands were killed
)

func newInspector() inspector {
	return inspector{under: map[string]*inspection{}, found: make(chan inspected), over: make(chan struct{})}
}

// begin inspects a directory that is not being inspected: it calls look in a goroutine.
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

// end removes an inspection that is over, and returns it.
func (i *inspector) end(dir string) inspection {
	last := *i.under[dir]
	delete(i.under, dir)
	return last
}

// at reports whether a directory is being inspected.
func (i *inspector) at(dir string) bool { return i.under[dir] != nil }

// late reports whether a directory does not answer.
func (i *inspector) late(dir string) bool { return i.at(dir) && i.under[dir].late }

// free reports whether there is a slot for one more inspection.
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

// waited reports whether there is an inspection that is not late and that a rescan waits for or, without scan, does not.
func (i *inspector) waited(scan bool) bool {
	for _, l := range i.under {
		if !l.late && l.scan == scan {
			return true
		}
	}
	return false
}

// pending reports whether some inspection may still end by itself, since its commands have not been killed yet.
func (i *inspector) pending() bool {
	for _, l := range i.under {
		if time.Since(l.begun) < lookEnd+farewell {
			return true
		}
	}
	return false
}

// overdue marks the inspections that have become late, and returns their directories.
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

// next returns how long it is until some inspection is late, or no longer pending.
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

// close waits a moment for the inspections under way, whose context has ended, and abandons those that do not answer.
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

// inspected is what an inspection found.
type inspected struct {
	runner.Assessment
	err     error
	gone    bool     // the directory is gone
	held    bool     // some process runs the task
	touches []string // globs of the files that the task changes
	limited limit
	files   traces
	deaf    error    // why there are no file events for the directory
	dirs    []string // for the folder of tasks: the directories in it
}

// inspect assesses a task directory, and subscribes to its events. With traced, it fills in files.
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

// limitOf returns the limit of the provider that a task waits for, the zero value if it waits for none.
func limitOf(dir string, t *taskdir.Task) (l limit) {
	if t.Status == trellis.Paused && t.Pipeline.Failure.Code == trellis.RateLimited {
		if r, fail := runner.SleepingCall(dir); fail != nil {
			l = limit{r.Agent, t.Pipeline.ResumeAt}
		}
	}
	return l
}

// list returns the task directories.
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
