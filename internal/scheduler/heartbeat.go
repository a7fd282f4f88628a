package scheduler

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// beatPause is the shortest time between two heartbeats, however much happens. If writing one takes long, the pause is
// beatShare times that.
const (
	beatPause = time.Second
	beatShare = 50
)

// heartbeat writes watch.json, which tells others that there is a watcher and what it does.
type heartbeat struct {
	*settings
	notices  *notices
	beat     pulse.Beat
	outdated bool // something has changed since it was written
	written  time.Time
	took     time.Duration // how long writing it took
	phases   map[string]pulse.Work
}

// newHeartbeat fills in what stays the same for this process.
func newHeartbeat(c *settings, n *notices) heartbeat {
	h := runlock.Holder("", c.s.Clock())
	beat := pulse.Beat{Version: c.s.Build, Host: h.Host, PID: h.PID, Start: h.Start, Since: h.Since, Once: c.options.Once}
	return heartbeat{settings: c, notices: n, beat: beat, phases: map[string]pulse.Work{}}
}

// next returns when to write it next: soon if it is outdated, otherwise when it has to be written.
func (h *heartbeat) next() time.Time {
	if h.outdated || h.beat.Error != h.notices.trouble {
		return h.written.Add(max(beatPause, beatShare*h.took))
	}
	return h.written.Add(pulse.Every)
}

// write writes the heartbeat. Failing to do so stops nothing.
func (h *heartbeat) write(running map[string]bool, waiting []pulse.Wait) {
	h.written, h.outdated = time.Now(), false
	h.beat.At, h.beat.Parallel, h.beat.Error = h.s.Clock(), h.slots(), h.notices.trouble
	h.beat.Running, h.beat.Waiting = h.work(running), waiting
	if err := h.beat.Write(nil, h.s.Store.Root); err != nil { // no Disk: when this happens depends on the time, so it is not a step that tests count
		h.notices.warn("watch.json", "watch.json is not up to date: "+err.Error())
	}
	h.took = time.Since(h.written)
}

// setPhase records the phase that a task is in.
func (h *heartbeat) setPhase(dir string, p runner.Phase) {
	if at := h.phases[dir]; at.Since.IsZero() || at.Phase != p.Name || at.Round != p.Round {
		h.phases[dir] = pulse.Work{Task: filepath.Base(dir), Phase: p.Name, Round: p.Round, Since: h.s.Clock()}
	}
}

// work returns the tasks that run, with the phases that their runs reported.
func (h *heartbeat) work(running map[string]bool) []pulse.Work {
	list := make([]pulse.Work, 0, len(running))
	for _, dir := range slices.Sorted(maps.Keys(running)) {
		if now, ok := h.s.TaskRunner().TakeLastPhase(dir); ok {
			h.setPhase(dir, now)
		}
		list = append(list, h.phases[dir])
	}
	maps.DeleteFunc(h.phases, func(dir string, _ pulse.Work) bool { return !running[dir] })
	return list
}

// waits returns the tasks that would run, and why they don't.
func (w *watch) waits() []pulse.Wait {
	list := []pulse.Wait{}
	add := func(dir, why string, until time.Time) {
		wait := pulse.Wait{Task: filepath.Base(dir), For: why}
		if !until.IsZero() {
			wait.Until = &until
		}
		list = append(list, wait)
	}
	queued := make(map[string]bool, len(w.queue))
	for _, l := range w.queue {
		queued[l.Dir] = true
		add(l.Dir, cmp.Or(w.admission.waits[l.Dir], "room"), time.Time{})
	}
	for dir, r := range w.results.last {
		switch {
		case w.admission.tasks[dir] || queued[dir]:
		case w.waiting[dir]:
			add(dir, r.Waits.String(), time.Time{})
		case r.Until.After(w.s.Clock()):
			add(dir, cmp.Or(r.Waits.String(), "its time"), r.Until)
		case w.stalls[dir].isGivenUp():
		case (r.Status == trellis.Ready || r.Status == "") && w.notices.said[dir] != "": // "": its task.json can't be read
			why, _, _ := strings.Cut(w.notices.said[dir], "\n")
			add(dir, "somebody: "+why, time.Time{})
		}
	}
	for dir := range w.admission.held {
		if _, ok := w.schedule.due[dir]; ok {
			add(dir, "the process that holds it", time.Time{})
		}
	}
	for dir := range w.inspector.inspections {
		if w.inspector.late(dir) {
			add(dir, "its directory, which does not answer", time.Time{})
		}
	}
	for dir, s := range w.stalls {
		if s.isGivenUp() {
			add(dir, runner.GivenUp, time.Time{})
		} else if _, told := w.failed[dir]; !told {
			add(dir, "another try: its run came to nothing", s.until)
		}
	}
	for dir, f := range w.failed {
		add(dir, "another try: "+f.err.Error(), w.schedule.due[dir])
	}
	slices.SortStableFunc(list, func(a, b pulse.Wait) int { return strings.Compare(a.Task, b.Task) })
	return slices.CompactFunc(list, func(a, b pulse.Wait) bool { return a.Task == b.Task })
}
