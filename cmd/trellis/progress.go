package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/view"
)

// progress shows what runs do while they do it: on a terminal one line a task that keeps changing,
// elsewhere a line for each thing that happened.
type progress struct {
	out   io.Writer
	live  bool
	width int
	now   func() time.Time
	stop  chan struct{}
	done  chan struct{}

	mu    sync.Mutex
	tasks map[string]*underway
	drawn int // lines on the terminal that are ours
}

// underway is one run.
type underway struct {
	phase   string
	round   int
	began   time.Time
	usage   trellis.Usage // of calls that ended
	call    trellis.Usage // of the one that runs
	last    string
	calling trellis.Role
}

// progress begins to show what happens in a site. quiet shows nothing but dispatch's own messages.
func (a *app) progress(s *dispatch.Site, quiet bool) *progress {
	p := &progress{out: a.Stderr, now: a.Now, tasks: map[string]*underway{}, stop: make(chan struct{}), done: make(chan struct{}), width: 80}
	if f, ok := a.Stderr.(*os.File); ok && !quiet && terminal(f) && a.getenv("TERM") != "dumb" {
		p.live = true
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 20 {
			p.width = w
		}
	}
	s.Event = func(e dispatch.Event) {
		if !quiet || e.Message != "" {
			p.take(e)
		}
	}
	go p.run()
	return p
}

// run redraws the terminal twice a second, so that the clock moves.
func (p *progress) run() {
	defer close(p.done)
	if !p.live {
		<-p.stop
		return
	}
	t := time.NewTicker(500 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-t.C:
			p.mu.Lock()
			p.draw()
			p.mu.Unlock()
		}
	}
}

// close ends the show and clears its lines.
func (p *progress) close() {
	close(p.stop)
	<-p.done
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

func (p *progress) take(e dispatch.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case e.Message != "":
		p.line("%s", e.Message)
	case e.Standing != nil:
		p.stand(e)
	default:
		p.agent(e)
	}
	if p.live {
		p.draw()
	}
}

func (p *progress) task(id string) *underway {
	if p.tasks[id] == nil {
		p.tasks[id] = &underway{began: p.now()}
	}
	return p.tasks[id]
}

func (p *progress) stand(e dispatch.Event) {
	u, st := p.task(e.Task), e.Standing
	u.usage, u.call, u.last = st.Usage, trellis.Usage{}, ""
	changed := u.phase != st.Phase || u.round != st.Round
	u.phase, u.round = st.Phase, st.Round
	switch {
	case st.Status != trellis.InProgress:
		p.line("%s", strings.TrimSuffix(fmt.Sprintf("%s: %s: %s", e.Task, st.Status, st.Why()), ": "))
		delete(p.tasks, e.Task)
	case changed && !p.live:
		p.line("%s: %s (round %d)", e.Task, st.Phase, st.Round)
	}
}

func (p *progress) agent(e dispatch.Event) {
	u := p.task(e.Task)
	if u.calling != e.Role && e.Role.Planning() {
		u.calling, u.phase, u.last = e.Role, string(e.Role), ""
		if !p.live {
			p.line("%s: %s", e.Task, e.Role)
		}
	}
	switch e.Agent.Kind {
	case agents.EventUsage:
		if e.Agent.Usage != nil {
			u.call = *e.Agent.Usage
		}
	case agents.EventTool:
		u.last = strings.TrimSpace(e.Agent.Tool + " " + e.Agent.Input)
	case agents.EventNotice:
		p.line("%s: %s", e.Task, e.Agent.Text)
	}
}

// line prints something that stays.
func (p *progress) line(format string, args ...any) {
	p.clear()
	for _, l := range strings.Split(fmt.Sprintf(format, args...), "\n") {
		fmt.Fprintf(p.out, "trellis: %s\n", l)
	}
}

func (p *progress) clear() {
	for ; p.drawn > 0; p.drawn-- {
		fmt.Fprint(p.out, "\x1b[1A\x1b[2K")
	}
}

// draw puts one line for each task in the place of those before.
func (p *progress) draw() {
	p.clear()
	for _, id := range slices.Sorted(maps.Keys(p.tasks)) {
		text := []rune(p.tasks[id].text(id, p.now()))
		fmt.Fprintln(p.out, string(text[:min(len(text), p.width-1)]))
		p.drawn++
	}
}

func (u *underway) text(id string, now time.Time) string {
	parts := []string{id, u.phase}
	if u.round > 1 {
		parts = append(parts, fmt.Sprintf("round %d", u.round))
	}
	parts = append(parts, view.Seconds(now.Sub(u.began).Seconds()))
	used := u.usage.Add(u.call)
	if used.Tokens() > 0 {
		parts = append(parts, view.Tokens(used.Tokens())+" tokens")
	}
	if used.CostUSD != nil {
		parts = append(parts, fmt.Sprintf("%.2f USD", *used.CostUSD))
	}
	if u.last != "" {
		parts = append(parts, strings.Join(strings.Fields(u.last), " "))
	}
	return strings.Join(parts, " · ")
}
