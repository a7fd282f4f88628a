package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/taskdir"
)

// TaskOrRun opens the project and finds the directory that the first argument names: of a task, or of the run of a file.
func (c *Console) TaskOrRun(call *cli.Context) (p *app.Project, dir string, isRun bool, err error) {
	if p, err = c.Open(call.Context); err != nil {
		return nil, "", false, err
	}
	cfg, _ := p.Config() // errors in the settings don't hide a run
	dir, err = p.Wire(call.Context, cfg, p).FileRunner().FileDir(call.Args().First())
	if !errors.Is(err, runner.ErrNoRun) {
		return p, dir, true, err
	}
	noRun := err
	if dir, err = p.Find(call.Args().First()); errors.Is(err, taskdir.ErrNotFound) && runner.IsRunID(call.Args().First()) {
		err = noRun
	}
	return p, dir, false, err
}

// ForProject returns an action that calls do with the project.
func (c *Console) ForProject(do func(call *cli.Context, p *app.Project) error) cli.ActionFunc {
	return func(call *cli.Context) error {
		p, err := c.Open(call.Context)
		if err != nil {
			return err
		}
		return do(call, p)
	}
}

// ForTask returns an action that calls do with the task that the first argument names.
func (c *Console) ForTask(do func(call *cli.Context, p *app.Project, dir string) error) cli.ActionFunc {
	return c.ForProject(func(call *cli.Context, p *app.Project) error {
		dir, err := p.Find(call.Args().First())
		if err != nil {
			return err
		}
		return do(call, p, dir)
	})
}

// Site returns the site of a project, or an error where locks don't hold.
func (c *Console) Site(call *cli.Context, p *app.Project) (*runner.Site, error) {
	if err := c.RefuseSharedDisk(call, p.Root); err != nil {
		return nil, err
	}
	return p.Site(call.Context)
}

// GuardedFor runs work. It does so in a separate process if hooks may run for e, as those may leave processes behind.
func (c *Console) GuardedFor(ctx context.Context, e hooks.Event, work func() error) error {
	p, err := c.OpenRepository()
	if err != nil {
		return work() // work reports the error
	}
	if !p.HasHooks(e) {
		return work()
	}
	if _, err := p.InForce(ctx); err != nil {
		return err
	}
	return c.Guarded(work)
}

// PrintTask prints the state of the task in a directory as one JSON document.
func (c *Console) PrintTask(p *app.Project, dir string) error {
	t, err := p.Reader().Task(dir)
	if err != nil {
		return err
	}
	return terminal.JSON(c.Stdout, t)
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
