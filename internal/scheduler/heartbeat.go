package scheduler

import (
	"cmp"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// beatPause is the shortest time between two beats, however much happens; where much has to be written it is
// beatShare times what that took.
const (
	beatPause = time.Second
	beatShare = 50
)

// beatAt is when the next beat is due: soon when there is news, else when it has to be.
func (w *watch) beatAt() time.Time {
	if w.news {
		return w.beaten.Add(max(beatPause, beatShare*w.beatTook))
	}
	return w.beaten.Add(pulse.Every)
}

// beat writes watch.json when it is due. What keeps it from being written stops nothing.
func (w *watch) beat() {
	if w.beatAt().After(time.Now()) {
		return
	}
	w.beaten, w.news = time.Now(), false
	w.life.At, w.life.Parallel = w.s.Clock(), w.o.Parallel
	w.life.Running, w.life.Waiting = w.work(), w.waits()
	if err := w.life.Write(nil, w.s.Store.Root); err != nil { // when it is written depends on the time: no step for tests
		w.warn("watch.json", "watch.json is not up to date: "+err.Error())
	}
	w.beatTook = time.Since(w.beaten)
}

// alive is what a watcher says of itself all the time.
func (w *watch) alive() {
	h := runlock.Holder("", w.s.Clock())
	w.life = pulse.Beat{Version: w.s.Build, Host: h.Host, PID: h.PID, Start: h.Start, Since: h.Since}
}

// enters notes the phase that a task is in.
func (w *watch) enters(dir string, p runner.Phase) {
	if at := w.phases[dir]; at.Since.IsZero() || at.Phase != p.Name || at.Round != p.Round {
		w.phases[dir] = pulse.Work{Task: filepath.Base(dir), Phase: p.Name, Round: p.Round, Since: w.s.Clock()}
	}
}

// work is what runs, with the phase that its run told.
func (w *watch) work() []pulse.Work {
	list := make([]pulse.Work, 0, len(w.running))
	for _, dir := range slices.Sorted(maps.Keys(w.running)) {
		if now, ok := w.s.TaskRunner().LastPhase(dir); ok {
			w.enters(dir, now)
		}
		list = append(list, w.phases[dir])
	}
	maps.DeleteFunc(w.phases, func(dir string, _ pulse.Work) bool { return !w.running[dir] })
	return list
}

// waits is what would run, and why it does not.
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
		add(l.Dir, w.queued(l), time.Time{})
	}
	for dir, r := range w.last {
		switch {
		case w.running[dir] || queued[dir]:
		case w.waiting[dir]:
			add(dir, strings.Join(r.Waits, ", "), time.Time{})
		case r.Until.After(w.s.Clock()):
			add(dir, cmp.Or(strings.Join(r.Waits, ", "), "its time"), r.Until)
		case w.stalls[dir].over():
		case r.Status == trellis.Ready && w.told[dir] != "":
			why, _, _ := strings.Cut(w.told[dir], "\n")
			add(dir, "somebody: "+why, time.Time{})
		}
	}
	for dir := range w.held {
		if _, ok := w.due[dir]; ok {
			add(dir, "the process that holds it", time.Time{})
		}
	}
	for dir := range w.looks.under {
		if w.looks.late(dir) {
			add(dir, "its directory, which does not answer", time.Time{})
		}
	}
	for dir, s := range w.stalls {
		if s.over() {
			add(dir, runner.GivenUp, time.Time{})
		} else {
			add(dir, "another try: its run came to nothing", s.until)
		}
	}
	for dir, f := range w.failed {
		add(dir, "another try: "+f.err.Error(), w.due[dir])
	}
	slices.SortStableFunc(list, func(a, b pulse.Wait) int { return strings.Compare(a.Task, b.Task) })
	return slices.CompactFunc(list, func(a, b pulse.Wait) bool { return a.Task == b.Task })
}

// queued is why a task that could run does not yet.
func (w *watch) queued(l runner.Assessment) string { return cmp.Or(w.room.kept[l.Dir], "room") }

// trouble says once what goes wrong, under a name, and keeps it for those who ask how the watcher is.
func (w *watch) trouble(about, text string) {
	if w.told[about] == text {
		return
	}
	w.life.Error, w.news = &pulse.Trouble{At: w.s.Clock(), Text: text}, true
	w.once(slog.LevelError, about, text)
}
