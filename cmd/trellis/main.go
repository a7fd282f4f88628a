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
)

func main() {
	os.Exit(run())
}

// run is main without the exit, so that what it defers happens.
func run() int {
	ctx, stop := proc.SignalContext(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // a removed folder: commands that need it say so
	}
	a := &app{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(), Dir: dir, Now: time.Now, Guard: proc.Guard}
	return a.Run(ctx, os.Args[1:])
}
