package terminal

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/trellis-tasks/trellis/internal/text"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// Progress shows long work while it happens. On a terminal each task at work has lines that are
// written over: phase, time, tokens, cost, the last thing its agent did; of a planning, its stages. Elsewhere
// there is a line for every phase, and one for the begin and the end of every call of a planning. Its methods
// may be called by several goroutines.
type Progress struct {
	screen
	now   func() time.Time
	ahead [][]trellis.Role
	tasks []*working // in the order in which they began
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

// NewProgress is progress on w, which is a terminal when live. [Progress.Close] must be called.
func NewProgress(w io.Writer, style Style, live bool, now func() time.Time) *Progress {
	p := &Progress{screen: screen{w: w, style: style, live: live}, now: now}
	p.frame = p.lines
	p.open(time.Second)
	return p
}

// Phase says that a task is in a phase now. Round 0 is none. What agents used in the phase before is added up.
func (p *Progress) Phase(task, phase string, round int) {
	if round > 0 {
		phase = fmt.Sprintf("%s, round %d", phase, round)
	}
	p.change(func() {
		t := p.find(task)
		t.used, t.calls = t.usage(), nil
		if t.phase == phase {
			return
		}
		t.phase, t.since, t.last = phase, p.now(), ""
		if !p.live {
			p.print(task + ": " + phase)
		}
	})
}

// Used says what a task used in all, where somebody has counted.
func (p *Progress) Used(task string, used trellis.Usage) {
	p.change(func() {
		t := p.find(task)
		t.used, t.calls = used, nil
	})
}

// Agent says what the agent of a task does in one of its calls.
func (p *Progress) Agent(task, id string, e agents.Event) {
	p.change(func() {
		t := p.find(task)
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
				p.print(task + ": " + e.Text)
			}
		}
	})
}

// Step says what a step of a task's plan does.
func (p *Progress) Step(task string, e workflow.Event) {
	p.change(func() {
		t := p.find(task)
		switch {
		case e.Type == workflow.StepStarted, e.Type == workflow.StepIteration:
			t.last = "step " + e.Step
			if !p.live {
				p.print(task + ": step " + e.Step)
			}
		case e.Type == workflow.StepFinished && e.State == workflow.Failed:
			p.print(task + ": step " + e.Step + " failed: " + text.OneLine(e.Text))
		case e.Stream == "log":
			p.print(task + ": " + e.Text)
		case e.Type == workflow.StepOutput && strings.TrimSpace(e.Text) != "":
			text := strings.TrimSpace(e.Text)
			t.last = e.Step + ": " + text[strings.LastIndexByte(text, '\n')+1:]
		}
	})
}

// Say prints something that stays.
func (p *Progress) Say(text string) { p.change(func() { p.print(text) }) }

// End takes a task off the screen.
func (p *Progress) End(task string) {
	p.change(func() {
		for i, t := range p.tasks {
			if t.name == task {
				p.tasks = append(p.tasks[:i:i], p.tasks[i+1:]...)
				return
			}
		}
	})
}

// Close takes everything off the screen that does not stay. After it nothing is shown.
func (p *Progress) Close() { p.close(func() { p.tasks = nil }) }

func (p *Progress) find(name string) *working {
	for _, t := range p.tasks {
		if t.name == name {
			return t
		}
	}
	t := &working{name: name, since: p.now()}
	p.tasks = append(p.tasks, t)
	return t
}

// lines are what is written over.
func (p *Progress) lines(width int) (lines []string) {
	for _, t := range p.tasks {
		if t.stages == nil {
			lines = append(lines, fit(t.line(p.now()), width))
		} else {
			lines = append(lines, t.planning(p.now(), width, p.style.Colour)...)
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
