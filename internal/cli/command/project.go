package command

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
)

// TaskArgument opens the project and finds the task that the first of exactly n arguments names.
func (c *Console) TaskArgument(call *cli.Context, n int) (*app.Project, string, error) {
	if call.NArg() != n {
		return nil, "", WrongArguments(call)
	}
	p, err := c.Open(call.Context)
	if err != nil {
		return nil, "", err
	}
	dir, err := p.Find(call.Args().First())
	return p, dir, err
}

// GuardedFor runs work, in a process of its own when it may lead to hooks: those may leave something behind.
func (c *Console) GuardedFor(ctx context.Context, e hooks.Event, work func() error) error {
	p, err := c.OpenRepository()
	if err != nil {
		return work() // which says so
	}
	if !p.Hooked(e) {
		return work()
	}
	if _, err := p.InForce(ctx); err != nil {
		return err
	}
	return c.Guarded(work)
}

// ShowTask prints one task and the command that comes next.
func (c *Console) ShowTask(ctx context.Context, p *app.Project, dir string, t status.Task) error {
	if err := terminal.Show(c.Stdout, t, c.Style(c.Stdout)); err != nil {
		return err
	}
	next, err := p.Next(ctx, dir)
	if err == nil && next != "" {
		fmt.Fprintf(c.Stdout, "  %-9s %s\n", "next", next)
	}
	return err
}
