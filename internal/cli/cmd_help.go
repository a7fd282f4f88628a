package cli

import (
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func helpCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "show help for a command, or the failure codes",
		ArgsUsage: "[COMMAND... | failures]",
		Description: command.Manual(`Lists the commands, describes one of them, or, with "failures", lists every code that a run can
fail with, its meaning and what to do.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis help plan", "trellis help task create", "trellis help failures"),
		Action: func(c *cli.Context) error {
			if path := c.Args().Slice(); !slices.Equal(path, []string{"failures"}) {
				return commandline.ShowHelp(a.Stdout, program(a).Root(), path...)
			}
			return showFailures(a)
		},
	}
}

func showFailures(a *command.Console) error {
	for _, row := range trellis.Codes {
		marks := ""
		if row.Retried {
			marks = " (retried automatically)"
		}
		fmt.Fprintf(a.Stdout, "%s%s\n    %s\n    next: %s\n", row.Code, marks, row.Meaning, row.Todo)
	}
	return nil
}
