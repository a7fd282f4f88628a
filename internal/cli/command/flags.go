package command

import (
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
)

// JSONFlag is the flag of every command that can answer scripts.
func JSONFlag() cli.Flag { return &cli.BoolFlag{Name: "json", Usage: "print one JSON document"} }

// SharedFlag is --shared-fs, of commands that hold locks while they work.
func SharedFlag() cli.Flag {
	return &cli.BoolFlag{Name: "shared-fs", Usage: "work on NFS, SMB, FUSE or 9p too: you see to it that no other machine does"}
}

// WrongArguments is a usage error that shows what a command wants.
func WrongArguments(c *cli.Context) error {
	name := c.Command.HelpName
	return app.WithHints(app.Usagef("wrong number of arguments: %s", strings.TrimSpace(name+" "+c.Command.ArgsUsage)), strings.Replace(name, "trellis", "trellis help", 1))
}

// Manual is the part of a command's help that words must say: what it does, its exit codes, examples.
func Manual(text string, codes []int, examples ...string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(text))
	b.WriteString("\n\nExamples:\n")
	for _, e := range examples {
		b.WriteString("  " + e + "\n")
	}
	b.WriteString("\nExit codes:")
	for _, row := range Exits {
		if slices.Contains(codes, row.Code) {
			b.WriteString("\n  " + strconv.Itoa(row.Code) + strings.Repeat(" ", 5-len(strconv.Itoa(row.Code))) + row.Meaning)
		}
	}
	return b.String()
}
