package commandline

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/terminal"
)

// ShowHelp prints the help of the command with that path, or of the program itself.
func ShowHelp(out io.Writer, root *cli.Command, path ...string) error {
	line, at := &Line{Program: root.Name}, root
	for _, word := range path {
		next := Find(at.Subcommands, word)
		if next == nil {
			return line.unknownCommand(at, word)
		}
		line.Path, at = append(line.Path, word), next
	}
	name, w := line.fullName(), new(strings.Builder)
	fmt.Fprintf(w, "%s - %s\n\nUsage:\n  %s\n", name, at.Usage, UsageLine(name, at))
	showCommands(w, at.Subcommands)
	showFlags(w, at.Flags)
	if at.Description != "" {
		fmt.Fprintf(w, "\n%s\n", at.Description)
	}
	if len(path) == 0 {
		fmt.Fprintf(w, "\nRun \"%s help COMMAND\" for details, examples and exit codes of a command.\n", root.Name)
	}
	_, err := io.WriteString(out, w.String())
	return err
}

// UsageLine returns how the command c, with that full name, is used.
func UsageLine(name string, c *cli.Command) string {
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
	_ = terminal.Grid{Rows: rows}.Print(w, terminal.Style{}) // a strings.Builder returns no error
}

func showFlags(w io.Writer, flags []cli.Flag) {
	fmt.Fprint(w, "\nFlags:\n")
	var rows [][]string
	for _, f := range flags {
		rows = append(rows, strings.Split("  "+FlagLine(f), "\t"))
	}
	_ = terminal.Grid{Rows: append(rows, []string{"  --help, -h", "show this help"})}.Print(w, terminal.Style{})
}

// FlagLine returns the names of a flag with its value as the backquotes in its usage call it, a tab, and its usage.
func FlagLine(f cli.Flag) string {
	var names []string
	for _, n := range f.Names() {
		names = append(names, Dashed(n))
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
