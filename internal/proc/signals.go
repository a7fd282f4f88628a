package proc

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// echo is how long a signal that comes again counts as the same: a terminal sends it to the guard and
// to the worker, and the guard passes its own on.
const echo = time.Second

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string { return "stopped by " + unix.SignalName(e.Signal) }

// Code is the exit code that tells of the signal: 130 for SIGINT, 143 for SIGTERM.
func (e *SignalError) Code() int { return codeSignal + int(e.Signal) }

// SignalContext ends with the first SIGINT, SIGTERM or SIGHUP; the cause is a *SignalError. One second
// later signals do again what they do by default: a person who asks a second time means it.
// stop frees what the context needs.
func SignalContext(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	stopped := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		defer signal.Stop(signals)
		select {
		case s := <-signals:
			cancel(&SignalError{s.(syscall.Signal)})
		case <-stopped:
			return
		}
		select {
		case <-time.After(echo):
		case <-stopped:
		}
	})
	var once sync.Once
	return ctx, func() {
		once.Do(func() { close(stopped) })
		watching.Wait()
		cancel(context.Canceled)
	}
}
