package cli

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// guardedFor runs work, in a process of its own when it may lead to hooks: those may leave something behind.
func (a *console) guardedFor(ctx context.Context, e hooks.Event, work func() error) error {
	p, err := a.openRepository()
	if err != nil {
		return work() // which says so
	}
	if !a.hooked(p, e) {
		return work()
	}
	if _, err := a.inForce(ctx, p); err != nil {
		return err
	}
	return a.Guarded(work)
}

// hooked reports whether the settings that are checked out have hooks for an event.
func (a *console) hooked(p *project, e hooks.Event) bool {
	c, _ := p.config()
	return (&hooks.Runner{Config: c.Hooks, Env: a.Env}).Any(e)
}

// hook runs the project's own commands for what this command did to the task in dir, as the settings that are in force name
// them. Hooks that fail are said; what was done is done.
func (a *console) hook(ctx context.Context, p *project, e hooks.Event, dir string) {
	if !a.hooked(p, e) {
		return
	}
	p, err := a.inForce(ctx, p)
	if err != nil {
		a.Report(err)
		return
	}
	c, _ := p.config()
	r := hooks.Runner{Config: c.Hooks, Store: p.Store, Env: a.commandEnv(), Redact: proc.NewRedactor(a.secrets(p, c)).String,
		Marker: "hooks-" + string(e), Say: func(text string) { a.Say("%s", text) }}
	r.Run(ctx, e, dir, "")
}
