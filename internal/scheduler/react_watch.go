package scheduler

import (
	"context"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/trellis-tasks/trellis/internal/config"
)

// How often pull requests are asked about: soon as long as some check is not at its end, and ever more seldom, up to
// pullRest, while nobody answers.
const (
	pullSoon  = 2 * time.Minute
	pullEvery = 10 * time.Minute
	pullRest  = time.Hour
)

// pulls is the watcher's own look at pull requests. It runs beside the loop.
type pulls struct {
	next   time.Time // zero: at once
	asking bool
	asked  bool // once at least
	silent int  // times in a row that nobody answered
	told   map[string]bool
	ended  chan asked
}

// asked is what came of a look.
type asked struct {
	runner.Reacted
	silent bool
	notes  []string // what could not be found out
	err    error
}

// pullsDue reports whether pull requests are to be asked about by themselves: somebody works on what is wrong with them, or
// wants to hear of those that are well. A watch --once does so once.
func (w *watch) pullsDue() bool {
	hears := func(n config.Notify) bool { return slices.Contains(n.On, config.Mergeable) }
	return (w.s.Config.Delivery.React || slices.ContainsFunc(w.s.Config.Notify, hears)) && !w.pulls.asking && !(w.o.Once && w.pulls.asked)
}

// askPulls begins a look when its time has come.
func (w *watch) askPulls(ctx context.Context) {
	if !w.pullsDue() || w.pulls.next.After(time.Now()) || ctx.Err() != nil {
		return
	}
	w.pulls.asking, w.pulls.asked = true, true
	s := w.s // a reload takes another one
	go func() { w.pulls.ended <- askPulls(ctx, s) }()
}

func askPulls(ctx context.Context, s *runner.Site) (a asked) {
	seen, err := s.Remote().Pulls(ctx, "")
	a.silent, a.notes, a.err = seen.Silent, seen.Notes, err
	if err == nil {
		a.Reacted, a.err = s.React(ctx, seen.Open)
	}
	return a
}

// pullsAsked takes in what came of a look, and says when the next one is.
func (w *watch) pullsAsked(a asked) {
	w.pulls.asking = false
	every := pullEvery
	switch {
	case a.silent || a.err != nil:
		every = min(pullEvery<<w.pulls.silent, pullRest)
		w.pulls.silent = min(w.pulls.silent+1, 6)
	case a.Waits:
		every, w.pulls.silent = pullSoon, 0
	default:
		w.pulls.silent = 0
	}
	w.pulls.next = time.Now().Add(every)
	for i, dir := range a.Begun {
		w.due[dir] = time.Now()
		w.s.Tell(runner.Event{Task: filepath.Base(dir), Message: filepath.Base(dir) + " goes on, as its pull request is not well: " + a.Why[i]})
	}
	if a.err != nil {
		a.notes = append(a.notes, "looking at pull requests: "+a.err.Error())
	}
	told := map[string]bool{}
	for _, text := range append(a.notes, a.Notes...) {
		if told[text] = true; !w.pulls.told[text] {
			w.s.Tell(runner.Event{Level: slog.LevelWarn, Message: text})
		}
	}
	w.pulls.told = told
}

// pullsSoon has pull requests asked about before long: the checks of one that was just delivered begin now.
func (w *watch) pullsSoon() {
	if soon := time.Now().Add(pullSoon); w.pulls.silent == 0 && w.pulls.next.After(soon) {
		w.pulls.next = soon
	}
}
