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

// Page has a program show on the terminal what write writes, as git does with its pager, and returns when the person has
// left it. It begins with the first byte. That people leave before everything was written, or press Ctrl-C in it, is no
// error: while it runs, Ctrl-C is its affair. Whatever else ends ctx ends it too. cmd lacks only its input.
func Page(ctx context.Context, cmd *exec.Cmd, write func(io.Writer) error) error {
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, syscall.SIGINT)
	defer signal.Stop(interrupts)
	p := &page{cmd: cmd}
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
	case errors.As(ended, &exit) && (exit.ExitCode() == 126 || exit.ExitCode() == 127): // what sh can't run
		return fmt.Errorf("running the pager: %w", ended)
	case p.left, interrupted(ctx):
		return nil
	}
	return err
}

// interrupted reports whether it was Ctrl-C that ended a context.
func interrupted(ctx context.Context) bool {
	var by *SignalError
	return ctx.Err() != nil && errors.As(context.Cause(ctx), &by) && by.Signal == syscall.SIGINT
}

// page is the input of a pager.
type page struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	failed error // it could not be begun
	left   bool  // nobody reads any more
}

func (p *page) Write(b []byte) (int, error) {
	if p.in == nil && p.failed == nil {
		p.begin()
	}
	if p.failed != nil {
		return 0, p.failed
	}
	n, err := p.in.Write(b)
	if err != nil {
		p.left = true
	}
	return n, err
}

func (p *page) begin() {
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
