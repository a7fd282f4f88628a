// Command trellis turns a requirement into a reviewed git branch.
//
// It is the only place that reads flags, the environment and the paths of configuration, that decides
// on exit codes, and that wires the packages below it together. A command stands in cmd_<name>.go:
// its flags, its help, and a method of [app] that does the work with what the app gives it.
package main

import (
	"context"
	"os"
	"time"

	"github.com/trellis-tasks/trellis/internal/proc"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

func main() {
	if code, entered := sandbox.Entered(os.Args[1:]); entered {
		os.Exit(code)
	}
	os.Exit(run(&app{Now: time.Now}))
}

// run is main without the exit, so that what it defers happens: a gets all else that it lacks from this process.
func run(a *app) int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // a removed folder: commands that need it say so
	}
	a.Stdin, a.Stdout, a.Stderr, a.Env, a.Dir, a.Guard = os.Stdin, os.Stdout, os.Stderr, os.Environ(), dir, proc.Guard
	return a.Run(ctx, os.Args[1:])
}
