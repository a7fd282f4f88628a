// Package commandline reads the command line of a program along its tree of commands: flags stand wherever people put them, --help
// shows the help of every command, what nobody knows is refused with the nearest name, and shells complete it.
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

// New is a program with these commands and --version. Each gets what the parser does not inherit, so that none of them is given to two
// programs.
func New(name, usage string, commands []*cli.Command) Program {
	finish(commands)
	return Program{&cli.Command{
		Name:        name,
		Usage:       usage,
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version and end"}},
		Subcommands: commands,
	}}
}

// Root is the tree of commands.
func (p Program) Root() *cli.Command { return p.root }

// Run does what the arguments (without the program's name) ask for, reports an error on Stderr and returns the exit code. What a signal
// cut off ends with that signal.
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
	return End(ctx, a, err)
}

// End reports an error and returns its exit code.
func End(ctx context.Context, a *command.Console, err error) int {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = app.WithHints(context.Cause(ctx), app.HintsOf(err)...)
	}
	a.Report(err)
	return command.ExitCode(err)
}

// dispatch finds the command that args name and runs it, or shows its help.
func (p Program) dispatch(ctx context.Context, a *command.Console, args []string) error {
	a.JSONErrors = asksJSON(args)
	line, err := Arrange(p.root, args)
	if err != nil {
		return err
	}
	if line.Help || line.Command == nil && !line.Version {
		return ShowHelp(a.Stdout, p.root, line.Path...)
	}
	err = p.parser(a).RunContext(ctx, append([]string{p.root.Name}, line.Args...))
	if errors.Is(err, app.ErrUsage) && err.Error() != "" && len(app.HintsOf(err)) == 0 {
		return app.WithHints(err, line.helpFor())
	}
	return err
}

// asksJSON reports whether --json is among the flags, also of a command line that is wrong.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// parser is the command tree for the parser. Nothing in it exits, prints usage errors by itself, or
// takes a comma in a value for a separator.
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
		OnUsageError:              badFlag,
		ExitErrHandler:            func(*cli.Context, error) {},
		Reader:                    a.Stdin,
		Writer:                    a.Stdout,
		ErrWriter:                 a.Stderr,
	}
}

// PrintVersion prints the line that --version is.
func (p Program) PrintVersion(a *command.Console) error {
	_, err := fmt.Fprintln(a.Stdout, p.root.Name, command.Version())
	return err
}

// finish sets what every command has and the parser does not inherit.
func finish(commands []*cli.Command) {
	for _, c := range commands {
		c.HideHelp = true
		c.OnUsageError = badFlag
		if len(c.Subcommands) > 0 && c.Action == nil {
			c.Action = needsCommand
		}
		if action := c.Action; len(c.Subcommands) == 0 && !c.SkipFlagParsing {
			c.Action = func(call *cli.Context) error {
				if err := command.CheckArguments(call); err != nil {
					return err
				}
				return action(call)
			}
		}
		finish(c.Subcommands)
	}
}

// badFlag makes what the parser says about a flag's value a usage error.
func badFlag(c *cli.Context, err error, _ bool) error {
	return app.Usagef("%w", err)
}

// needsCommand is what a command does that only has others below it.
func needsCommand(c *cli.Context) error {
	var names []string
	for _, s := range c.Command.Subcommands {
		names = append(names, s.Name)
	}
	return app.Usagef("%s needs a command: %s", c.Command.HelpName, strings.Join(names, ", "))
}
