package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// admission is what a watcher knows about tasks that run and tasks that could, to decide which fit beside each other.
type admission struct {
	*settings
	tasks     map[string]bool // directories of tasks that run here
	steps     map[step]bool   // steps of objectives that are planned here
	held      map[string]int  // how often directories were found held by another process
	elsewhere map[string]bool // directories of tasks that other machines have
	needs     map[string]needs
	limited   map[string]limit
	waits     map[string]string // why a task does not fit, as it was reported
	queued    map[string]bool   // tasks that were reported as queued
}

func newAdmission(c *settings) admission {
	return admission{c, map[string]bool{}, map[step]bool{}, map[string]int{}, map[string]bool{}, map[string]needs{}, map[string]limit{}, map[string]string{}, map[string]bool{}}
}

// needs is what a task takes up while it runs.
type needs struct {
	touches []string // globs of the files that it changes
	agent   string   // agent that it asks for
	agents  []string // agents that play its roles; nil: not looked up yet
}

// fileUse is a glob of the files that a task changes which runs, or comes earlier in the queue.
type fileUse struct{ glob, dir string }

// limit is an agent whose provider is not asked before a time, according to a paused task.
type limit struct {
	agent string
	until time.Time
}

// hold is why a task is not started now. The zero value means that it may start.
type hold struct {
	why   string
	until time.Time // when it is inspected again; zero: as soon as something ends
}

// recordInspection records what an inspection found.
func (a *admission) recordInspection(f inspectionResult) {
	dir := f.Dir
	delete(a.needs, dir)
	delete(a.limited, dir)
	delete(a.elsewhere, dir)
	if f.Elsewhere != nil {
		a.elsewhere[dir] = true
		a.needs[dir] = needs{touches: f.touches, agent: f.Task.Pipeline.Agent}
	}
	if !f.Run {
		delete(a.waits, dir)
		delete(a.queued, dir)
		delete(a.held, dir)
		return
	}
	a.needs[dir] = needs{touches: f.touches, agent: f.Task.Pipeline.Agent}
	if f.limited != (limit{}) {
		a.limited[dir] = f.limited
	}
}

// learnStep records that a step of an objective is to be planned.
func (a *admission) learnStep(s step) {
	a.needs[s.key()] = needs{agents: a.s.Roles().AgentsOf(planner.Roles(), "")}
}

// noteLocked records that another process holds a directory, and returns how long to leave it alone: 250 ms, since that process
// may only be giving an order, then twice that, up to 4 s. There is no event when a lock is released.
func (a *admission) noteLocked(dir string) time.Duration {
	delay := 250 * time.Millisecond << min(a.held[dir], 4)
	a.held[dir]++
	return delay
}

// full reports whether all slots are taken.
func (a *admission) full() bool { return len(a.tasks)+len(a.steps) >= a.slots() }

// agents returns the agents that play the roles of a task or planning.
func (a *admission) agents(key string) []string {
	n := a.needs[key]
	if n.agents == nil {
		n.agents = a.s.Roles().AgentsOf(pipeline.Roles(), n.agent)
		a.needs[key] = n
	}
	return n.agents
}

// running returns the tasks and plannings that run, here or, as far as is known, elsewhere.
func (a *admission) running() []string {
	list := slices.Collect(maps.Keys(a.tasks))
	for dir := range a.held {
		if !a.tasks[dir] {
			list = append(list, dir)
		}
	}
	list = slices.AppendSeq(list, maps.Keys(a.elsewhere))
	for s := range a.steps {
		list = append(list, s.key())
	}
	slices.Sort(list)
	return list
}

// filesInUse returns the globs of everything that runs.
func (a *admission) filesInUse() (list []fileUse) {
	for _, dir := range a.running() {
		list = a.withFilesOf(list, dir)
	}
	return list
}

func (a *admission) withFilesOf(list []fileUse, dir string) []fileUse {
	for _, glob := range a.needs[dir].touches {
		if !slices.ContainsFunc(list, func(c fileUse) bool { return c.glob == glob }) {
			list = append(list, fileUse{glob, dir})
		}
	}
	return list
}

// admit returns why a task is not started now, the zero hold if it may be.
func (a *admission) admit(l runner.Assessment, claims []fileUse) hold {
	if h := a.limitHold(l); h.why != "" {
		return h
	}
	if why := a.busyAgent(l.Dir); why != "" {
		return hold{why: why}
	}
	own := a.needs[l.Dir].touches
	for _, c := range claims {
		if glob, both := ready.Overlap(own, []string{c.glob}); both {
			return hold{why: runner.SameFilesText(c.dir, glob)}
		}
	}
	return hold{}
}

// budgetHold returns what of the day's budget is used up, and until when.
func (a *admission) budgetHold() hold {
	if left, err := a.s.Budgets().BudgetLeft(); err == nil && left.Exhausted != nil {
		return hold{left.Exhausted.Detail, left.Until}
	}
	return hold{}
}

// limitHold returns why a task that has not begun would come to nothing: the day's budget is used up, or all its agents wait
// for their providers.
func (a *admission) limitHold(l runner.Assessment) hold {
	if l.Task.Status != trellis.Ready {
		return hold{}
	}
	if h := a.budgetHold(); h.why != "" {
		return hold{"tomorrow: " + h.why, h.until}
	}
	if len(a.limited) == 0 {
		return hold{}
	}
	var first hold
	for _, agent := range a.agents(l.Dir) {
		until := a.limitedUntil(agent)
		if until.IsZero() {
			return hold{}
		}
		if first.until.IsZero() || until.Before(first.until) {
			first = hold{"the provider of " + agent, until}
		}
	}
	return first
}

// limitedUntil returns when the last limit of an agent ends, zero if there is none.
func (a *admission) limitedUntil(agent string) (last time.Time) {
	for _, l := range a.limited {
		if l.agent == agent && l.until.After(a.s.Clock()) && l.until.After(last) {
			last = l.until
		}
	}
	return last
}

// busyAgent returns which agent of a task or planning already works for as many others as it may, "" if none does.
func (a *admission) busyAgent(key string) string {
	if len(a.s.Config.Limits.PerAgent) == 0 {
		return ""
	}
	var others [][]string
	for _, dir := range a.running() {
		others = append(others, a.agents(dir))
	}
	return a.s.Roles().BusyAgent(a.agents(key), others)
}

// stuck reports whether no task of a queue waits for anything that this watcher runs: then only others can end the wait.
func (a *admission) stuck(queue []runner.Assessment) bool {
	return len(a.tasks) == 0 && !slices.ContainsFunc(queue, func(l runner.Assessment) bool { return a.waits[l.Dir] == "" })
}
