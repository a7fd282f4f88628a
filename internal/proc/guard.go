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
	guardVar  = "TRELLIS_GUARD"  // ID of the reaper, in the environment of its worker
	reaperVar = "TRELLIS_REAPER" // ID of the guard, in the environment of its reaper
)

// Guard runs the rest of the command in a separate process, so that somebody is left to clean up however that process ends.
// Commands that start agents call it first thing in main.
//
// In the first process (the guard) it starts this program again with the same arguments, streams and environment (the reaper),
// which does the same (the worker). Both pass SIGINT, SIGTERM, SIGHUP and SIGQUIT on, and return when the process that they
// started has ended and every process that came from it is killed: worker is then false, and code is the exit code to use (128+n
// after signal n). A process that was killed by SIGKILL could not report that: err is then a [SignalError], only in the process
// that saw it. In the worker Guard returns at once with worker true. Any one or two of the three may be killed: the worker is
// killed with its reaper, the reaper ends everything with its guard, and whoever is left ends the rest. On Linux they adopt
// orphans, so that no descendant has to carry a mark.
//
// A terminal sends its signals to guard and worker, and a signal to a whole group or control group reaches the worker, too: it
// then comes twice. SignalContext takes this into account.
//
// None of them shows its environment, which has accounts of agents in it, or its memory to other programs of the same user.
func Guard() (worker bool, code int, err error) {
	hideMemory()
	if reaper, ok := Guarded(); ok {
		return true, 0, endWithReaper(reaper)
	}
	run := runGuard
	if os.Getenv(reaperVar) != "" {
		run = runReaper
	}
	code, err = run()
	if err != nil && !errors.As(err, new(*SignalError)) {
		return false, 1, fmt.Errorf("starting the guarded process: %w", err)
	}
	return false, code, err
}

// Guarded returns the reaper of this process, which ends the processes that it leaves, if this process is a worker.
func Guarded() (ID, bool) {
	id, ok := parseID(os.Getenv(guardVar))
	return id, ok && id.PID == os.Getppid() && id.Alive()
}

// runGuard runs a reaper, which learns of the guard's end by a pipe whose other end only the guard holds.
func runGuard() (code int, err error) {
	life, held, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	defer held.Close()
	return runGuarded(func() (*os.Process, error) {
		defer life.Close()
		// In a separate group: whoever kills the group that people see leaves the reaper to end the rest.
		return startSelf(environWith(reaperVar, Self()), &syscall.SysProcAttr{Setpgid: true}, life)
	})
}

// runReaper runs a worker, and kills it when the guard is gone.
func runReaper() (code int, err error) {
	guard, _ := parseID(os.Getenv(reaperVar))
	group, err := unix.Getpgid(guard.PID)
	if err != nil {
		return 0, fmt.Errorf("looking for the guard: %w", err)
	}
	life := os.NewFile(3, "life")
	unix.CloseOnExec(3)
	return runGuarded(func() (*os.Process, error) {
		attr := workerAttr()
		attr.Setpgid, attr.Pgid = true, group // the group that gets a terminal's signals
		p, err := startSelf(environWith(guardVar, Self()), attr)
		if err == nil {
			go func() { // runs as long as this process
				io.Copy(io.Discard, life) //nolint:errcheck // an end is an end
				p.Kill()
			}()
		}
		return p, err
	})
}

// runGuarded starts a process, waits for its end, and ends its remaining descendants.
func runGuarded(start func() (*os.Process, error)) (code int, err error) {
	runtime.LockOSThread() // the worker is signalled when the thread that started it ends
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
	i, _ := inspect(p.Pid) // it exists, since nobody has waited for it
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
	code, _ = exitStatus(status)
	if status.Signaled() && status.Signal() == syscall.SIGKILL {
		err = &SignalError{syscall.SIGKILL}
	}
	return code, err
}

// startSelf starts this program again, with the same arguments and streams.
func startSelf(env []string, attr *syscall.SysProcAttr, files ...*os.File) (*os.Process, error) {
	path, err := ownPath()
	if err != nil {
		return nil, err
	}
	return os.StartProcess(path, os.Args, &os.ProcAttr{
		Env: env, Files: append([]*os.File{os.Stdin, os.Stdout, os.Stderr}, files...), Sys: attr,
	})
}

// environWith returns this process's environment with the one variable that tells the next process its role.
func environWith(name string, id ID) []string {
	env := slices.DeleteFunc(os.Environ(), func(entry string) bool {
		return strings.HasPrefix(entry, guardVar+"=") || strings.HasPrefix(entry, reaperVar+"=")
	})
	return append(env, name+"="+id.String())
}

// forward passes signals on until the process has ended. The handle of p never refers to another process with the same pid.
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

// reapUntil waits for a child, and meanwhile for every orphan that this process adopts.
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

// reapDead waits for the children that are dead and reports whether no children are left.
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
