package terminal

import (
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ShowEvent shows what another process does, by the events that every user interface gets.
func (l *Live) ShowEvent(e events.Event) {
	update := l.change
	if l.isTerminal && (e.Kind == events.Tool || e.Kind == events.Text || e.Kind == events.Usage) {
		update = l.changeLater
	}
	update(func() { l.showEvent(e) })
}

func (l *Live) showEvent(e events.Event) {
	did := agents.Event{Tool: e.Tool, Text: e.Text, Usage: e.Usage}
	switch e.Kind {
	case events.PhaseBegun:
		if e.Agent == "" { // with an agent, the event repeats the phase
			t := l.find(e.Task)
			l.showPhase(t, pipeline.TaskState{Status: trellis.InProgress, Phase: e.Phase, Round: e.Round, Usage: t.usage()})
		}
		return
	case events.StepBegun:
		t := l.find(e.Task)
		if t.last, t.wait = "step "+e.Step, nil; !l.isTerminal {
			l.print(t.name + ": step " + e.Step)
		}
		return
	case events.Tool:
		did.Kind, did.Input = agents.EventTool, e.Text
	case events.Text:
		did.Kind = agents.EventText
	case events.Notice:
		did.Kind = agents.EventNotice
	case events.Usage:
		did.Kind = agents.EventUsage
	default:
		l.showRunEvent(e.Task, e)
		return
	}
	l.showAgent(l.find(e.Task), e.Call, did)
}

// showRunEvent shows a check, a wait or an end.
func (l *Live) showRunEvent(task string, e events.Event) {
	switch e.Kind {
	case events.Checked:
		l.showCheck(l.find(task), e)
	case events.Waiting:
		l.showWait(l.find(task), *e.Wait)
	case events.Ended:
		l.removeTask(task)
		if e.Outcome != nil {
			l.print(task + ": " + e.Outcome.Summary())
		}
	}
}

// showCheck shows how a command ended. A failed one stays on a terminal, too, with the last line of what it printed.
func (l *Live) showCheck(t *activeTask, e events.Event) {
	words := e.Check.Text(e.Phase)
	t.last, t.wait = words, nil
	switch {
	case e.Check.Failed() && e.Check.Last != "":
		l.print(t.name + ": " + words + ": " + text.OneLine(e.Check.Last))
	case e.Check.Failed() || !l.isTerminal:
		l.print(t.name + ": " + words)
	}
}

// showWait shows that a run waits. It does not repeat what the state of the run says as well.
func (l *Live) showWait(t *activeTask, w events.Wait) {
	if last := t.wait; last != nil && last.For == w.For && w.For == "approval" && (w.Next == "" || w.Next == last.Next) {
		return // its state and its call say the same
	}
	if t.wait != nil && t.wait.For == w.For && w.Why == "" {
		w.Why = t.wait.Why
	}
	t.wait = &w
	switch w.For {
	case "backoff", "checks":
		l.print(t.name + ": " + w.Text(l.now()))
	case "approval":
		l.print(strings.TrimSuffix(t.name+": "+w.Text(l.now())+"; next: "+w.Next, "; next: "))
	}
}

// showWatcher shows what the tasks that a watcher does not run wait for. A task that waited and neither runs nor waits any
// more, since somebody cancelled it, leaves the screen. Without a terminal, it is printed when the watcher runs none.
func (l *Live) showWatcher(w runner.WatchState) {
	l.waits, l.idle = w.Waits, w.Idle
	l.tasks = slices.DeleteFunc(l.tasks, func(t *activeTask) bool {
		return t.wait != nil && !slices.Contains(w.Runs, t.name) && !slices.ContainsFunc(w.Waits, func(e events.Event) bool { return e.Task == t.name })
	})
	if !l.isTerminal && !w.Idle.IsZero() {
		if said := w.Words(); said != l.lastIdle {
			l.lastIdle = said
			l.print(said)
		}
	}
}
