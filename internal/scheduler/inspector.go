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
	inspections map[string]*inspection // by directory
	found       chan inspectionResult
	closed      chan struct{} // closed when nothing receives from found any more
}

// inspection is an inspection that is under way.
type inspection struct {
	begun time.Time
	scan  bool // a rescan waits for it
	late  bool // it takes too long: nothing waits for it any more, and its slot is free
}

const (
	maxInspections    = 4                // directories that are inspected at the same time
	lateAfter         = 5 * time.Second  // time after which an inspection is late
	inspectionTimeout = 30 * time.Second // time after which the commands of an inspection are killed
	maxLate           = 64               // number of late inspections at which no more are begun
	closeTimeout      = time.Second      // how long to wait for inspections whose commands were killed
)

func newInspector() inspector {
	return inspector{inspections: map[string]*inspection{}, found: make(chan inspectionResult), closed: make(chan struct{})}
}

// start inspects a directory that is not being inspected: it calls look in a goroutine.
func (i *inspector) start(ctx context.Context, dir string, scan bool, look func(context.Context) inspectionResult) {
	i.inspections[dir] = &inspection{begun: time.Now(), scan: scan}
	go func() {
		ctx, cancel := context.WithTimeout(ctx, inspectionTimeout)
		defer cancel()
		f := look(ctx)
		f.Dir = dir
		select {
		case i.found <- f:
		case <-i.closed:
		}
	}()
}

// finish removes an inspection that is over, and returns it.
func (i *inspector) finish(dir string) inspection {
	last := *i.inspections[dir]
	delete(i.inspections, dir)
	return last
}

// isInspecting reports whether a directory is being inspected.
func (i *inspector) isInspecting(dir string) bool { return i.inspections[dir] != nil }

// late reports whether a directory does not answer.
func (i *inspector) late(dir string) bool { return i.isInspecting(dir) && i.inspections[dir].late }

// hasSlot reports whether there is a slot for one more inspection.
func (i *inspector) hasSlot() bool {
	inTime, late := 0, 0
	for _, l := range i.inspections {
		if l.late {
			late++
		} else {
			inTime++
		}
	}
	return inTime < maxInspections && late < maxLate
}

// hasInTime reports whether there is an inspection that is not late and that a rescan waits for or, without scan, does not.
func (i *inspector) hasInTime(scan bool) bool {
	for _, l := range i.inspections {
		if !l.late && l.scan == scan {
			return true
		}
	}
	return false
}

// pending reports whether some inspection may still end by itself, since its commands have not been killed yet.
func (i *inspector) pending() bool {
	for _, l := range i.inspections {
		if time.Since(l.begun) < inspectionTimeout+closeTimeout {
			return true
		}
	}
	return false
}

// markLate marks the inspections that have become late, and returns their directories.
func (i *inspector) markLate() (dirs []string) {
	for dir, l := range i.inspections {
		if !l.late && time.Since(l.begun) >= lateAfter {
			l.late = true
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return dirs
}

// next returns how long it is until some inspection is late, or no longer pending.
func (i *inspector) next(most time.Duration) time.Duration {
	for _, l := range i.inspections {
		if !l.late {
			most = min(most, time.Until(l.begun.Add(lateAfter)))
		} else if left := time.Until(l.begun.Add(inspectionTimeout + closeTimeout)); left > 0 {
			most = min(most, left)
		}
	}
	return most
}

// close waits a moment for the inspections under way, whose context has ended, and abandons those that do not answer.
func (i *inspector) close() {
	defer close(i.closed)
	patience := time.After(closeTimeout)
	for i.hasInTime(true) || i.hasInTime(false) {
		select {
		case f := <-i.found:
			i.finish(f.Dir)
		case <-patience:
			return
		}
	}
}

// inspectionResult is what an inspection found.
type inspectionResult struct {
	runner.Assessment
	err       error
	gone      bool     // the directory is gone
	held      bool     // some process runs the task
	touches   []string // globs of the files that the task changes
	limited   limit
	files     fileStamps
	eventsErr error    // why there are no file events for the directory
	dirs      []string // for the folder of tasks: the directories in it
}

// inspectDir assesses a task directory, updates its status, and subscribes to its events. With withStamps, it fills in files.
func inspectDir(ctx context.Context, s *runner.Site, dir string, e events, withStamps bool) (f inspectionResult) {
	f.eventsErr = e.add(dir)
	f.Assessment, f.err = s.Assessor().AssessAndUpdate(ctx, dir)
	f.gone = f.Task == nil && gone(dir)
	if f.Run || f.Elsewhere != nil {
		f.touches = s.Assessor().Touches(f.Task)
	}
	if !f.Run {
		return f
	}
	_, f.held = runner.Held(dir)
	if withStamps {
		f.files = fileStampsOf(dir)
	}
	f.limited = limitOf(dir, f.Task)
	return f
}

// limitOf returns the limit of the provider that a task waits for, the zero value if it waits for none.
func limitOf(dir string, t *taskdir.Task) (l limit) {
	if t.Status == trellis.Paused && t.Pipeline.Failure.Code == trellis.RateLimited {
		if r, fail := runner.LastFailedCall(dir); fail != nil {
			l = limit{r.Agent, t.Pipeline.ResumeAt}
		}
	}
	return l
}

// listTasks returns the task directories.
func listTasks(s *runner.Site) (f inspectionResult) {
	entries, err := os.ReadDir(s.Store.Tasks())
	f.err = err
	for _, e := range entries {
		if taskName(e.Name()) && (e.IsDir() || e.Type()&os.ModeSymlink != 0) {
			f.dirs = append(f.dirs, filepath.Join(s.Store.Tasks(), e.Name()))
		}
	}
	return f
}
