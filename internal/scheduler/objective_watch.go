package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// roads is what a watcher does about objectives: it writes into them what becomes of their tasks, and plans the steps
// that can be planned of those that go on by themselves. Looking and planning happen beside the loop, all else in it.
type roads struct {
	due      time.Time // when they are looked at next; zero: nothing asks for it
	looking  bool
	took     time.Duration // to look at them
	looked   chan lookedAt
	ready    []road          // steps to plan, as far as is known
	planning map[road]bool   // under way here
	resting  map[road]repose // not planned before a time
	ended    chan planned
	wrong    map[string]error // with objectives, as they were looked at last
}

// road is a step of an objective.
type road struct{ name, step string }

func (r road) String() string { return fmt.Sprintf("objective %s: step %s", r.name, r.step) }

// key is what the step is called among the directories of tasks.
func (r road) key() string { return "objective " + r.name + " " + r.step }

// repose keeps a step from being planned before its time.
type repose struct {
	until time.Time
	soon  bool // a watch --once stays for it
	times int  // that it went wrong in a row
	err   error
}

// lookedAt is what was found when all objectives were looked at.
type lookedAt struct {
	list []runner.Advance
	errs map[string]error
	err  error // of all of them
	took time.Duration
}

// planned is how the planning of a step ended.
type planned struct {
	road
	res runner.StepResult
	err error
}

func newRoads() roads {
	return roads{looked: make(chan lookedAt), ended: make(chan planned), planning: map[road]bool{}, resting: map[road]repose{}, wrong: map[string]error{}}
}

// minds reports whether this watcher works on objectives.
func (w *watch) minds() bool { return w.o.Objectives || w.s.Config.Objectives.Watch }

// remind has the objectives looked at in a moment. Where that takes long it happens more seldom.
func (w *watch) remind() {
	if w.minds() && w.roads.due.IsZero() {
		w.roads.due = time.Now().Add(max(settle, 5*w.roads.took))
	}
}

func (w *watch) roadsDir() string { return filepath.Join(w.settingsDir(), "objectives") }

// roadEvent takes in that a file of the objectives changed.
func (w *watch) roadEvent(path string) {
	if !strings.HasPrefix(filepath.Base(path), durable.TempPrefix) {
		w.remind()
	}
}

// hearRoads listens to the folder of objectives, if there is one.
func (w *watch) hearRoads() {
	if w.notify == nil {
		return
	}
	if err := w.notify.Add(w.roadsDir()); err != nil && !errors.Is(err, os.ErrNotExist) {
		w.warn("objectives", fmt.Sprintf("file events for the objectives are not to be had (%v): they are looked at every %v", err, w.o.Rescan))
	}
}

// advance looks at objectives when they are due, and plans what fits beside the tasks that run.
func (w *watch) advance(ctx context.Context) {
	r := &w.roads
	if ctx.Err() != nil || !w.minds() {
		return
	}
	if !r.due.IsZero() && !r.looking && !r.due.After(time.Now()) {
		r.due, r.looking = time.Time{}, true
		s := w.s // a reload takes another one
		go func() { r.looked <- lookAtRoads(ctx, s) }()
	}
	var left []road
	for _, at := range r.ready {
		switch {
		case r.planning[at], r.resting[at].until.After(time.Now()):
		case r.looking, w.working() >= max(1, w.o.Parallel), w.tight(at):
			left = append(left, at)
		case w.spent(at):
		default:
			w.planRoad(ctx, at)
		}
	}
	r.ready = left
}

// working is how many slots are taken.
func (w *watch) working() int { return len(w.running) + len(w.roads.planning) }

// spent reports whether the day's budget is used up; then the step rests until that changes.
func (w *watch) spent(at road) bool {
	r, err := w.s.Budgets().BudgetLeft()
	if err != nil || r.Exhausted == nil {
		return false
	}
	w.tell(at.key(), at.String()+" is planned tomorrow: "+r.Exhausted.Detail)
	w.roads.resting[at] = repose{until: w.real(r.Until)}
	w.last[at.key()] = runner.Result{Dir: w.roadFile(at), Status: trellis.Waiting, Waits: []string{r.Exhausted.Detail}, Until: r.Until}
	return true
}

// tight reports whether a step has to wait for agents that work for others.
func (w *watch) tight(at road) bool {
	if len(w.s.Config.Limits.PerAgent) == 0 {
		return false
	}
	w.learnRoad(at)
	return w.crowded(runner.Assessment{Dir: at.key()}) != ""
}

func (w *watch) roadFile(at road) string { return filepath.Join(w.roadsDir(), at.name+".md") }

// learnRoad notes who plays the roles of a planning.
func (w *watch) learnRoad(at road) {
	if w.room.needs == nil {
		w.room = room{map[string]needs{}, map[string]limit{}, map[string]string{}}
	}
	n := needs{agents: []string{}}
	for _, role := range planner.Roles() {
		if c, err := w.s.Roles().Choose(role, "", ""); err == nil && !slices.Contains(n.agents, c.Agent) {
			n.agents = append(n.agents, c.Agent)
		}
	}
	w.room.needs[at.key()] = n
}

// planRoad plans a step beside the tasks.
func (w *watch) planRoad(ctx context.Context, at road) {
	w.roads.planning[at] = true
	delete(w.last, at.key())
	w.say("%v is being planned", at)
	s, r, creator := w.s, &w.roads, w.o.Creator
	go func() {
		res, err := s.Objectives().PlanOne(ctx, at.name, runner.StepOptions{Step: at.step, Creator: creator}, false)
		r.ended <- planned{at, res, err}
	}()
}

// lookAtRoads writes into all objectives what became of their tasks, and says what comes next in each.
func lookAtRoads(ctx context.Context, s *runner.Site) (l lookedAt) {
	began := time.Now()
	defer func() { l.took = time.Since(began) }()
	l.errs = map[string]error{}
	names, err := roadmap.Names(s.Store.Root)
	if err != nil || len(names) == 0 {
		l.err = err
		return l
	}
	works, err := s.Objectives().SurveyWorks(ctx, false)
	if err != nil {
		l.err = err
		return l
	}
	for _, name := range names {
		a, err := s.Objectives().Advance(ctx, name, works, false)
		switch {
		case ctx.Err() != nil:
			return l
		case errors.Is(err, roadmap.ErrNotFound): // just removed
		case err != nil:
			l.errs[name] = err
		default:
			l.list = append(l.list, a)
		}
	}
	return l
}

// seeRoads takes in what was found of the objectives.
func (w *watch) seeRoads(l lookedAt) {
	r := &w.roads
	r.looking, r.took, r.wrong, w.news = false, l.took, l.errs, true
	if l.err != nil {
		w.trouble("objectives", "looking at the objectives: "+l.err.Error())
		r.wrong[""] = l.err
		return
	}
	delete(w.told, "objectives")
	for _, name := range slices.Sorted(maps.Keys(l.errs)) {
		w.warn("objective "+name, fmt.Sprintf("objective %s: %v", name, l.errs[name]))
	}
	r.ready = nil
	for _, a := range l.list {
		w.seeRoad(a)
	}
}

func (w *watch) seeRoad(a runner.Advance) {
	for _, c := range a.Changes {
		w.say("objective %s: step %s: %s is now %q: %s", a.Name, c.Step, c.Cell, c.Value, c.Why)
	}
	for _, d := range a.Others {
		w.warn(road{a.Name, d.Step}.key(), fmt.Sprintf("objective %s: step %s is planned as %s, and its cell says %s", a.Name, d.Step, d.Work.Name(), d.Other))
	}
	for _, p := range a.Gone {
		w.warn(fmt.Sprintf("gone %s:%d", p.File, p.Line), fmt.Sprintf("%v: %s", &p, p.Hint))
	}
	if !a.Road.Auto {
		return
	}
	for _, step := range a.Ready {
		w.roads.ready = append(w.roads.ready, road{a.Name, step.ID})
	}
	if code := a.Decision.Code; code == roadmap.Stuck || code == roadmap.Complete {
		w.tell("objective "+a.Name, fmt.Sprintf("objective %s: %s: %s", a.Name, code, a.Decision.Why))
	}
}

// endRoad takes in how the planning of a step ended.
func (w *watch) endRoad(p planned) {
	r := &w.roads
	delete(r.planning, p.road)
	w.news = true
	defer w.remind()
	if p.err != nil {
		w.failRoad(p)
		return
	}
	delete(r.resting, p.road)
	switch res := p.res; {
	case res.Interrupted:
	case len(res.Waits) > 0:
		until := w.real(res.Until)
		r.resting[p.road] = repose{until: until, soon: time.Until(until) <= runner.ParkAfter}
		w.last[p.key()] = runner.Result{Dir: res.Dir, Status: trellis.Paused, Waits: res.Waits, Until: res.Until, Failure: res.Failure}
	case res.Failure != nil:
		w.last[p.key()] = runner.Result{Dir: res.Dir, Status: res.Status, Failure: res.Failure}
		w.warn(p.key(), fmt.Sprintf("%v: planning %s failed: %v", p.road, res.Task, res.Failure))
	case res.Status == trellis.Rejected:
		w.last[p.key()] = runner.Result{Dir: res.Dir, Status: res.Status}
		w.warn(p.key(), fmt.Sprintf("%v: %s is rejected: %s", p.road, res.Task, res.Report.Verdict.Details))
	default:
		w.say("%v is planned as %s", p.road, res.Task)
		w.due[res.Dir] = time.Now()
	}
}

// failRoad says what went wrong with a step and has it tried again: most such things pass.
func (w *watch) failRoad(p planned) {
	r := &w.roads
	times := r.resting[p.road].times + 1
	if !errors.Is(p.err, durable.ErrHeld) { // else somebody else plans it
		w.warn(p.key(), fmt.Sprintf("%v: %v", p.road, p.err))
	}
	wait := min(time.Second<<min(times-1, 5), 30*time.Second)
	r.resting[p.road] = repose{time.Now().Add(wait), times <= tries, times, p.err}
}

// nextRoad is when something about objectives is to be done.
func (w *watch) nextRoad() (next time.Time) {
	take := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !w.roads.looking {
		take(w.roads.due)
	}
	for _, rest := range w.roads.resting {
		if rest.until.After(time.Now()) {
			take(rest.until)
		}
	}
	return next
}

// wake has steps looked at whose time has come.
func (w *watch) wake() {
	for at, rest := range w.roads.resting {
		if !rest.until.IsZero() && !rest.until.After(time.Now()) {
			rest.until = time.Time{}
			w.roads.resting[at] = rest
			w.remind()
		}
	}
}

// roadsIdle reports whether nothing is to be done about objectives now or soon.
func (w *watch) roadsIdle() bool {
	r := &w.roads
	if !w.minds() {
		return len(r.planning) == 0 && !r.looking
	}
	if r.looking || !r.due.IsZero() || len(r.planning) > 0 || len(r.ready) > 0 {
		return false
	}
	for _, rest := range r.resting {
		if rest.soon && rest.until.After(time.Now()) {
			return false
		}
	}
	return true
}

// roadErrors are what is wrong with objectives, and stayed so.
func (w *watch) roadErrors() (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(w.roads.wrong)) {
		errs = append(errs, fmt.Errorf("objective %s: %w", name, w.roads.wrong[name]))
	}
	for _, rest := range w.roads.resting {
		if rest.err != nil && !errors.Is(rest.err, durable.ErrHeld) {
			errs = append(errs, rest.err)
		}
	}
	return errs
}
