package status

import (
	"cmp"
	"path/filepath"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// reportLine reports what a line of a log says. Phases are reported as the run writes them into task.json; for
// calls of agents, and for activities that run commands, the end is reported as well.
func (f *Feed) reportLine(name string, at *followed, l Line) {
	e := events.Event{Time: l.At, Run: l.Run, Phase: l.Activity, Round: l.Round, Step: l.Step, Call: l.ID, Agent: l.Agent, Seconds: l.Seconds, Text: l.Text, Failure: eventFailure(l.Failure)}
	e.Round = cmp.Or(e.Round, at.state.Round)
	switch l.Kind {
	case KindStart:
		f.reportStart(name, e, l)
	case KindAgent:
		f.reportAgent(name, e, *l.Event)
	case kindCheck:
		f.reportChecks(name, e, l.Checks)
		if l.Wait != nil {
			f.reportStart(name, e, l)
		}
	case KindDone:
		f.reportEnd(name, at, e, l)
	case KindEnd:
		e.Kind, e.Phase = events.Ended, ""
		e.Outcome = f.outcomeOf(at, l)
		f.emit(name, e)
	}
}

func (f *Feed) reportStart(name string, e events.Event, l Line) {
	switch {
	case l.Wait != nil:
		e.Kind, e.Wait, e.Phase = events.Waiting, l.Wait, ""
	case l.Activity == StepBegins:
		e.Kind = events.StepBegun
	case l.Agent != "":
		e.Kind = events.PhaseBegun
	default:
		return
	}
	f.emit(name, e)
	if l.unreportedTrouble != "" {
		e.Kind, e.Text = events.Notice, l.unreportedTrouble
		f.emit(name, e)
	}
}

func (f *Feed) reportAgent(name string, e events.Event, did agents.Event) {
	switch did.Kind {
	case agents.EventTool:
		e.Kind, e.Tool, e.Text = events.Tool, did.Tool, did.Input
	case agents.EventText:
		e.Kind, e.Text = events.Text, did.Text
	case agents.EventNotice:
		e.Kind, e.Text = events.Notice, did.Text
	case agents.EventUsage:
		e.Kind, e.Usage = events.Usage, did.Usage
	default:
		return
	}
	f.emit(name, e)
}

func (f *Feed) reportEnd(name string, at *followed, e events.Event, l Line) {
	f.reportChecks(name, e, l.Checks[l.reportedChecks:])
	switch {
	case l.state != nil:
		f.reportState(name, at, e, *l.state)
	case l.Activity == StepEnds:
		e.Kind = events.StepEnded
		f.emit(name, e)
	case l.isAgentCall || l.Checks != nil || l.Failure != nil:
		e.Kind = events.PhaseEnded
		f.emit(name, e)
	}
}

// reportChecks reports how commands ended.
func (f *Feed) reportChecks(name string, e events.Event, checks []events.Check) {
	e.Kind, e.Text, e.Failure = events.Checked, "", nil
	for _, c := range checks {
		e.Check, e.Seconds = &c, c.Seconds
		f.emit(name, e)
	}
}

// reportState reports a phase or a status that the run wrote into task.json.
func (f *Feed) reportState(name string, at *followed, e events.Event, s pipeline.TaskState) {
	last := at.state
	at.state = s
	e.Round, e.Seconds, e.Text, e.Phase = s.Round, 0, "", s.Phase
	switch {
	case s.Status == trellis.InProgress && (s.Phase != last.Phase || s.Round != last.Round || last.Status != s.Status):
		e.Kind = events.PhaseBegun
	case s.Wait() != nil:
		e.Kind, e.Wait = events.Waiting, s.Wait()
	default:
		return
	}
	f.emit(name, e)
}

// outcomeOf returns how a run ended, by the state that it wrote last, or by its report if it has one.
func (f *Feed) outcomeOf(at *followed, l Line) *events.Outcome {
	o := events.Outcome{Status: at.state.Status, Outcome: at.state.Outcome, Usage: at.state.Usage, Rounds: at.state.Round, Seconds: l.Seconds, Commit: at.state.Commit}
	if h, err := journal.Read(filepath.Join(at.log.Dir, taskdir.Run)); err == nil && h.Flow == pipeline.Flow {
		o = pipeline.OutcomeOf(h)
		o.Report = f.Store.Rel(filepath.Join(at.log.Dir, taskdir.Report))
	}
	o.Next = events.NextAfter(o.Status, filepath.Base(at.log.Dir))
	return &o
}

func eventFailure(f *flow.Failure) *events.Failure {
	if f == nil {
		return nil
	}
	return &events.Failure{Code: trellis.Code(f.Code), Detail: f.Detail}
}
