package main

import (
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/view"
)

// progress shows on Stderr what runs do while they do it.
type progress struct {
	*view.Progress
	mu    sync.Mutex
	roles map[string]trellis.Role // who plans, by task
}

// progress begins to show what happens in a site. quiet shows nothing but dispatch's own messages.
func (a *app) progress(s *dispatch.Site, quiet bool) *progress {
	live := !quiet && terminal(a.Stderr) && a.getenv("TERM") != "dumb"
	p := &progress{Progress: view.NewProgress(a.Stderr, a.style(a.Stderr), live, a.Now), roles: map[string]trellis.Role{}}
	s.Event = func(e dispatch.Event) {
		if !quiet || e.Message != "" {
			p.take(e)
		}
	}
	return p
}

// close ends the show and clears its lines.
func (p *progress) close() { p.Close() }

func (p *progress) take(e dispatch.Event) {
	switch {
	case e.Message != "":
		p.Say(e.Message)
	case e.Standing == nil:
		p.planning(e)
		p.Agent(e.Task, e.Agent)
	case e.Standing.Status == trellis.InProgress:
		p.Phase(e.Task, e.Standing.Phase, e.Standing.Round)
		p.Used(e.Task, e.Standing.Usage)
	default:
		p.End(e.Task)
		p.Say(strings.TrimSuffix(e.Task+": "+string(e.Standing.Status)+": "+e.Standing.Why(), ": "))
	}
}

// planning makes a phase of each role that plans: such a task is told of by its agents alone.
func (p *progress) planning(e dispatch.Event) {
	p.mu.Lock()
	changed := e.Role.Planning() && p.roles[e.Task] != e.Role
	p.roles[e.Task] = e.Role
	p.mu.Unlock()
	if changed {
		p.Phase(e.Task, string(e.Role), 0)
	}
}
