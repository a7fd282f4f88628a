// Package cluster shares the tasks of a repository among several machines by a Temporal server: that decides who, when and where; the
// engine of Trellis runs each segment of a task unchanged; the state travels on git refs, as it does without a server.
package cluster

import (
	"context"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/trellis"
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
	return program(a).Run(ctx, a, os.Args[1:])
}

// account begins the names of variables by which a person or a machine is known to the Temporal server.
const account = "TEMPORAL_"

// withoutAccount is the environment that Trellis gets, and agents and commands of it: they have nothing to say to the server.
func withoutAccount(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, account) })
}

func program(a *command.Console) commandline.Program {
	return commandline.New("trellis-cluster", "shares the tasks of a repository among machines by a Temporal server", commands(a))
}

func helpCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "help", Usage: "show help for a command", ArgsUsage: "[COMMAND]",
		Description: command.Manual("Shows the commands, or what one of them does.", []int{command.ExitDone, command.ExitUsage}, "trellis-cluster help submit"),
		Action: func(c *cli.Context) error {
			return commandline.ShowHelp(a.Stdout, program(a).Root(), c.Args().Slice()...)
		}}
}

func completionCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "completion", Usage: "print a script that completes commands, flags and tasks in a shell", ArgsUsage: "bash|zsh|fish",
		Description: command.Manual("Load it for one session as in the examples.", []int{command.ExitDone, command.ExitUsage},
			"trellis-cluster completion bash   # source <(trellis-cluster completion bash)", "trellis-cluster completion fish   # trellis-cluster completion fish | source"),
		Action: func(c *cli.Context) error {
			script, err := commandline.Script("trellis-cluster", c.Args().First())
			if err != nil {
				return err
			}
			_, err = a.Stdout.Write(script)
			return err
		}}
}

// completing completes the tasks that commands take.
type completing struct{ a *command.Console }

// Value knows of no flag what may follow it, but of the kind of work.
func (completing) Value(flag string, _ *commandline.Line, _ string) []string {
	if flag == "type" {
		return trellis.DevTypes
	}
	return nil
}

// Argument are the tasks.
func (c completing) Argument(line *commandline.Line, last string) []string {
	if commandline.NextWord(line) == "TASKDIR" {
		return commandline.Tasks(c.a, last)
	}
	return nil
}
