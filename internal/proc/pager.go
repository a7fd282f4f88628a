package proc

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
)

// Page shows the output of write on the terminal in a pager, as git does, and returns when the person has left the pager. The
// pager is started with the first byte. If the person leaves it before everything was written, or presses Ctrl-C in it, that is
// not an error: while it runs, Ctrl-C is for the pager. Whatever else ends ctx ends the pager, too. cmd has to be complete except
// for its input.
func Page(ctx context.Context, cmd *exec.Cmd, write func(io.Writer) error) error {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	defer signal.Stop(interrupts)
	p := &pagerInput{cmd: cmd}
	err := write(p)
	if p.in == nil {
		return errors.Join(err, p.failed)
	}
	_ = p.in.Close() // it may have ended
	stop := context.AfterFunc(ctx, func() {
		if !interrupted(ctx) {
			_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended
		}
	})
	defer stop()
	var exit *exec.ExitError
	switch ended := cmd.Wait(); {
	case errors.As(ended, &exit) && (exit.ExitCode() == 126 || exit.ExitCode() == 127): // sh can't run it
		return fmt.Errorf("running the pager: %w", ended)
	case p.closed, interrupted(ctx):
		return nil
	}
	return err
}

// interrupted reports whether Ctrl-C ended a context.
func interrupted(ctx context.Context) bool {
	var by *SignalError
	return ctx.Err() != nil && errors.As(context.Cause(ctx), &by) && by.Signal == syscall.SIGINT
}

// pagerInput is the input of a pager.
type pagerInput struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	failed error // the program could not be started
	closed bool  // the program no longer reads
}

func (p *pagerInput) Write(b []byte) (int, error) {
	if p.in == nil && p.failed == nil {
		p.start()
	}
	if p.failed != nil {
		return 0, p.failed
	}
	n, err := p.in.Write(b)
	if err != nil {
		p.closed = true
	}
	return n, err
}

func (p *pagerInput) start() {
	in, err := p.cmd.StdinPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err != nil {
		p.failed = fmt.Errorf("running the pager: %w", err)
		return
	}
	p.in = in
}
