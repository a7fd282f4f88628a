package cli

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// listCommand is `trellis list`.
func listCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "list",
		Usage: "show the tasks and where they stand",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "status", Aliases: []string{"s"}, Usage: "only tasks of this `STATUS`; may be given more than once"},
			&cli.BoolFlag{Name: "mine", Usage: "only tasks that I work on or made (trellis init -u NAME)"},
			&cli.BoolFlag{Name: "archived", Usage: "the archived tasks instead"},
			command.JSONFlag(),
		},
		Description: command.Manual(`Reads every task directory, the most urgent first. A task whose task.json is broken is shown with
what is wrong; planners at work are shown as planning.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis list", "trellis list --status ready --status waiting", "trellis list --json | jq '.[].id'"),
		Action: func(c *cli.Context) error {
			if c.NArg() > 0 {
				return command.WrongArguments(c)
			}
			return runList(c.Context, a, listOptions{c.StringSlice("status"), c.Bool("mine"), c.Bool("archived"), c.Bool("json")})
		},
	}
}

type listOptions struct {
	statuses             []string
	mine, archived, json bool
}

func runList(ctx context.Context, a *command.Console, o listOptions) error {
	f := status.Filter{Archived: o.archived}
	for _, s := range o.statuses {
		status, err := trellis.ParseStatus(s)
		if err != nil {
			return app.AsKind(app.ErrUsage, err)
		}
		f.Statuses = append(f.Statuses, status)
	}
	p, err := a.Open(ctx)
	if err != nil {
		return err
	}
	if o.mine {
		if f.Whose, err = app.Developer(p.Root); err != nil {
			return err
		}
		if f.Whose == "" {
			return app.WithHints(app.Usagef("nobody said who works here"), "trellis init -u NAME")
		}
	}
	tasks, err := p.Reader().Tasks(f)
	if err != nil {
		return err
	}
	if o.json {
		return terminal.JSON(a.Stdout, append([]status.Task{}, tasks...))
	}
	if len(tasks) == 0 {
		a.Say("no tasks")
		return nil
	}
	return terminal.Table(a.Stdout, tasks, a.Style(a.Stdout))
}
