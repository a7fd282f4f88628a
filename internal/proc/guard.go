package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	guardVar  = "TRELLIS_GUARD"  // names the reaper in the environment of its worker
	reaperVar = "TRELLIS_REAPER" // names the guard in the environment of its reaper
)

// Guard runs the rest of the command in a process of its own, so that someone is left to clean up however
// that one ends. It is called first thing in main by commands that start agents.
//
// The first time it starts this program again with the same arguments, streams and environment (the reaper), which
// does the same (the worker). Both pass SIGINT, SIGTERM, SIGHUP and SIGQUIT on, and return when what they started has
// ended and every process that came from it is killed: worker is false, and code is to be the exit code (128+n
// after signal n). One that was killed could not say so: the error is then a [SignalError], in whoever saw it alone. In the worker it returns at once with worker true. Of the three any one or two may be killed: the
// worker goes with its reaper, the reaper ends everything with its guard, and whoever is left ends the rest. On Linux they
// adopt orphans, so that nothing of it has to say where it came from.
//
// From a terminal guard and worker get the signal, and so does a worker whose whole group or control group is
// signalled: it then comes twice. SignalContext takes this into account.
//
// None of them shows other programs of the same person its environment, in which accounts of agents stand, or its memory.
func Guard() (worker bool, code int, err error) {
	seclude()
	if reaper, ok := Guarded(); ok {
		return true, 0, followGuard(reaper)
	}
	run := guard
	if os.Getenv(reaperVar) != "" {
		run = reap
	}
	code, err = run()
	if err != nil && !errors.As(err, new(*SignalError)) {
		return false, 1, fmt.Errorf("starting the guarded process: %w", err)
	}
	return false, code, err
}

// Guarded is the process that ends what this one leaves, if this is a worker.
func Guarded() (ID, bool) {
	id, ok := parseID(os.Getenv(guardVar))
	return id, ok && id.PID == os.Getppid() && id.Alive()
}

// guard watches over a reaper, which hears of its end by a pipe whose other end only it holds.
func guard() (code int, err error) {
	life, held, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer held.Close()
	return watchOver(func() (*os.Process, error) {
		defer life.Close()
		// In a group of its own: who kills the group that people see leaves it to end the rest.
		return startAgain(environWith(reaperVar, Self()), &syscall.SysProcAttr{Setpgid: true}, life)
	})
}

// reap watches over a worker. It kills it when the guard is gone.
func reap() (code int, err error) {
	guard, _ := parseID(os.Getenv(reaperVar))
	group, err := unix.Getpgid(guard.PID)
	if err != nil {
		return 0, fmt.Errorf("looking for the guard: %w", err)
	}
	life := os.NewFile(3, "life")
	unix.CloseOnExec(3)
	return watchOver(func() (*os.Process, error) {
		attr := workerAttr()
		attr.Setpgid, attr.Pgid = true, group // where a terminal's signals go
		p, err := startAgain(environWith(guardVar, Self()), attr)
		if err == nil {
			go func() { // as long as this process
				io.Copy(io.Discard, life) //nolint:errcheck // an end is an end
				p.Kill()
			}()
		}
		return p, err
	})
}

// watchOver starts a process, sees it to its end, and ends what it left.
func watchOver(start func() (*os.Process, error)) (code int, err error) {
	runtime.LockOSThread() // the worker is told of the end of the thread that started it
	defer runtime.UnlockOSThread()
	if err := adoptOrphans(); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 16)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	p, err := start()
	if err != nil {
		return 0, err
	}
	i, _ := inspect(p.Pid) // it has not been waited for
	var forwarding sync.WaitGroup
	ended := make(chan struct{})
	forwarding.Go(func() { forward(signals, p, ended) })
	status, err := reapUntil(p.Pid)
	close(ended)
	forwarding.Wait()
	endDescendants(i.id)
	if err != nil {
		return 0, err
	}
	code, _ = decode(status)
	if status.Signaled() && status.Signal() == syscall.SIGKILL {
		err = &SignalError{syscall.SIGKILL}
	}
	return code, err
}

// startAgain starts this program once more, with the same arguments and streams.
func startAgain(env []string, attr *syscall.SysProcAttr, files ...*os.File) (*os.Process, error) {
	path, err := ownPath()
	if err != nil {
		return nil, err
	}
	return os.StartProcess(path, os.Args, &os.ProcAttr{
		Env: env, Files: append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, files...), Sys: attr,
	})
}

// environWith is this process's environment with the one variable that tells the next what it is.
func environWith(name string, id ID) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, guardVar+"=") || strings.HasPrefix(entry, reaperVar+"=")
	})
	return append(env, name+"="+id.String())
}

// forward passes signals on until the process has ended. The handle of p never means another
// process of the same pid.
func forward(signals <-chan os.Signal, p *os.Process, ended <-chan struct{}) {
	for {
		select {
		case s := <-signals:
			p.Signal(s)
		case <-ended:
			p.Release()
			return
		}
	}
}

// reapUntil waits for a child, and on the way for every orphan that came to us.
func reapUntil(child int) (status syscall.WaitStatus, err error) {
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return status, err
		}
		if pid == child {
			return status, nil
		}
	}
}

// reapDead waits for the children that are dead and reports whether none are left.
func reapDead() (none bool) {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return true
		case pid == 0:
			return false
		}
	}
}
