package proc

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// repeatWindow is the time within which a signal that comes again counts as the same: a terminal sends it to the guard and to the worker,
// and the guard passes its own on.
const repeatWindow = time.Second

// SignalError is the cause of a context that a signal ended.
type SignalError struct{ Signal syscall.Signal }

func (e *SignalError) Error() string {
	if e.Signal == syscall.SIGINT {
		return "stopped by Ctrl-C"
	}
	return "stopped by " + unix.SignalName(e.Signal)
}

// Code returns the exit code for the signal: 130 for SIGINT, 143 for SIGTERM.
func (e *SignalError) Code() int { return codeSignal + int(e.Signal) }

// SignalContext returns a context that ends with the first SIGINT, SIGTERM or SIGHUP; the cause is a *SignalError. One second
// later signals have their default effect again: a person who sends a second one means it. stop releases the context's resources.
func SignalContext(parent context.Context) (ctx context.Context, stop context.CancelFunc) {
	reloads := new(hangups)
	ctx, cancel := context.WithCancelCause(context.WithValue(parent, hangupKey{}, reloads))
	signals := make(chan os.Signal, 1)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	stopped := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		defer signal.Stop(signals)
		for ended := false; !ended; {
			select {
			case s := <-signals:
				if ended = s != syscall.SIGHUP || !reloads.deliver(); ended {
					cancel(&SignalError{s.(syscall.Signal)})
				}
			case <-stopped:
				return
			}
		}
		select {
		case <-time.After(repeatWindow):
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

// hangups delivers the SIGHUPs that ask for something other than the end.
type hangups struct {
	wanted   atomic.Bool
	received chan struct{}
	once     sync.Once
}

type hangupKey struct{}

// deliver passes a SIGHUP on, if somebody wants them. One that was not received yet represents later ones, too.
func (h *hangups) deliver() bool {
	if !h.wanted.Load() {
		return false
	}
	select {
	case h.received <- struct{}{}:
	default:
	}
	return true
}

// ReloadSignals returns a channel that receives every SIGHUP from now on, instead of having it end ctx, a context of SignalContext. A
// process with a terminal gets nil, and ends as before: there the signal means that the terminal is gone.
func ReloadSignals(ctx context.Context) <-chan struct{} {
	h, ok := ctx.Value(hangupKey{}).(*hangups)
	if !ok || onTerminal() {
		return nil
	}
	h.once.Do(func() { h.received = make(chan struct{}, 1) })
	h.wanted.Store(true)
	return h.received
}

// onTerminal reports whether this process has a controlling terminal, whatever its streams are.
func onTerminal() bool {
	f, err := os.OpenFile("/dev/tty", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return false
	}
	f.Close()
	return true
}

// Resizes calls resized whenever the size of this process's terminal changes, until stop is called.
func Resizes(resized func()) (stop func()) {
	sizes, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(sizes, unix.SIGWINCH)
	go func() {
		defer close(done)
		for range sizes {
			resized()
		}
	}()
	return func() {
		signal.Stop(sizes)
		close(sizes)
		<-done
	}
}

// ignoredSignals returns the signals that this process was started to ignore, as under nohup and in a script's background job. It is
// called before any of them is caught.
var ignoredSignals = sync.OnceValue(func() (all []os.Signal) {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT} {
		if signal.Ignored(s) {
			all = append(all, s)
		}
	}
	return all
})

// notify is signal.Notify without the signals that are to be ignored.
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !slices.Contains(ignoredSignals(), s) {
			signal.Notify(c, s)
		}
	}
}

// unignoreForChildren makes programs that are started from now on receive the signals that this process ignores: it stops them by
// signals. Children inherit ignored signals, but not caught ones; no terminal signals them, since they have their own sessions.
var unignoreForChildren = sync.OnceFunc(func() {
	for _, s := range ignoredSignals() {
		signal.Notify(make(chan os.Signal, 1), s) // nobody reads it
	}
})
