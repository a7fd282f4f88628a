package roadmap

import (
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Code is the outcome of looking for the next step. It is read by programs.
type Code string

const (
	Next     Code = "next"     // a step can start now
	Waiting  Code = "waiting"  // nothing can start until something in progress has ended
	Stuck    Code = "blocked"  // nothing can start, and nothing is in progress: a person is needed
	Complete Code = "complete" // nothing is left to do
)

// Tasks returns the status of a planned task, "" if its file can't be read; false if there is no task of that name.
type Tasks func(task string) (trellis.Status, bool)

// Decision says which step comes next, and why.
type Decision struct {
	Code Code
	Step *Step    // next: the step
	Why  string   // the reason, in a sentence
	On   []string // waiting, blocked: ids of the steps that hold up the rest
	Plan string   // waiting: the plan of the first of On; "" if its row names none
}

// Next decides what comes next by one rule: the first pending step, in the order of the document, whose dependencies are all
// done or skipped. A step also counts as done if its task is in review or completed. If tasks is nil, every plan counts as in
// progress. The roadmap must have been parsed without an error.
func (r *Roadmap) Next(tasks Tasks) Decision {
	l := r.assess(tasks)
	for i := range r.Steps {
		if l.ready(i) {
			s := &r.Steps[i]
			return Decision{Code: Next, Step: s, Why: l.nextReason(s)}
		}
	}
	return l.noStepDecision()
}

// Ready returns all steps that could start now, in the order of the document.
func (r *Roadmap) Ready(tasks Tasks) []Step {
	l := r.assess(tasks)
	var ready []Step
	for i := range r.Steps {
		if l.ready(i) {
			ready = append(ready, r.Steps[i])
		}
	}
	return ready
}

// stepState is the state of a step as far as it matters to other steps.
type stepState int

const (
	notBegun stepState = iota // not begun
	finished                  // done, skipped, or delivered by its task
	underWay                  // in progress, ends without a person
	stopped                   // does not end without a person
)

// assessment is a roadmap with the states of its steps' tasks.
type assessment struct {
	*Roadmap
	states []stepState
	why    []string // reasons for stopped and underWay
}

func (r *Roadmap) assess(tasks Tasks) *assessment {
	l := &assessment{r, make([]stepState, len(r.Steps)), make([]string, len(r.Steps))}
	for i, s := range r.Steps {
		l.states[i], l.why[i] = s.assess(tasks)
	}
	return l
}

func (s *Step) assess(tasks Tasks) (stepState, string) {
	switch s.State {
	case Pending:
		return notBegun, ""
	case Done, Skipped:
		return finished, ""
	case Blocked:
		if status, known := s.task(tasks); known && status != "" {
			return stopped, fmt.Sprintf("is blocked (plan %s, %s)", s.Plan, status)
		}
		return stopped, "is blocked"
	}
	if s.Plan == "" {
		return underWay, "is " + s.State.words()
	}
	if tasks == nil {
		return underWay, fmt.Sprintf("is %s (plan %s)", s.State.words(), s.Plan)
	}
	switch status, known := tasks(s.Plan); {
	case !known && strings.HasPrefix(s.Plan, "#"): // an issue, which is not the plan of a task here
		return underWay, fmt.Sprintf("is %s (plan %s)", s.State.words(), s.Plan)
	case !known:
		return stopped, fmt.Sprintf("is planned as %s, and there is no such task", s.Plan)
	case status == "":
		return stopped, fmt.Sprintf("is planned as %s, whose task.json can't be read", s.Plan)
	case status == trellis.Review || status == trellis.Completed:
		return finished, ""
	case status.EndedBadly():
		return stopped, fmt.Sprintf("is planned as %s, which is %s", s.Plan, status)
	default:
		return underWay, fmt.Sprintf("is %s (plan %s, %s)", s.State.words(), s.Plan, status)
	}
}

// task returns the status of the task that a step was planned as, and whether there is one.
func (s *Step) task(tasks Tasks) (trellis.Status, bool) {
	if tasks == nil || s.Plan == "" {
		return "", false
	}
	return tasks(s.Plan)
}

// ready reports whether a step is pending and all its dependencies are over.
func (l *assessment) ready(i int) bool {
	return l.states[i] == notBegun && !slices.ContainsFunc(l.Steps[i].DependsOn, func(id string) bool { return l.states[l.index[id]] != finished })
}

func (l *assessment) nextReason(s *Step) string {
	if len(s.DependsOn) == 0 {
		return "it is the first pending step and depends on none"
	}
	var over []string
	for _, id := range s.DependsOn {
		on := l.Step(id)
		state := string(on.State)
		if on.State.isInProgress() {
			state = "delivered"
		}
		over = append(over, fmt.Sprintf("%s (%s)", id, state))
	}
	return "it is the first pending step whose dependencies are done: " + strings.Join(over, ", ")
}

// noStepsReason returns the reason why there are no steps, in the words of the check.
func (r *Roadmap) noStepsReason() string {
	for _, p := range r.problems {
		return "there are no steps: " + p.Error()
	}
	return fmt.Sprintf("there are no steps: %s:1: its roadmap has no rows", File(r.Name))
}

// noStepDecision returns the decision if no step can start.
func (l *assessment) noStepDecision() Decision {
	running, stuck, pending := l.blockers()
	switch {
	case len(running) > 0:
		return Decision{Code: Waiting, On: l.ids(running), Plan: l.Steps[running[0]].Plan, Why: l.reasons(running)}
	case len(stuck) > 0:
		return Decision{Code: Stuck, On: l.ids(stuck), Why: l.reasons(stuck)}
	case pending:
		return Decision{Code: Stuck, Why: "the steps that are left wait for each other"}
	case len(l.Steps) == 0:
		return Decision{Code: Stuck, Why: l.noStepsReason()}
	}
	return Decision{Code: Complete, Why: "every step is done, delivered or skipped"}
}

// blockers returns the steps that hold up the rest: those in progress and those that are stopped, beginning with the ones that
// the first pending step waits for. pending reports whether there are pending steps.
func (l *assessment) blockers() (running, stuck []int, pending bool) {
	seen := make([]bool, len(l.Steps))
	var visit func(i int)
	visit = func(i int) {
		for stack := []int{i}; len(stack) > 0; {
			i := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if seen[i] || l.states[i] == finished {
				continue
			}
			seen[i] = true
			switch l.states[i] {
			case underWay:
				running = append(running, i)
			case stopped:
				stuck = append(stuck, i)
			default:
				for _, id := range l.Steps[i].DependsOn {
					stack = append(stack, l.index[id])
				}
			}
		}
	}
	for i := range l.Steps {
		if l.states[i] == notBegun {
			pending = true
			visit(i)
		}
	}
	for i := range l.Steps {
		visit(i)
	}
	return running, stuck, pending
}

func (l *assessment) ids(steps []int) (ids []string) {
	for _, i := range steps {
		ids = append(ids, l.Steps[i].ID)
	}
	return ids
}

func (l *assessment) reasons(steps []int) string {
	var all []string
	for _, i := range slices.Sorted(slices.Values(steps)) {
		all = append(all, fmt.Sprintf("step %s %s", l.Steps[i].ID, l.why[i]))
	}
	if len(all) > 3 {
		all = append(all[:3], fmt.Sprintf("and %d more", len(all)-3))
	}
	return strings.Join(all, ", ")
}
