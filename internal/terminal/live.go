// Package terminal shows people what is known of tasks and runs: tables, the lines of a log, diffs,
// and what happens while it happens.
package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Live shows what happens while it happens. On a terminal each task at work has lines that are redrawn: how far it is,
// what is done now, time, tokens, cost, or what it waits for; for a planning, its stages; and for a run of steps, a
// tree. Elsewhere it prints a line for every phase and check, for waits and ends, for the begin and the end of every
// call of a planning and of every step, and what steps print. Its methods may be called by several goroutines.
type Live struct {
	screen
	now         func() time.Time
	stages      [][]trellis.Role
	tasks       []*activeTask  // in the order in which they began
	waits       []events.Event // of a watcher: tasks that wait and do not run
	idle        time.Time      // since when a watcher has had nothing to do; zero: it is busy, or there is none
	tree        *tree          // nil: no run of steps is followed
	lastIdle    string         // the last message about a watcher that has nothing to do
	stopResizes func()         // stops the notification of resizes; nil: there is none
}

// activeTask is a task at work.
type activeTask struct {
	name         string
	phase        string
	round        int
	began        time.Time
	earlierUsage trellis.Usage // before this phase
	calls        []*callState  // of agents in this phase
	last         string        // what is done, or was done last
	notice       string        // the last one
	wait         *events.Wait  // nil: it does not wait
	stages       [][]trellis.Role
}

// NewLive returns a Live that writes to w, with lines that are redrawn if w is a terminal. [Live.Close] must be called.
func NewLive(w io.Writer, style Style, isTerminal bool, now func() time.Time) *Live {
	l := &Live{screen: screen{w: w, style: style, isTerminal: isTerminal}, now: now}
	l.frame, l.changesWithTime = l.lines, func() bool { return len(l.tasks) > 0 || l.tree != nil }
	l.open()
	return l
}

// FollowResizes has every drawing ask for the size of the terminal, and redraws when that changes, which
// resizes reports until it is stopped.
func (l *Live) FollowResizes(size func() (width, height int), resizes func(resized func()) (stop func())) {
	l.change(func() { l.size = size })
	l.stopResizes = resizes(func() { l.change(func() {}) })
}

// ShowTimes has every line that stays begin with its time, and drops a line that repeats the one
// before: for output about tasks that people read later.
func (l *Live) ShowTimes() {
	l.change(func() { l.stamp = func() string { return l.now().Local().Format(time.TimeOnly) } })
}

// ShowRunnerEvent shows an event.
func (l *Live) ShowRunnerEvent(e runner.Event) {
	update := l.change
	if agent := e.Agent.Kind != "" && e.Agent.Kind != agents.EventNotice; l.isTerminal && (agent || e.Step != nil && e.Step.Type == workflow.StepOutput && e.Step.Stream != "log") {
		update = l.changeLater // such events come faster than anybody reads
	}
	update(func() { l.show(strings.TrimPrefix(e.Task, taskdir.DraftPrefix), e) }) // a draft by its final name
}

func (l *Live) show(task string, e runner.Event) {
	switch {
	case e.Message != "":
		l.print(e.Message)
	case e.Watch != nil:
		l.showWatcher(*e.Watch)
	case e.Told != nil && l.tree == nil:
		l.showRunEvent(task, *e.Told)
	case l.tree != nil:
		if e.Step != nil { // events of steps include what their agents do
			l.tree.apply(*e.Step)
			l.printStep(*e.Step)
		}
	case e.Asked != nil:
		l.showRequest(l.find(task), e.Call, *e.Asked)
	case e.Reply != nil:
		l.showReply(l.find(task), e.Call, *e.Reply)
	case e.Step != nil:
		l.showStep(l.find(task), *e.Step)
	case e.State == nil:
		l.showAgent(l.find(task), e.Call, e.Agent)
	case e.State.Status == trellis.InProgress:
		l.showPhase(l.find(task), *e.State)
	default:
		l.showStatus(task, *e.State)
	}
}

// showStatus shows that a task has come to a status in which no process works on it.
func (l *Live) showStatus(task string, s pipeline.TaskState) {
	w := l.find(task)
	said := strings.TrimSuffix(task+": "+string(s.Status)+": "+s.Why(), ": ") + l.resumeRemark(s.ResumeAt)
	if w.wait = s.Wait(); w.wait == nil {
		l.removeTask(task)
	}
	switch {
	case s.Status == trellis.Review, s.Status == trellis.Completed: // the end of the run says more
	case s.Status == trellis.Waiting && s.Failure == nil: // so does the event of the wait
	default:
		l.print(said)
	}
}

// showPhase shows that a task is in a phase now, and what it has used in all.
func (l *Live) showPhase(t *activeTask, s pipeline.TaskState) {
	t.earlierUsage, t.calls, t.wait = s.Usage, nil, nil
	phase := s.Phase
	if s.Round > 0 {
		phase = fmt.Sprintf("%s, round %d", phase, s.Round)
	}
	if t.phase == s.Phase && t.round == s.Round {
		return
	}
	t.phase, t.round, t.last = s.Phase, s.Round, ""
	if !l.isTerminal {
		l.print(t.name + ": " + phase)
	}
}

func (l *Live) showAgent(t *activeTask, id string, e agents.Event) {
	c := t.call(id)
	t.wait = nil
	switch e.Kind {
	case agents.EventUsage:
		if e.Usage != nil {
			c.used = *e.Usage
		}
	case agents.EventTool:
		c.tools++
		c.last = strings.TrimSpace("→ " + e.Tool + " " + e.Input)
		t.last = c.last
	case agents.EventText:
		c.last, t.last = e.Text, e.Text
	case agents.EventNotice:
		if t.notice != e.Text { // every call of a planning may say the same
			t.notice = e.Text
			l.print(t.name + ": " + e.Text)
		}
	}
}

func (l *Live) showStep(t *activeTask, e workflow.Event) {
	switch {
	case e.Type == workflow.StepStarted, e.Type == workflow.StepIteration:
		t.last = "step " + e.Step
		if !l.isTerminal {
			l.print(t.name + ": step " + e.Step)
		}
	case e.Type == workflow.StepFinished && e.State == workflow.Failed:
		l.print(t.name + ": step " + e.Step + " failed: " + text.OneLine(e.Text))
	case e.Stream == "log":
		l.print(t.name + ": " + e.Text)
	case e.Type == workflow.StepOutput && strings.TrimSpace(e.Text) != "":
		text := strings.TrimSpace(e.Text)
		t.last = e.Step + ": " + text[strings.LastIndexByte(text, '\n')+1:]
	}
}

// Say prints text that stays.
func (l *Live) Say(text string) { l.change(func() { l.print(text) }) }

// End removes a task from the screen.
func (l *Live) End(task string) { l.change(func() { l.removeTask(task) }) }

func (l *Live) removeTask(task string) {
	l.tasks = slices.DeleteFunc(l.tasks, func(t *activeTask) bool { return t.name == task })
}

// Close removes from the screen everything that does not stay. Afterwards nothing is shown.
func (l *Live) Close() {
	l.close(func() { l.tasks, l.tree, l.waits, l.idle = nil, nil, nil, time.Time{} })
	if l.stopResizes != nil {
		l.stopResizes()
		l.stopResizes = nil
	}
}

func (l *Live) find(name string) *activeTask {
	for _, t := range l.tasks {
		if t.name == name {
			return t
		}
	}
	t := &activeTask{name: name, began: l.now()}
	l.tasks = append(l.tasks, t)
	return t
}

func (l *Live) lines(width int) (lines []string) {
	now := l.now()
	if l.tree != nil {
		lines = l.tree.lines(now, width, l.style)
	}
	name := 0
	for _, t := range l.tasks {
		name = max(name, text.Width(t.name))
	}
	name = min(name, max(12, width/4))
	for _, t := range l.tasks {
		if t.stages == nil {
			lines = append(lines, t.row(now, name, width, l.style.Colour))
		} else {
			lines = append(lines, t.planning(now, width, l.style.Colour)...)
		}
	}
	if room := l.style.Height - 3; l.tree == nil && l.style.Height > 0 && len(lines) > max(room, 1) {
		room = max(room, 1)
		lines = append(lines[:room:room], text.Clip(fmt.Sprintf("and %d more lines", len(lines)-room), width))
	}
	switch {
	case !l.idle.IsZero():
		lines = append(lines, Paint(text.Clip(events.IdleText(l.idle, l.waits), width), "2", l.style.Colour))
	case len(l.waits) > 0:
		lines = append(lines, Paint(text.Clip(waitingTasks(l.waits, now), width), "33", l.style.Colour))
	}
	return lines
}

func (t *activeTask) usage() trellis.Usage {
	sum := t.earlierUsage
	for _, c := range t.calls {
		sum = sum.Add(c.used)
	}
	return sum
}
