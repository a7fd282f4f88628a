package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Progress shows long work while it happens. On a terminal each task at work has lines that are
// written over: phase, time, tokens, cost, the last thing its agent did; of a planning, its stages. Elsewhere
// there is a line for every phase, and one for the begin and the end of every call of a planning. Its methods
// may be called by several goroutines.
type Progress struct {
	w     io.Writer
	style Style
	live  bool
	now   func() time.Time

	mu     sync.Mutex
	ahead  [][]trellis.Role
	tasks  []*working // in the order in which they began
	drawn  int        // lines on the screen that are ours
	closed bool
	stop   chan struct{}
	done   chan struct{}
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
	p := &Progress{w: w, style: style, live: live, now: now, stop: make(chan struct{}), done: make(chan struct{})}
	if !live {
		close(p.done)
		return p
	}
	go p.tick()
	return p
}

// tick redraws every second, so that people see that time passes.
func (p *Progress) tick() {
	defer close(p.done)
	every := time.NewTicker(time.Second)
	defer every.Stop()
	for {
		select {
		case <-every.C:
			p.change(func() {})
		case <-p.stop:
			return
		}
	}
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
func (p *Progress) Close() {
	p.change(func() { p.tasks = nil })
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	p.mu.Unlock()
	if first {
		close(p.stop)
	}
	<-p.done
}

// change does something and draws what came of it.
func (p *Progress) change(do func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.erase()
	do()
	p.draw()
}

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

func (p *Progress) print(text string) {
	for line := range strings.SplitSeq(Safe(text), "\n") {
		fmt.Fprintln(p.w, "trellis: "+line)
	}
}

// erase takes our lines off the screen, and what the terminal itself wrote below them, such as ^C.
func (p *Progress) erase() {
	if p.drawn > 0 {
		fmt.Fprintf(p.w, "\r\x1b[%dA\x1b[J", p.drawn)
		p.drawn = 0
	}
}

func (p *Progress) draw() {
	if !p.live {
		return
	}
	width := p.style.Width - 1
	if p.style.Width == 0 {
		width = 79
	}
	var lines []string
	for _, t := range p.tasks {
		if t.stages == nil {
			lines = append(lines, fit(t.line(p.now()), width))
		} else {
			lines = append(lines, t.planning(p.now(), width, p.style.Colour)...)
		}
	}
	if len(lines) > 0 {
		fmt.Fprintln(p.w, strings.Join(lines, "\n"))
	}
	p.drawn = len(lines)
}

func (t *working) line(now time.Time) string {
	parts := []string{t.name + ": " + t.phase, seconds(now.Sub(t.since).Seconds())}
	u := t.usage()
	if u.Tokens() > 0 {
		parts = append(parts, Tokens(u.Tokens())+" tokens")
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
	r := []rune(clip(s, n))
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
