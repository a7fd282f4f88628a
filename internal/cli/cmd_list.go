package cli

import (
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func listCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:    "list",
		Aliases: []string{"ls"},
		Usage:   "list tasks and their status",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "status", Aliases: []string{"s"}, Usage: "only tasks with this `STATUS` (repeatable)"},
			&cli.BoolFlag{Name: "mine", Usage: "only tasks that you work on or created (trellis init -u NAME)"},
			&cli.BoolFlag{Name: "archived", Usage: "list archived tasks instead"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Reads every task directory, the most urgent first. A task whose task.json is broken is shown with
what is wrong; planners at work are shown as planning.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis list", "trellis list --status ready --status waiting", "trellis list --json | jq '.[].id'"),
		Action: func(c *cli.Context) error { return runList(a, c) },
	}
}

func runList(a *command.Console, c *cli.Context) error {
	f := status.Filter{Archived: c.Bool("archived")}
	for _, s := range c.StringSlice("status") {
		status, err := trellis.ParseStatus(s)
		if err != nil {
			return app.WithNearest(app.AsKind(app.ErrUsage, err), s, trellis.Strings(trellis.Statuses))
		}
		f.Statuses = append(f.Statuses, status)
	}
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	if c.Bool("mine") {
		if f.Whose, err = app.Developer(p.Root); err != nil {
			return err
		}
		if f.Whose == "" {
			return app.WithHints(app.Usagef("no user is set"), "trellis init -u NAME")
		}
	}
	tasks, err := p.Reader().Tasks(f)
	if err != nil {
		return err
	}
	if c.Bool("json") {
		return terminal.JSON(a.Stdout, append([]status.Task{}, tasks...))
	}
	if len(tasks) == 0 {
		a.Say("no tasks")
		if !f.Archived && f.Whose == "" && len(f.Statuses) == 0 {
			a.Say("next: trellis plan 'what is wanted'")
		}
		return nil
	}
	return terminal.Table(a.Stdout, tasks, a.Style(a.Stdout), time.Time{})
}
