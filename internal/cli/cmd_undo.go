package cli

import (
	"fmt"
	"strconv"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func undoCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "undo",
		Usage:     "undo the last cancel, archive, rm or cleanup",
		ArgsUsage: "[N]",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "list", Usage: "list what can be undone, with numbers"}, command.JSONFlag()},
		Description: command.Manual(`N is a number from --list (default: the last one). A cancelled task returns to its previous state, or resumes
with the work done so far; an archived or removed one returns to its place; after a cleanup, branch
and worktree are restored, except for ignored files. Nothing is ever overwritten: if the place is taken, it says so.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitLocked}, "trellis undo --list", "trellis undo", "trellis undo 2"),
		Action: a.ForProject(func(c *cli.Context, p *app.Project) error {
			list, err := p.Undo().List(c.Context)
			if err != nil {
				return err
			}
			if c.Bool("list") {
				return a.Print(c.Bool("json"), numberDeeds(list), func() error { return printDeeds(a, list) })
			}
			if err := a.RequirePerson("undo"); err != nil {
				return err
			}
			n := 1
			if c.NArg() > 0 {
				if n, err = strconv.Atoi(c.Args().First()); err != nil || n < 1 {
					return app.WithHints(app.Usagef("%q is not a number of the list", c.Args().First()), "trellis undo --list")
				}
			}
			if n > len(list) {
				return app.WithHints(app.AsKind(app.ErrUnmet, fmt.Errorf("there is nothing to undo: the list has %s", text.Count(len(list), "order"))), "trellis cleanup --backups")
			}
			done, err := p.Undo().Revert(c.Context, list[n-1])
			if err != nil {
				return err
			}
			return outcome.PrintOrder(a, done, c.Bool("json"))
		}),
	}
}

// numberedDeed is an entry of undo --list --json.
type numberedDeed struct {
	N int `json:"n"`
	app.UndoEntry
}

func numberDeeds(list []app.UndoEntry) []numberedDeed {
	all := []numberedDeed{}
	for i, d := range list {
		all = append(all, numberedDeed{i + 1, d})
	}
	return all
}

func printDeeds(a *command.Console, list []app.UndoEntry) error {
	if len(list) == 0 {
		a.Say("there is nothing to undo")
		return nil
	}
	for i, d := range list {
		line := fmt.Sprintf("%2d  %s  %s %s\n    brings back %s\n", i+1, d.At.Local().Format(time.DateTime), d.Kind, d.Task, d.Brings)
		if d.Blocks != "" {
			line += "    not now: " + d.Blocks + "\n"
		}
		if _, err := fmt.Fprint(a.Stdout, trellis.Visible(line)); err != nil {
			return err
		}
	}
	return nil
}
