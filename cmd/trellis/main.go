// Command trellis turns a requirement into a reviewed git branch.
//
// It is the only place that reads flags, the environment and the paths of configuration, that decides
// on exit codes, and that wires the packages below it together. A command stands in cmd_<name>.go:
// its flags, its help, and a method of [app] that does the work with what the app gives it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	os.Exit(run())
}

// run is main without the exit, so that what it defers happens.
func run() int {
	ctx, stop := untilSignal(context.Background())
	defer stop()
	dir, err := os.Getwd()
	if err != nil {
		dir = "." // a removed folder: commands that need it say so
	}
	a := &app{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Environ(), Dir: dir, Now: time.Now}
	return a.Run(ctx, os.Args[1:])
}

// untilSignal is ctx until the first signal that asks for an end, which becomes its cause.
// A second one ends the process at once.
func untilSignal(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		defer close(done)
		select {
		case s := <-signals:
			signal.Stop(signals)
			cancel(&signalError{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(context.Canceled)
		<-done
	}
}
