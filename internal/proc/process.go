package proc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/trellis-tasks/trellis/internal/patience"
)

const (
	settle    = 500 * time.Millisecond // for what finishes by itself after its parent, like tee at the end of a pipe
	afterTerm = time.Second            // for left-over members of the group
	afterKill = 3 * time.Second        // for the kernel
	pollGroup = 10 * time.Millisecond
)

// Process is a running program. Its methods may be called by several goroutines at once.
type Process struct {
	c      Command
	os     *os.Process
	id     ID      // of os; without a start time when the system did not tell
	call   string  // value of callVar, "" without a marker
	tag    tag     // goes with call
	cgroup *cgroup // goes with call, where there is one
	pipes  *pipes
	began  time.Time

	once     sync.Once
	cause    error         // why it was stopped; set before stopping is closed
	stopping chan struct{} // closed by Stop

	done   chan struct{} // closed when result and err are there
	result Result
	err    error
}

// PID is the id of the program's process, group and session.
func (p *Process) PID() int { return p.os.Pid }

// Stop begins to end the program as the end of the context does, and does not wait: it may be
// called from a Write of Stdout. Wait returns the cause of the first Stop; nil is no error.
func (p *Process) Stop(cause error) {
	p.once.Do(func() {
		p.cause = cause
		close(p.stopping)
	})
}

// Wait returns when the program and all it started are gone. It may be called more than once.
func (p *Process) Wait() (Result, error) {
	<-p.done
	return p.result, p.err
}

// supervise sees the program to its end.
func (p *Process) supervise(ctx context.Context) {
	defer close(p.done)
	var state *os.ProcessState
	var waitErr error
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		state, waitErr = p.os.Wait()
	}()
	timedOut := p.watch(ctx, exited)
	<-exited
	strays := p.clear()
	writeErr := p.pipes.finish()
	p.result = outcome(state, timedOut)
	if n := p.result.Code - codeSignal; len(p.c.Launcher) > 0 && p.result.Signal == "" && !timedOut && n > 0 {
		p.result.Signal = unix.SignalName(syscall.Signal(n))
	}
	p.result.Seconds = time.Since(p.began).Seconds()
	p.Stop(nil) // from here on a Stop comes too late
	p.err = cmp.Or(p.cause, waitErr, writeErr, strayError(strays))
}

// watch waits for the end of the program, and brings it about when it is asked to.
func (p *Process) watch(ctx context.Context, exited <-chan struct{}) (timedOut bool) {
	var wall <-chan time.Time
	if p.c.Wall > 0 {
		timer := time.NewTimer(p.c.Wall)
		defer timer.Stop()
		wall = timer.C
	}
	select {
	case <-exited:
		return false
	case <-ctx.Done():
		p.Stop(context.Cause(ctx))
	case <-p.stopping:
	case <-wall:
		timedOut = true
	}
	p.end(exited)
	return timedOut
}

// end sends the group one signal after the other until the program has ended.
func (p *Process) end(exited <-chan struct{}) {
	grace := p.c.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	if p.c.Interrupt && p.signal(syscall.SIGINT, grace/4, exited) {
		return
	}
	if p.signal(syscall.SIGTERM, grace, exited) {
		return
	}
	unix.Kill(-p.os.Pid, syscall.SIGKILL)
}

// signal reports whether the program ended within the given time of the signal.
func (p *Process) signal(sig syscall.Signal, within time.Duration, exited <-chan struct{}) bool {
	for _, target := range p.targets() {
		unix.Kill(target, sig)
		unix.Kill(target, syscall.SIGCONT) // what is stopped could not take it
	}
	select {
	case <-exited:
		return true
	case <-time.After(within):
		return false
	}
}

// targets are whom a signal is for: the group, or of one with a launcher its members besides that and its child, which
// keeps the place of the system's first process there. A launcher that is alone has started nothing yet.
func (p *Process) targets() (targets []int) {
	group := p.os.Pid
	if len(p.c.Launcher) > 0 {
		for _, i := range processes() {
			if i.group == group && !i.dead && i.id.PID != group && i.parent != group {
				targets = append(targets, i.id.PID)
			}
		}
	}
	if len(targets) == 0 {
		return []int{-group}
	}
	return targets
}

// clear ends what the program left running and returns what could not be killed. The id of a group
// is not given away while the group has members, so that only ours is hit.
func (p *Process) clear() (strays []int) {
	group := p.os.Pid
	if !groupEnds(group, settle) {
		unix.Kill(-group, syscall.SIGTERM)
		unix.Kill(-group, syscall.SIGCONT)
		if !groupEnds(group, min(afterTerm, max(p.c.Grace, pollGroup))) {
			unix.Kill(-group, syscall.SIGKILL)
			if !groupEnds(group, afterKill) {
				strays = members(group)
			}
		}
	}
	if p.call != "" {
		strays = append(strays, p.cgroup.end()...)
		strays = append(strays, sweep(p, p.left())...)
		atWork.Delete(p.call)
	}
	return strays
}

// groupEnds waits for the group to have no living members. At once is the usual case.
func groupEnds(group int, within time.Duration) bool {
	for end := patience.New(within); ; time.Sleep(pollGroup) {
		if errors.Is(unix.Kill(-group, 0), unix.ESRCH) || len(members(group)) == 0 {
			return true
		}
		if end.Over() {
			return false
		}
	}
}

// members are the living processes of a group; dead ones that nobody has waited for are none.
func members(group int) (pids []int) {
	for _, i := range processes() {
		if i.group == group && !i.dead {
			pids = append(pids, i.id.PID)
		}
	}
	return pids
}

func outcome(state *os.ProcessState, timedOut bool) Result {
	r := Result{Code: -1, TimedOut: timedOut}
	if state == nil {
		return r
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok {
		r.Code, r.Signal = decode(status)
	}
	if timedOut {
		r.Code = CodeTimeout
	}
	return r
}

func decode(status syscall.WaitStatus) (code int, signal string) {
	if status.Signaled() {
		return codeSignal + int(status.Signal()), unix.SignalName(status.Signal())
	}
	return status.ExitStatus(), ""
}

func strayError(pids []int) error {
	if len(pids) == 0 {
		return nil
	}
	return fmt.Errorf("processes %v stay alive after SIGKILL", pids)
}
