// Package cli is the command line: commands with their flags and help, what they print, and exit
// codes. It wires the packages below it together. Each command is in cmd_<name>.go: its flags, its
// help, and the functions that do the work with a [command.Console] and package app.
package cli

import (
	"context"
	"os"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Main runs the command that the arguments of this process ask for and returns the exit code.
// Nothing below Main ends the process, so that deferred functions run.
func Main() int {
	return run(&console{Console: command.Console{Now: time.Now}})
}

// run takes the streams, environment and working directory of this process for a and runs its arguments.
func run(a *console) int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // the working directory was removed: commands that need it report that
	}
	a.Stdin, a.Stdout, a.Stderr, a.Env, a.Dir, a.Guard = os.Stdin, os.Stdout, os.Stderr, os.Environ(), dir, proc.Guard
	return a.Run(ctx, os.Args[1:])
}
