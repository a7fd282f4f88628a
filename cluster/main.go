// Package cluster shares the tasks of a repository among several machines with a Temporal server. The server decides which
// machine runs a task and when; Trellis' engine runs each segment of a task unchanged; the state is exchanged through git refs,
// as without a server.
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

// Main runs the command that the process arguments name and returns the exit code.
func Main() int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // the folder was removed: commands that need it report that
	}
	a := &command.Console{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: withoutAccount(os.Environ()), Dir: dir, Now: time.Now, Guard: proc.Guard}
	return program(a).Run(ctx, a, os.Args[1:])
}

// accountPrefix is the prefix of the variables that authenticate a person or a machine to the Temporal server.
const accountPrefix = "TEMPORAL_"

// withoutAccount returns the environment for Trellis and its agents and commands, which have no business with the server.
func withoutAccount(env []string) []string {
	return slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, accountPrefix) })
}

func program(a *command.Console) commandline.Program {
	return commandline.New("trellis-cluster", "share the tasks of a repository among machines through a Temporal server", commands(a))
}

func helpCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "help", Usage: "show help for a command", ArgsUsage: "[COMMAND]",
		Description: command.Manual("Lists the commands, or describes one of them.", []int{command.ExitDone, command.ExitUsage}, "trellis-cluster help submit"),
		Action: func(c *cli.Context) error {
			return commandline.ShowHelp(a.Stdout, program(a).Root(), c.Args().Slice()...)
		}}
}

func completionCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "completion", Usage: "print shell completion of commands, flags and tasks", ArgsUsage: "bash|zsh|fish",
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

// completer completes the arguments of commands.
type completer struct{ a *command.Console }

// Value completes the value of --type, and of no other flag.
func (completer) Value(flag string, _ *commandline.Line, _ string) []string {
	if flag == "type" {
		return trellis.DevTypes
	}
	return nil
}

// Argument completes task directories.
func (c completer) Argument(line *commandline.Line, last string) []string {
	if commandline.NextWord(line) == "TASKDIR" {
		return commandline.Tasks(c.a, last)
	}
	return nil
}
