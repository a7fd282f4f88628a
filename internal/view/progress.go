package view

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Progress shows long work while it happens. On a terminal each task at work has a line that is
// written over: phase, time, tokens, cost, the last thing its agent did. Elsewhere there is a line for every
// phase. Its methods may be called by several goroutines.
type Progress struct {
	w     io.Writer
	style Style
	live  bool
	now   func() time.Time

	mu     sync.Mutex
	tasks  []*working // in the order in which they began
	drawn  int        // lines on the screen that are ours
	closed bool
	stop   chan struct{}
	done   chan struct{}
}

// working is a task at work.
type working struct {
	name  string
	phase string
	since time.Time
	used  trellis.Usage // by what is finished
	call  trellis.Usage // by the agent at work, so far
	last  string        // that it did
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
		t.used, t.call = t.used.Add(t.call), trellis.Usage{}
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
		t.used, t.call = used, trellis.Usage{}
	})
}

// Agent says what the agent of a task does.
func (p *Progress) Agent(task string, e agents.Event) {
	p.change(func() {
		t := p.find(task)
		switch e.Kind {
		case agents.EventUsage:
			if e.Usage != nil {
				t.call = *e.Usage
			}
		case agents.EventTool:
			t.last = strings.TrimSpace("→ " + e.Tool + " " + e.Input)
		case agents.EventText:
			t.last = e.Text
		case agents.EventNotice:
			p.print(task + ": " + e.Text)
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
	for line := range strings.SplitSeq(safe(text), "\n") {
		fmt.Fprintln(p.w, "trellis: "+line)
	}
}

func (p *Progress) erase() {
	if p.drawn > 0 {
		fmt.Fprint(p.w, strings.Repeat("\x1b[1A\x1b[2K", p.drawn)+"\r")
		p.drawn = 0
	}
}

func (p *Progress) draw() {
	if !p.live {
		return
	}
	width := p.style.Width
	if width == 0 {
		width = 80
	}
	for _, t := range p.tasks {
		fmt.Fprintln(p.w, clip(t.line(p.now()), max(width-1, 20)))
	}
	p.drawn = len(p.tasks)
}

func (t *working) line(now time.Time) string {
	parts := []string{t.name + ": " + t.phase, seconds(now.Sub(t.since).Seconds())}
	u := t.used.Add(t.call)
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
