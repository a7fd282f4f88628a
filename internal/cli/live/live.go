// Package live shows on standard error what runs and plannings do while they do it.
package live

import (
	"strings"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Progress shows on Stderr what runs and plannings do while they do it.
type Progress struct{ *terminal.Progress }

// Show begins to show what happens in a site. quiet shows nothing but messages.
func Show(a *command.Console, s *runner.Site, quiet bool) *Progress {
	live := !quiet && command.IsTerminal(a.Stderr) && a.Getenv("TERM") != "dumb"
	p := &Progress{terminal.NewProgress(a.Stderr, a.Style(a.Stderr), live, a.Now)}
	s.Event = func(e runner.Event) {
		if !quiet || e.Message != "" {
			p.take(e)
		}
	}
	return p
}

func (p *Progress) take(e runner.Event) {
	task := strings.TrimPrefix(e.Task, taskdir.DraftPrefix) // as it is called in the end
	switch {
	case e.Message != "":
		p.Say(e.Message)
	case e.Asked != nil:
		p.Asked(task, e.Call, *e.Asked)
	case e.Reply != nil:
		p.Replied(task, e.Call, *e.Reply)
	case e.Step != nil:
		p.Step(task, *e.Step)
	case e.Standing == nil:
		p.Agent(task, e.Call, e.Agent)
	case e.Standing.Status == trellis.InProgress:
		p.Phase(task, e.Standing.Phase, e.Standing.Round)
		p.Used(task, e.Standing.Usage)
	default:
		p.End(task)
		p.Say(strings.TrimSuffix(task+": "+string(e.Standing.Status)+": "+e.Standing.Why(), ": ") + p.GoesOn(e.Standing.ResumeAt))
	}
}

// Stages are the roles that a planning with these options asks, as far as one can tell before the requirement
// is evaluated.
func Stages(c config.Planning, o runner.PlanOptions) [][]trellis.Role {
	if o.Quick {
		return [][]trellis.Role{{trellis.Evaluate}, {trellis.Research}, {trellis.PRD}}
	}
	list := [][]trellis.Role{{trellis.Evaluate}, {trellis.Research}, {trellis.Plan}}
	if c.TaskSpec && !o.NoTaskSpec {
		list[1] = append(list[1], trellis.TaskSpec)
	}
	if c.Judge {
		list = append(list, []trellis.Role{trellis.Judge})
	}
	return list
}
