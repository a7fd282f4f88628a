// Package commandline reads the command line of a program along its tree of commands: flags may stand anywhere, --help shows
// the help of every command, unknown commands and flags are refused with the nearest known name, and shells complete it.
package commandline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// Program is a program with the commands below its root. Make it with [New].
type Program struct{ root *cli.Command }

// New returns a program with these commands and --version. It sets in each command what the parser
// does not inherit, so commands must not be given to two programs.
func New(name, usage string, commands []*cli.Command) Program {
	setInherited(commands)
	return Program{&cli.Command{
		Name:        name,
		Usage:       usage,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version and exit"}},
		Subcommands: commands,
	}}
}

// Root returns the tree of commands.
func (p Program) Root() *cli.Command { return p.root }

// Run runs the command that args (without the program's name) ask for, reports an error on Stderr and
// returns the exit code. After a signal that cut the command off, that is the code of the signal.
func (p Program) Run(ctx context.Context, a *command.Console, args []string) int {
	defer func() { a.Close(ctx) }()
	written := command.WatchOutput(a)
	err := p.dispatch(ctx, a, args)
	switch lost := written(); {
	case err == nil && lost != nil:
		err = fmt.Errorf("the command did its work, but %w", lost)
	case lost != nil && !errors.Is(err, errors.Unwrap(lost)) && ctx.Err() == nil:
		a.Say("%v", lost)
	}
	return ReportExit(ctx, a, err)
}

// ReportExit reports an error and returns its exit code.
func ReportExit(ctx context.Context, a *command.Console, err error) int {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = app.WithHints(context.Cause(ctx), app.HintsOf(err)...)
	}
	a.Report(err)
	return command.ExitCode(err)
}

// dispatch finds the command that args name and runs it, or shows its help.
func (p Program) dispatch(ctx context.Context, a *command.Console, args []string) error {
	a.JSONErrors = hasJSONFlag(args)
	line, err := Arrange(p.root, args)
	if err != nil {
		return err
	}
	if line.Help || line.Command == nil && !line.Version {
		return ShowHelp(a.Stdout, p.root, line.Path...)
	}
	err = p.parser(a).RunContext(ctx, append([]string{p.root.Name}, line.Args...))
	if errors.Is(err, app.ErrUsage) && err.Error() != "" && len(app.HintsOf(err)) == 0 {
		return app.WithHints(err, line.helpCommand())
	}
	return err
}

// hasJSONFlag reports whether --json is among the flags, even if the command line is invalid.
func hasJSONFlag(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// parser returns the command tree for the flag parser. It never exits, prints no usage errors by
// itself, and does not split values at commas.
func (p Program) parser(a *command.Console) *cli.App {
	return &cli.App{
		Name:                      p.root.Name,
		Usage:                     p.root.Usage,
		Flags:                     p.root.Flags,
		Commands:                  p.root.Subcommands,
		Action:                    func(c *cli.Context) error { return p.PrintVersion(a) },
		HideHelp:                  true,
		HideVersion:               true,
		DisableSliceFlagSeparator: true,
		OnUsageError:              flagError,
		ExitErrHandler:            func(*cli.Context, error) {},
		Reader:                    a.Stdin,
		Writer:                    a.Stdout,
		ErrWriter:                 a.Stderr,
	}
}

// PrintVersion prints the line of --version.
func (p Program) PrintVersion(a *command.Console) error {
	_, err := fmt.Fprintln(a.Stdout, p.root.Name, command.Version())
	return err
}

// setInherited sets in every command what the parser does not inherit.
func setInherited(commands []*cli.Command) {
	for _, c := range commands {
		c.HideHelp = true
		c.OnUsageError = flagError
		if len(c.Subcommands) > 0 && c.Action == nil {
			c.Action = missingSubcommand
		}
		if action := c.Action; len(c.Subcommands) == 0 && !c.SkipFlagParsing {
			c.Action = func(call *cli.Context) error {
				if err := command.CheckArguments(call); err != nil {
					return err
				}
				return action(call)
			}
		}
		setInherited(c.Subcommands)
	}
}

// flagError turns the parser's error about the value of a flag into a usage error.
func flagError(c *cli.Context, err error, _ bool) error {
	return app.Usagef("%w", err)
}

// missingSubcommand is the action of a command that only has subcommands.
func missingSubcommand(c *cli.Context) error {
	var names []string
	for _, s := range c.Command.Subcommands {
		names = append(names, s.Name)
	}
	return app.Usagef("%s needs a command: %s", c.Command.HelpName, strings.Join(names, ", "))
}
