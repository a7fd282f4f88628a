// Package cluster shares the tasks of a repository among several machines by a Temporal server: that decides who, when and where; the
// engine of Trellis runs each segment of a task unchanged; the state travels on git refs, as it does without a server.
package cluster

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Main runs what the arguments of this process ask for and returns the code that it is to exit with.
func Main() int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // a removed folder: commands that need it say so
	}
	a := &command.Console{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: withoutAccount(os.Environ()), Dir: dir, Now: time.Now, Guard: proc.Guard}
	err = program(a).RunContext(ctx, flagsFirst(commands(a), os.Args))
	if err != nil && ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = app.WithHints(context.Cause(ctx), app.HintsOf(err)...)
	}
	a.Close(context.WithoutCancel(ctx))
	a.Report(err)
	return command.ExitCode(err)
}

// account begins the names of variables by which a person or a machine is known to the Temporal server.
const account = "TEMPORAL_"

// withoutAccount is the environment that Trellis gets, and agents and commands of it: they have nothing to say to the server.
func withoutAccount(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, account) })
}

// program is the command line.
func program(a *command.Console) *cli.App {
	list := commands(a)
	for _, c := range list {
		action := c.Action
		c.HideHelp, c.OnUsageError = true, badFlag
		c.Action = func(call *cli.Context) error {
			if err := command.CheckArguments(call); err != nil {
				return err
			}
			return action(call)
		}
	}
	return &cli.App{Name: "trellis-cluster", Usage: "shares the tasks of a repository among machines by a Temporal server", Commands: list,
		HideVersion: true, OnUsageError: badFlag, ExitErrHandler: func(*cli.Context, error) {}, Reader: a.Stdin, Writer: a.Stdout, ErrWriter: a.Stderr,
		Action: func(c *cli.Context) error {
			if name := c.Args().First(); name != "" {
				return app.Usagef("there is no command %q: there are %s", name, strings.Join(names(list), ", "))
			}
			return cli.ShowAppHelp(c)
		}}
}

// flagsFirst puts the flags of a command before its arguments, where the parser looks for them.
func flagsFirst(list []*cli.Command, args []string) []string {
	if len(args) < 2 {
		return args
	}
	at := slices.IndexFunc(list, func(c *cli.Command) bool { return c.Name == args[1] })
	if at < 0 {
		return args
	}
	var flags, rest []string
	for i := 2; i < len(args); i++ {
		if args[i] == "--" || !strings.HasPrefix(args[i], "-") {
			rest = append(rest, args[i])
			continue
		}
		flags = append(flags, args[i])
		if i+1 < len(args) && !strings.Contains(args[i], "=") && hasValue(list[at], strings.TrimLeft(args[i], "-")) {
			i++
			flags = append(flags, args[i])
		}
	}
	return slices.Concat(args[:2], flags, rest)
}

// hasValue reports whether a flag of a command takes the next word.
func hasValue(c *cli.Command, name string) bool {
	for _, f := range c.Flags {
		if _, lone := f.(*cli.BoolFlag); slices.Contains(f.Names(), name) {
			return !lone
		}
	}
	return false
}

func names(list []*cli.Command) (all []string) {
	for _, c := range list {
		all = append(all, c.Name)
	}
	slices.Sort(all)
	return all
}

// badFlag makes what the parser says about a flag's value a usage error.
func badFlag(_ *cli.Context, err error, _ bool) error { return app.Usagef("%w", err) }
