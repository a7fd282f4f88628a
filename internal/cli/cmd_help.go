package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func helpCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "help",
		Usage:     "show help for a command, or the failure codes",
		ArgsUsage: "[COMMAND... | failures]",
		Description: command.Manual(`Shows the commands, what one of them does, or, for "failures", every code that a run can
fail with, what it means and what to do.`,
			[]int{command.ExitDone, command.ExitUsage}, "trellis help plan", "trellis help task create", "trellis help failures"),
		Action: func(c *cli.Context) error {
			if path := c.Args().Slice(); !slices.Equal(path, []string{"failures"}) {
				return showHelp(a, path...)
			}
			return showFailures(a)
		},
	}
}

func showFailures(a *command.Console) error {
	for _, row := range trellis.Codes {
		marks := ""
		if row.Later {
			marks = " (*)"
		}
		if row.Retried {
			marks += " (tried again by itself)"
		}
		fmt.Fprintf(a.Stdout, "%s%s\n    %s\n    next: %s\n", row.Code, marks, row.Meaning, row.Todo)
	}
	fmt.Fprint(a.Stdout, "\n(*) nothing fails with this code in this version\n")
	return nil
}

// showHelp prints the help of the command with that path, or of trellis itself.
func showHelp(a *command.Console, path ...string) error {
	at := commandTree(a)
	for i, word := range path {
		next := find(at.Subcommands, word)
		if next == nil {
			return unknownCommand(at, path[:i], word)
		}
		at = next
	}
	w := a.Stdout
	name := whole(path)
	fmt.Fprintf(w, "%s - %s\n\nUsage:\n  %s\n", name, at.Usage, usageLine(name, at))
	showCommands(w, at.Subcommands)
	showFlags(w, at.Flags)
	if at.Description != "" {
		fmt.Fprintf(w, "\n%s\n", at.Description)
	}
	if len(path) == 0 {
		fmt.Fprint(w, "\nRun \"trellis help COMMAND\" for what a command does, with examples and its exit codes.\n")
	}
	return nil
}

func usageLine(name string, c *cli.Command) string {
	if len(c.Subcommands) > 0 && c.ArgsUsage == "" {
		return name + " COMMAND [arguments]"
	}
	if len(c.Flags) > 0 {
		name += " [flags]"
	}
	return strings.TrimSpace(name + " " + c.ArgsUsage)
}

func showCommands(w io.Writer, commands []*cli.Command) {
	if len(commands) == 0 {
		return
	}
	fmt.Fprint(w, "\nCommands:\n")
	var rows [][]string
	for _, c := range commands {
		if !c.Hidden {
			rows = append(rows, []string{"  " + c.Name, c.Usage})
		}
	}
	_ = terminal.Grid{Rows: rows}.Print(w, terminal.Style{}) // as whatever else help prints
}

func showFlags(w io.Writer, flags []cli.Flag) {
	fmt.Fprint(w, "\nFlags:\n")
	var rows [][]string
	for _, f := range flags {
		rows = append(rows, strings.Split("  "+flagLine(f), "\t"))
	}
	_ = terminal.Grid{Rows: append(rows, []string{"  --help, -h", "show this help"})}.Print(w, terminal.Style{})
}

// flagLine is the names of a flag, its value as the backquotes in its usage call it, and its usage.
func flagLine(f cli.Flag) string {
	var names []string
	for _, n := range f.Names() {
		names = append(names, dashed(n))
	}
	line, usage := strings.Join(names, ", "), ""
	if d, ok := f.(cli.DocGenerationFlag); ok {
		usage = d.GetUsage()
	}
	if parts := strings.SplitN(usage, "`", 3); len(parts) == 3 {
		line += " " + parts[1]
		usage = strings.Join(parts, "")
	}
	return line + "\t" + usage
}
