package main

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// guardedFor runs work, in a process of its own when it may lead to hooks: those may leave something behind.
func (a *app) guardedFor(e hooks.Event, work func() error) error {
	p, err := a.openRepository()
	if err != nil {
		return work() // which says so
	}
	if c, _ := p.config(); (&hooks.Runner{Config: c.Hooks, Env: a.Env}).Any(e) {
		return a.guarded(work)
	}
	return work()
}

// hook runs the project's own commands for what this command did to the task in dir. Settings that are wrong, and hooks
// that fail, are said; what was done is done.
func (a *app) hook(ctx context.Context, p *project, c *config.Config, e hooks.Event, dir string) {
	r := hooks.Runner{Config: c.Hooks, Store: p.Store, Env: a.commandEnv(), Redact: proc.NewRedactor(a.secrets(p, c)).String,
		Marker: "hooks-" + string(e), Say: func(text string) { a.say("%s", text) }}
	r.Run(ctx, e, dir, "")
}
