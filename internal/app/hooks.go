package app

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// HasHooks reports whether the settings that are checked out have hooks for an event.
func (p *Project) HasHooks(e hooks.Event) bool {
	c, _ := p.Config()
	return (&hooks.Runner{Config: c.Hooks, Env: p.Env.Vars}).Any(e)
}

// Hook runs the project's own commands for an event of the task in dir, as named by the settings in force. Failed hooks are
// printed, and don't undo the event.
func (p *Project) Hook(ctx context.Context, e hooks.Event, dir string) error {
	if !p.HasHooks(e) {
		return nil
	}
	p, err := p.InForce(ctx)
	if err != nil {
		return err
	}
	c, _ := p.Config()
	r := hooks.Runner{Config: c.Hooks, Store: p.Store, Env: p.Env.CommandEnv(), Redact: proc.NewRedactor(p.Agents(c).secrets()).String,
		Marker: "hooks-" + string(e), Say: func(text string) { p.Env.say("%s", text) }}
	r.Run(ctx, e, dir, "")
	return nil
}
