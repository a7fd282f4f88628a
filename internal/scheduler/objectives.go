package scheduler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// objectives is what a watcher does about objectives: it writes into them what becomes of their tasks, and plans the steps
// that can be planned in those with auto_advance. Reading and planning happen in goroutines, everything else in the loop.
type objectives struct {
	*settings
	notices   *notices
	schedule  *schedule
	admission *admission
	results   *results
	at        time.Time // when they are read next; zero: not scheduled
	surveying bool
	took      time.Duration // how long reading them took
	surveys   chan objectivesSurvey
	ready     []step           // steps to plan, as far as is known
	planned   map[step]bool    // steps whose planning ended since the last reading began, which may not have seen that
	backoff   map[step]backoff // steps that are not planned before a time
	ended     chan planningOutcome
	wrong     map[string]error // errors of the last reading, by objective
}

// step is a step of an objective.
type step struct{ objective, id string }

func (s step) String() string { return fmt.Sprintf("objective %s: step %s", s.objective, s.id) }

// key returns the name of the step among the directories of tasks.
func (s step) key() string { return "objective " + s.objective + " " + s.id }

// backoff keeps a step from being planned before a time.
type backoff struct {
	until     time.Time
	onceWaits bool       // a watch --once waits for it
	times     int        // failures in a row
	asked     int        // failures after an agent was asked
	stamps    fileStamps // stamps of the objective, once agents were asked in vain too often
	err       error
}

// isGivenUp reports whether the step is not planned again unless its objective changes: agents were asked in vain as often as for
// runs that come to nothing.
func (b backoff) isGivenUp(file string) bool {
	return b.asked >= stallTries && maps.Equal(b.stamps, stampsOfFile(file))
}

// objectivesSurvey is the result of reading all objectives.
type objectivesSurvey struct {
	list []runner.Advance
	errs map[string]error
	err  error // error that concerns all of them
	took time.Duration
}

// planningOutcome is how the planning of a step ended.
type planningOutcome struct {
	step
	res runner.StepResult
	err error
}

// scheduleSurvey has the objectives read in a moment. If reading takes long, it happens less often.
func (o *objectives) scheduleSurvey() {
	if o.worksOnObjectives() && o.at.IsZero() {
		o.at = time.Now().Add(max(eventPause, 5*o.took))
	}
}

// fileChanged handles a change of a file in the folder of objectives.
func (o *objectives) fileChanged(path string) {
	if !strings.HasPrefix(filepath.Base(path), durable.TempPrefix) {
		o.scheduleSurvey()
	}
}

// advance reads the objectives when that is due, and plans the steps that fit beside the tasks that run.
func (o *objectives) advance(ctx context.Context) {
	if ctx.Err() != nil || !o.worksOnObjectives() {
		return
	}
	if !o.at.IsZero() && !o.surveying && !o.at.After(time.Now()) {
		o.at, o.surveying = time.Time{}, true
		clear(o.planned)
		s := o.s // a reload takes another one
		go func() { o.surveys <- surveyObjectives(ctx, s) }()
	}
	var left []step
	for _, at := range o.ready {
		switch {
		case o.admission.steps[at], o.backoff[at].until.After(time.Now()), o.backoff[at].isGivenUp(o.file(at)):
		case o.surveying, o.admission.full(), o.areAgentsBusy(at):
			left = append(left, at)
		case o.isBudgetSpent(at):
		default:
			o.plan(ctx, at)
		}
	}
	o.ready = left
}

// isBudgetSpent reports whether the day's budget is used up; the step then rests until the next day.
func (o *objectives) isBudgetSpent(at step) bool {
	h := o.admission.budgetHold()
	if h.why == "" {
		return false
	}
	o.notices.inform(at.key(), at.String()+" is planned tomorrow: "+h.why)
	o.backoff[at] = backoff{until: o.realTime(h.until)}
	o.results.put(at.key(), runner.Result{Dir: o.file(at), Status: trellis.Waiting, Waits: bases.Waits{{For: h.why}}, Until: h.until})
	return true
}

// file returns the path of a step's objective.
func (o *objectives) file(at step) string {
	return filepath.Join(o.objectivesDir(), at.objective+".md")
}

// areAgentsBusy reports whether a step has to wait for agents that work for others.
func (o *objectives) areAgentsBusy(at step) bool {
	o.admission.learnStep(at)
	return o.admission.busyAgent(at.key()) != ""
}

// plan plans a step in a goroutine, beside the tasks.
func (o *objectives) plan(ctx context.Context, at step) {
	o.admission.steps[at] = true
	o.results.drop(at.key())
	o.notices.say("%v is being planned", at)
	s, creator := o.s, o.options.Creator
	go func() {
		res, err := s.Objectives().PlanOne(ctx, at.objective, runner.StepOptions{Step: at.id, Creator: creator}, false)
		o.ended <- planningOutcome{at, res, err}
	}()
}

// surveyObjectives writes into all objectives what became of their tasks, and returns what comes next in each.
func surveyObjectives(ctx context.Context, s *runner.Site) (l objectivesSurvey) {
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

// take processes the result of reading the objectives.
func (o *objectives) take(l objectivesSurvey) {
	o.surveying, o.took, o.wrong = false, l.took, l.errs
	if l.err != nil {
		o.notices.fail("objectives", "looking at the objectives: "+l.err.Error())
		o.wrong[""] = l.err
		return
	}
	o.notices.forget("objectives")
	for _, name := range slices.Sorted(maps.Keys(l.errs)) {
		said := fmt.Sprintf("objective %s: %v", name, l.errs[name])
		if problems := roadmap.Problems(l.errs[name]); len(problems) > 0 {
			said = problemText(problems)
		}
		o.notices.warn("objective "+name, said)
	}
	o.ready = nil
	for _, a := range l.list {
		o.takeOne(a)
	}
}

func (o *objectives) takeOne(a runner.Advance) {
	for _, c := range a.Changes {
		o.notices.say("objective %s: step %s: %s is now %q: %s", a.Name, c.Step, c.Cell, c.Value, c.Why)
	}
	for _, d := range a.Others {
		o.notices.warn(step{a.Name, d.Step}.key(), fmt.Sprintf("objective %s: step %s is planned as %s, and its cell says %s", a.Name, d.Step, d.Work.Name(), d.Other))
	}
	for _, p := range a.Gone {
		o.notices.warn(fmt.Sprintf("gone %s:%d", p.File, p.Line), fmt.Sprintf("%v: %s", &p, p.Hint))
	}
	if !a.Road.Auto {
		return
	}
	for _, s := range a.Ready {
		if at := (step{a.Name, s.ID}); !o.planned[at] {
			o.ready = append(o.ready, at)
		}
	}
	if code := a.Decision.Code; code == roadmap.Stuck || code == roadmap.Complete {
		o.notices.inform("objective "+a.Name, fmt.Sprintf("objective %s: %s: %s", a.Name, code, a.Decision.Why))
	}
}

// end processes the end of the planning of a step.
func (o *objectives) end(p planningOutcome) {
	delete(o.admission.steps, p.step)
	o.planned[p.step] = true
	defer o.scheduleSurvey()
	if p.err != nil {
		o.fail(p)
		return
	}
	o.notices.idleSince = time.Time{}
	delete(o.backoff, p.step)
	switch res := p.res; {
	case res.Interrupted:
	case len(res.Waits) > 0:
		until := o.realTime(res.Until)
		o.backoff[p.step] = backoff{until: until, onceWaits: time.Until(until) <= runner.ParkAfter}
		o.results.put(p.key(), runner.Result{Dir: res.Dir, Status: trellis.Paused, Waits: bases.Waits{{For: strings.Join(res.Waits, ", ")}}, Until: res.Until, Failure: res.Failure})
	case res.Failure != nil:
		o.results.put(p.key(), runner.Result{Dir: res.Dir, Status: res.Status, Failure: res.Failure})
		o.notices.warn(p.key(), fmt.Sprintf("%v: planning %s failed: %v", p.step, res.Task, res.Failure))
	case res.Status == trellis.Rejected:
		o.results.put(p.key(), runner.Result{Dir: res.Dir, Status: res.Status})
		o.notices.warn(p.key(), fmt.Sprintf("%v: %s is rejected: %s", p.step, res.Task, res.Report.Verdict.Details))
	default:
		o.notices.say("%v is planned as %s", p.step, res.Task)
		o.schedule.putNow(res.Dir)
	}
}

// fail reports an error with a step and has it tried again, since most such errors pass. But agents are not asked without end.
func (o *objectives) fail(p planningOutcome) {
	rest := o.backoff[p.step]
	if rest.times, rest.err = rest.times+1, p.err; p.res.Asked {
		rest.asked++
	}
	rest.until = time.Now().Add(min(time.Second<<min(rest.times-1, 5), 30*time.Second))
	rest.onceWaits = rest.times <= tries
	switch what := errorText(p.err); {
	case p.res.Asked && rest.asked >= stallTries:
		rest.until, rest.stamps = time.Time{}, stampsOfFile(o.file(p.step))
		o.notices.warn(p.key(), fmt.Sprintf("%v: its planning asked agents %d times and came to nothing: %s; it is planned again when the file of the objective changes\nnext: trellis objective plan %s --step %s", p.step, rest.asked, what, trellis.ShellWord(p.objective), trellis.ShellWord(p.id)))
	case !errors.Is(p.err, durable.ErrHeld): // otherwise another process plans it
		o.notices.warn(p.key(), fmt.Sprintf("%v: %s", p.step, what))
	}
	o.backoff[p.step] = rest
}

// next returns when something is to be done about objectives; zero: not scheduled.
func (o *objectives) next() (next time.Time) {
	take := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if !o.surveying {
		take(o.at)
	}
	for _, rest := range o.backoff {
		if rest.until.After(time.Now()) {
			take(rest.until)
		}
	}
	return next
}

// wake has the objectives read if the time of a step has come.
func (o *objectives) wake() {
	for at, rest := range o.backoff {
		if !rest.until.IsZero() && !rest.until.After(time.Now()) {
			rest.until = time.Time{}
			o.backoff[at] = rest
			o.scheduleSurvey()
		}
	}
}

// idle reports whether nothing is to be done about objectives now or soon.
func (o *objectives) idle() bool {
	if !o.worksOnObjectives() {
		return len(o.admission.steps) == 0 && !o.surveying
	}
	if o.surveying || !o.at.IsZero() || len(o.admission.steps) > 0 || len(o.ready) > 0 {
		return false
	}
	for _, rest := range o.backoff {
		if rest.onceWaits && rest.until.After(time.Now()) {
			return false
		}
	}
	return true
}

// errors returns the errors with objectives that were never resolved.
func (o *objectives) errors() (errs []error) {
	for _, name := range slices.Sorted(maps.Keys(o.wrong)) {
		errs = append(errs, fmt.Errorf("objective %s: %w", name, o.wrong[name]))
	}
	for _, rest := range o.backoff {
		if rest.err != nil && !errors.Is(rest.err, durable.ErrHeld) {
			errs = append(errs, rest.err)
		}
	}
	return errs
}
