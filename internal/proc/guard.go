package proc

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// guardVar names the guard in the environment of its worker.
const guardVar = "TRELLIS_GUARD"

// Guard runs the rest of the command in a child process, so that someone is left to clean up however
// that child ends. It is called first thing in main by commands that start agents.
//
// The first time it starts this program again with the same arguments, streams and environment
// (the worker), passes SIGINT, SIGTERM, SIGHUP and SIGQUIT on to it, and returns when it has ended and every
// process that came from it is killed: worker is false, and code is to be the exit code (128+n
// after signal n). In the worker it returns at once with worker true. A guard that is killed takes
// the worker with it, and a third process, which does nothing else, ends what the worker had started; it does so too
// when both are killed.
//
// From a terminal both get the signal, and so does a worker whose whole group or control group is
// signalled: it then comes twice. SignalContext takes this into account.
func Guard() (worker bool, code int, err error) {
	if g, ok := parseID(os.Getenv(sweeperVar)); ok {
		outlive(g)
		return false, 0, nil
	}
	if g, ok := Guarded(); ok {
		return true, 0, followGuard(g)
	}
	code, err = guard()
	if err != nil {
		return false, 1, fmt.Errorf("starting the guarded process: %w", err)
	}
	return false, code, nil
}

// Guarded is the guard of this process, if it is a worker.
func Guarded() (ID, bool) {
	id, ok := parseID(os.Getenv(guardVar))
	return id, ok && id.PID == os.Getppid() && id.Alive()
}

func guard() (code int, err error) {
	runtime.LockOSThread() // the worker is told of the end of the thread that started it
	defer runtime.UnlockOSThread()
	if err := adoptOrphans(); err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 16)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	defer signal.Stop(signals)
	hold, err := startSweeper()
	if err != nil {
		return 0, err
	}
	defer hold.Close()
	p, err := startWorker()
	if err != nil {
		return 0, err
	}
	var forwarding sync.WaitGroup
	ended := make(chan struct{})
	forwarding.Go(func() { forward(signals, p, ended) })
	status, err := reapUntil(p.Pid)
	close(ended)
	forwarding.Wait()
	endDescendants()
	if err != nil {
		return 0, err
	}
	code, _ = decode(status)
	return code, nil
}

func startWorker() (*os.Process, error) {
	path, err := ownPath()
	if err != nil {
		return nil, err
	}
	return os.StartProcess(path, os.Args, &os.ProcAttr{
		Env:   merge(os.Environ(), []string{guardVar + "=" + Self().String()}),
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
		Sys:   workerAttr(),
	})
}

// notify is signal.Notify without what was to be ignored from the start, as under nohup.
func notify(c chan<- os.Signal, signals ...os.Signal) {
	for _, s := range signals {
		if !signal.Ignored(s) {
			signal.Notify(c, s)
		}
	}
}

// forward passes signals on until the worker has ended. The handle of p never means another
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

// reapUntil waits for the worker, and on the way for every orphan that came to us.
func reapUntil(worker int) (status syscall.WaitStatus, err error) {
	for {
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return status, err
		}
		if pid == worker {
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
