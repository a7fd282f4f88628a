package stats

import (
	"cmp"
	"encoding/json"
	"iter"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Call is a call of an agent, or an activity that ran commands of the project, for callers that do their own counting.
type Call struct {
	Phase                   string // for an agent its role
	Agent, Model            string // Agent "": commands; Model "": unknown
	Usage                   trellis.Usage
	Failed, Refused, Missed bool
	CheckSeconds            float64
	Passes, Fails           int // number of commands
}

// Run is a run of the pipeline or a planning that has ended, successfully or not. A paused one has not ended.
type Run struct {
	Planning bool
	Outcome  string       // of the pipeline: as in task.json; of a planning: the status it ended with, or failed
	Code     trellis.Code // "": it did not fail
	Took     time.Duration
	Rounds   int   // of the pipeline
	Place    Place // where the work was delivered, "" if it was not
}

// Place is where the work of a task was delivered.
type Place string

const (
	Branch      Place = "branch"
	Pushed      Place = "push"
	PullRequest Place = "pull_request"
)

// Phase is a phase of a run and its duration.
type Phase struct {
	Name string
	Took time.Duration
}

// Calls returns all calls that have ended: only those can be counted by counters that never decrease.
func (r *Record) Calls() iter.Seq[Call] {
	return func(yield func(Call) bool) {
		for _, c := range r.calls {
			if c.ended && !yield(c.Call) {
				return
			}
		}
	}
}

// Runs returns all runs that have ended.
func (r *Record) Runs() iter.Seq[Run] {
	return func(yield func(Run) bool) {
		for _, run := range r.runs {
			if done, ok := run.toRun(); ok && !yield(done) {
				return
			}
		}
	}
}

// Phases returns all finished phases of pipeline runs.
func (r *Record) Phases() iter.Seq[Phase] {
	return func(yield func(Phase) bool) {
		for _, run := range r.runs {
			for _, p := range run.phases {
				if !yield(p) {
					return
				}
			}
		}
	}
}

// toRun returns the exported form of the run, false if it has not ended.
func (r *run) toRun() (d Run, ok bool) {
	d = Run{Code: r.code, Took: elapsed(r.began, r.at), Rounds: r.rounds, Place: r.place}
	switch r.flow {
	case planner.Flow:
		d.Planning, d.Outcome = true, string(r.reportedStatus)
		if r.failCode != "" {
			d.Outcome, d.Code = string(trellis.Failed), trellis.Code(r.failCode)
		}
		return d, r.ended
	case pipeline.Flow:
		d.Outcome = string(r.end.outcome())
		if r.end == delivered && d.Place == "" {
			d.Place = Branch
		}
		return d, r.ended && r.end != open
	}
	return d, false
}

// outcome returns the outcome of a pipeline run as task.json spells it.
func (e end) outcome() trellis.Outcome {
	of := map[end]trellis.Outcome{unneeded: trellis.NoChangeNeeded, failed: trellis.OutcomeFailed, cancelled: trellis.OutcomeCancel}
	return cmp.Or(of[e], trellis.Delivered)
}

type phase struct {
	name  string
	round int
	since time.Time
}

// enterPhase processes a state that the run wrote: one phase may end with it, and another begin.
func (r *run) enterPhase(s pipeline.TaskState, c journal.Entry) {
	now := phase{s.Phase, s.Round, c.Started}
	if s.Status != trellis.InProgress {
		now = phase{}
	}
	if now.name == r.phase.name && now.round == r.phase.round {
		return // the same phase continues
	}
	r.leavePhase(c.Started)
	r.phase = now
}

// leavePhase ends the current phase, if any.
func (r *run) leavePhase(at time.Time) {
	if r.phase.name != "" {
		r.phases = append(r.phases, Phase{r.phase.name, elapsed(r.phase.since, at)})
	}
	r.phase = phase{}
}

// elapsed returns the time from one point to another, 0 if the clock was set back meanwhile.
func elapsed(from, to time.Time) time.Duration { return max(0, to.Sub(from)) }

// recordEnd records how the flow ended, if it did.
func (r *run) recordEnd(h *journal.History) {
	if !h.Ended {
		return
	}
	r.leavePhase(h.EndedAt)
	if h.End != nil {
		r.failCode = h.End.Code
	}
	var report struct{ Status trellis.Status }
	if json.Unmarshal(h.Out, &report) == nil { // else it has another format and no known status
		r.reportedStatus = report.Status
	}
}

// deliverActivity is the name of the activity that delivers the work.
const deliverActivity = "deliver"

// recordPlace records where the work was delivered.
func (r *run) recordPlace(c journal.Entry) {
	var d pipeline.Delivery
	switch {
	case !c.Done || c.Fail != nil || json.Unmarshal(c.Out, &d) != nil:
	case d.PRURL != "":
		r.place = PullRequest
	case d.Pushed:
		r.place = Pushed
	}
}
