package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
)

// console runs one call of trellis.
type console struct{ command.Console }

// Run does what the arguments (without the program's name) ask for, reports an error on Stderr and
// returns the exit code.
func (a *console) Run(ctx context.Context, args []string) int {
	defer func() { a.Close(ctx) }()
	return a.end(ctx, a.dispatch(ctx, args))
}

// end reports an error and returns its exit code. What a signal cut off ends with that signal.
func (a *console) end(ctx context.Context, err error) int {
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = app.WithHints(context.Cause(ctx), app.HintsOf(err)...)
	}
	a.Report(err)
	return command.ExitCode(err)
}

// dispatch finds the command that args name and runs it, or shows its help.
func (a *console) dispatch(ctx context.Context, args []string) error {
	a.JSONErrors = asksJSON(args)
	line, err := arrange(commandTree(&a.Console), args)
	if err != nil {
		return err
	}
	if line.help || line.command == nil && !line.version {
		return showHelp(&a.Console, line.path...)
	}
	tree := a.tree()
	return tree.RunContext(ctx, append([]string{tree.Name}, line.args...))
}

// asksJSON reports whether --json is among the flags, also of a command line that is wrong.
func asksJSON(args []string) bool {
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	return slices.Contains(args, "--json")
}

// tree is the command tree for the parser. Nothing in it exits, prints usage errors by itself, or
// takes a comma in a value for a separator.
func (a *console) tree() *cli.App {
	root := commandTree(&a.Console)
	return &cli.App{
		Name:                      root.Name,
		Usage:                     root.Usage,
		Flags:                     root.Flags,
		Commands:                  root.Subcommands,
		Action:                    func(c *cli.Context) error { return printVersion(a.Stdout) },
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

func commandTree(a *command.Console) *cli.Command {
	root := &cli.Command{
		Name:        "trellis",
		Usage:       "turns a requirement into a reviewed git branch",
		Flags:       []cli.Flag{&cli.BoolFlag{Name: "version", Aliases: []string{"v"}, Usage: "print the version and end"}},
		Subcommands: commands(a),
	}
	complete(root.Subcommands)
	return root
}

// complete sets what every command has and the parser does not inherit.
func complete(commands []*cli.Command) {
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
		complete(c.Subcommands)
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
