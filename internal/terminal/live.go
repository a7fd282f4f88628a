// Package terminal shows people what is known of tasks and runs: tables, the lines of a log, differences, and what
// happens while it happens.
package terminal

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Live shows what happens while it happens. On a terminal each task at work has lines that are written over: phase,
// time, tokens, cost, the last thing its agent did; of a planning, its stages; and of a run of steps, a tree. Elsewhere
// there is a line for every phase, one for the begin and the end of every call of a planning and of every step, and
// what steps print. Its methods may be called by several goroutines.
type Live struct {
	screen
	now   func() time.Time
	ahead [][]trellis.Role
	tasks []*working // in the order in which they began
	tree  *tree      // nil: no run of steps is followed
}

// working is a task at work.
type working struct {
	name   string
	phase  string
	since  time.Time
	used   trellis.Usage // by what is finished
	calls  []*call       // of agents since then
	last   string        // that an agent did
	notice string        // the last one
	stages [][]trellis.Role
}

// NewLive shows on w, which is written over when it is a terminal. [Live.Close] must be called.
func NewLive(w io.Writer, style Style, isTerminal bool, now func() time.Time) *Live {
	l := &Live{screen: screen{w: w, style: style, live: isTerminal}, now: now}
	l.frame = l.lines
	l.open()
	return l
}

// Take shows an event.
func (l *Live) Take(e runner.Event) {
	update := l.change
	if l.live && e.Step != nil && e.Step.Type == workflow.StepOutput && e.Step.Stream != "log" {
		update = l.note // output comes faster than anybody reads
	}
	update(func() { l.take(strings.TrimPrefix(e.Task, taskdir.DraftPrefix), e) }) // a draft as it is called in the end
}

func (l *Live) take(task string, e runner.Event) {
	switch {
	case e.Message != "":
		l.print(e.Message)
	case l.tree != nil:
		if e.Step != nil { // which tells what its agents do, too
			l.tree.take(*e.Step)
			l.tell(*e.Step)
		}
	case e.Asked != nil:
		l.asked(l.find(task), e.Call, *e.Asked)
	case e.Reply != nil:
		l.replied(l.find(task), e.Call, *e.Reply)
	case e.Step != nil:
		l.step(l.find(task), *e.Step)
	case e.State == nil:
		l.agent(l.find(task), e.Call, e.Agent)
	case e.State.Status == trellis.InProgress:
		l.phase(l.find(task), *e.State)
	default:
		l.end(task)
		l.print(strings.TrimSuffix(task+": "+string(e.State.Status)+": "+e.State.Why(), ": ") + l.goesOn(e.State.ResumeAt))
	}
}

// phase says that a task is in a phase now, and what it used in all.
func (l *Live) phase(t *working, s pipeline.TaskState) {
	t.used, t.calls = s.Usage, nil
	phase := s.Phase
	if s.Round > 0 {
		phase = fmt.Sprintf("%s, round %d", phase, s.Round)
	}
	if t.phase == phase {
		return
	}
	t.phase, t.since, t.last = phase, l.now(), ""
	if !l.live {
		l.print(t.name + ": " + phase)
	}
}

func (l *Live) agent(t *working, id string, e agents.Event) {
	c := t.call(id)
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

func (l *Live) step(t *working, e workflow.Event) {
	switch {
	case e.Type == workflow.StepStarted, e.Type == workflow.StepIteration:
		t.last = "step " + e.Step
		if !l.live {
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

// Say prints something that stays.
func (l *Live) Say(text string) { l.change(func() { l.print(text) }) }

// End takes a task off the screen.
func (l *Live) End(task string) { l.change(func() { l.end(task) }) }

func (l *Live) end(task string) {
	l.tasks = slices.DeleteFunc(l.tasks, func(t *working) bool { return t.name == task })
}

// Close takes everything off the screen that does not stay. After it nothing is shown.
func (l *Live) Close() { l.close(func() { l.tasks, l.tree = nil, nil }) }

func (l *Live) find(name string) *working {
	for _, t := range l.tasks {
		if t.name == name {
			return t
		}
	}
	t := &working{name: name, since: l.now()}
	l.tasks = append(l.tasks, t)
	return t
}

func (l *Live) lines(width int) (lines []string) {
	if l.tree != nil {
		lines = l.tree.lines(l.now(), width, l.style)
	}
	for _, t := range l.tasks {
		if t.stages == nil {
			lines = append(lines, fit(t.line(l.now()), width))
		} else {
			lines = append(lines, t.planning(l.now(), width, l.style.Colour)...)
		}
	}
	return lines
}

func (t *working) line(now time.Time) string {
	parts := []string{t.name + ": " + t.phase, text.Seconds(now.Sub(t.since).Seconds())}
	u := t.usage()
	if u.Tokens() > 0 {
		parts = append(parts, text.Tokens(u.Tokens())+" tokens")
	}
	if u.CostUSD != nil {
		parts = append(parts, fmt.Sprintf("$%.2f", *u.CostUSD))
	}
	if t.last != "" {
		parts = append(parts, t.last)
	}
	return strings.Join(parts, " · ")
}

func (t *working) usage() trellis.Usage {
	sum := t.used
	for _, c := range t.calls {
		sum = sum.Add(c.used)
	}
	return sum
}

// fit is s in one line of at most n columns.
func fit(s string, n int) string {
	r := []rune(text.Clip(s, n))
	for len(r) > 1 && columns(r) > n {
		r = append(r[:len(r)-2], '…')
	}
	return string(r)
}

// columns is how wide a terminal shows r, rather too much than too little.
func columns(r []rune) (n int) {
	for _, c := range r {
		switch {
		case unicode.In(c, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana), c >= 0x3000 && c < 0x3100, c >= 0xff00 && c < 0xfff0, c >= 0x1f000:
			n += 2
		default:
			n++
		}
	}
	return n
}
