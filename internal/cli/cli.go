// Package cli is the command line: commands with their flags and help, what they print, and exit codes. It wires
// the packages below it together. A command stands in cmd_<name>.go: its flags, its help, and functions that do the work
// with a [command.Console] and what the app gives them.
package cli

import (
	"context"
	"os"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Main runs what the arguments of this process ask for and returns the code that it is to exit with. Nothing below it
// ends the process, so that what is deferred happens.
func Main() int {
	return run(&console{Console: command.Console{Now: time.Now}})
}

// run gets all that a lacks from this process.
func run(a *console) int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // a removed folder: commands that need it say so
	}
	a.Stdin, a.Stdout, a.Stderr, a.Env, a.Dir, a.Guard = os.Stdin, os.Stdout, os.Stderr, os.Environ(), dir, proc.Guard
	return a.Run(ctx, os.Args[1:])
}
