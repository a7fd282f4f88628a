package scheduler

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// room is what a watcher knows of tasks that run or could, to tell which fit beside each other. The zero value
// knows none.
type room struct {
	needs   map[string]needs // by directory
	limited map[string]limit // by directory
	kept    map[string]string
}

// needs is what a task takes up while it runs.
type needs struct {
	touches []string // globs of what it changes
	agent   string   // that it asks for
	agents  []string // who play its roles; nil: nobody has asked yet
}

// claim is a glob of what a task changes, which runs or comes first.
type claim struct{ glob, dir string }

// limit is an agent whose provider is not asked until a time, as a paused task says.
type limit struct {
	agent string
	until time.Time
}

// hold is why a task is not started now. The zero value is no reason.
type hold struct {
	why   string
	until time.Time // when it is looked at again; zero: as soon as something ends
}

// learn takes in what was found of a directory.
func (w *watch) learn(f inspected) {
	dir := f.Dir
	delete(w.room.needs, dir)
	delete(w.room.limited, dir)
	if !f.Run {
		delete(w.room.kept, dir)
		delete(w.held, dir)
		return
	}
	if w.room.needs == nil {
		w.room = room{map[string]needs{}, map[string]limit{}, map[string]string{}}
	}
	w.room.needs[dir] = needs{touches: f.touches, agent: f.Task.Pipeline.Agent}
	if f.limited != (limit{}) {
		w.room.limited[dir] = f.limited
	}
}

// agents are those that play a task's roles.
func (w *watch) agents(dir string) []string {
	n := w.room.needs[dir]
	if n.agents != nil {
		return n.agents
	}
	n.agents = []string{}
	for _, role := range pipeline.Roles() {
		c, err := w.s.Roles().Choose(role, n.agent, "")
		if err == nil && !slices.Contains(n.agents, c.Agent) { // an error is said when it is started
			n.agents = append(n.agents, c.Agent)
		}
	}
	w.room.needs[dir] = n
	return n.agents
}

// busy are the tasks that run, here or, as far as was seen, elsewhere.
func (w *watch) busy() []string {
	list := slices.Collect(maps.Keys(w.running))
	for dir := range w.held {
		if !w.running[dir] {
			list = append(list, dir)
		}
	}
	for at := range w.roads.planning {
		list = append(list, at.key())
	}
	slices.Sort(list)
	return list
}

// claims are the globs of all that run.
func (w *watch) claims() (list []claim) {
	for _, dir := range w.busy() {
		list = w.claimed(list, dir)
	}
	return list
}

func (w *watch) claimed(list []claim, dir string) []claim {
	for _, glob := range w.room.needs[dir].touches {
		if !slices.ContainsFunc(list, func(c claim) bool { return c.glob == glob }) {
			list = append(list, claim{glob, dir})
		}
	}
	return list
}

// keeps says why a task is not started now.
func (w *watch) keeps(l runner.Assessment, claims []claim) hold {
	if h := w.exhausted(l); h.why != "" {
		return h
	}
	if why := w.crowded(l); why != "" {
		return hold{why: why}
	}
	own := w.room.needs[l.Dir].touches
	for _, c := range claims {
		if glob, both := ready.Overlap(own, []string{c.glob}); both {
			return hold{why: runner.SameFiles(c.dir, glob)}
		}
	}
	return hold{}
}

// exhausted says why a task that has not begun would come to nothing: the day's budget is used up, or all its agents
// wait for their providers.
func (w *watch) exhausted(l runner.Assessment) hold {
	if l.Task.Status != trellis.Ready {
		return hold{}
	}
	if r, err := w.s.Budgets().BudgetLeft(); err == nil && r.Exhausted != nil {
		return hold{"tomorrow: " + r.Exhausted.Detail, r.Until}
	}
	if len(w.room.limited) == 0 {
		return hold{}
	}
	var first hold
	for _, agent := range w.agents(l.Dir) {
		until := w.limitedUntil(agent)
		if until.IsZero() {
			return hold{}
		}
		if first.until.IsZero() || until.Before(first.until) {
			first = hold{"the provider of " + agent, until}
		}
	}
	return first
}

// limitedUntil is when all that limits an agent is over, zero when nothing does.
func (w *watch) limitedUntil(agent string) (last time.Time) {
	for _, l := range w.room.limited {
		if l.agent == agent && l.until.After(w.s.Clock()) && l.until.After(last) {
			last = l.until
		}
	}
	return last
}

// crowded says which agent of a task works for as many others as it may.
func (w *watch) crowded(l runner.Assessment) string {
	most := w.s.Config.Limits.PerAgent
	if len(most) == 0 {
		return ""
	}
	works := map[string]int{}
	for _, dir := range w.busy() {
		for _, agent := range w.agents(dir) {
			works[agent]++
		}
	}
	for _, agent := range w.agents(l.Dir) {
		if limit, ok := most[agent]; ok && works[agent] >= limit {
			return fmt.Sprintf("%s, which works for as many tasks as it may (%d, limits.per_agent)", agent, limit)
		}
	}
	return ""
}

// keep leaves a task for later, and says once why.
func (w *watch) keep(l runner.Assessment, h hold) {
	if w.room.kept[l.Dir] != h.why {
		w.room.kept[l.Dir], w.news = h.why, true
		w.s.Tell(runner.Event{Task: filepath.Base(l.Dir), Message: filepath.Base(l.Dir) + " waits for " + h.why})
	}
	w.last[l.Dir] = runner.Result{Dir: l.Dir, Status: trellis.Waiting, Waits: []string{h.why}, Until: h.until}
	w.noted[l.Dir] = true
	if !h.until.IsZero() {
		w.calendar(l.Dir, w.real(h.until), false)
	}
}

// start runs a task beside the others.
func (w *watch) start(ctx context.Context, l runner.Assessment) {
	delete(w.room.kept, l.Dir)
	if w.noted[l.Dir] {
		delete(w.noted, l.Dir)
		delete(w.last, l.Dir)
	}
	w.running[l.Dir] = true
	w.s.TaskRunner().LastPhase(l.Dir) // of a run before
	w.enters(l.Dir, runner.Phase{Name: l.Task.Pipeline.Phase, Round: l.Task.Pipeline.Round})
	s := w.s // a reload takes another one
	go func() { w.ended <- attempt(ctx, s, l) }()
}

// stuck reports whether nothing that this watcher runs keeps any task of the queue: then only others can end the wait.
func (w *watch) stuck() bool {
	return len(w.running) == 0 && !slices.ContainsFunc(w.queue, func(l runner.Assessment) bool { return w.room.kept[l.Dir] == "" })
}
