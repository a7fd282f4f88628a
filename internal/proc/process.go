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
	settleTime = 500 * time.Millisecond // for processes that finish by themselves after their parent, like tee at the end of a pipe
	afterTerm  = time.Second            // for left-over members of the group to end after SIGTERM
	afterKill  = 3 * time.Second        // for the kernel to end processes after SIGKILL
	pollGroup  = 10 * time.Millisecond
)

// Process is a running program. Its methods are safe for concurrent use.
type Process struct {
	c      Command
	os     *os.Process
	id     ID      // of os; without a start time if the system did not tell
	call   string  // value of callVar, "" without a marker
	tag    tag     // set if call is
	cgroup *cgroup // set if call is, where there are control groups
	pipes  *pipes
	began  time.Time

	once     sync.Once
	cause    error         // why it was stopped; set before stopping is closed
	stopping chan struct{} // closed by Stop

	done   chan struct{} // closed once result and err are set
	result Result
	err    error
}

// PID returns the id of the program's process, which is that of its group and session, too.
func (p *Process) PID() int { return p.os.Pid }

// Stop begins to end the program as the end of the context does, and does not wait: it may be called from a Write of Stdout. Wait
// returns the cause of the first Stop; a nil cause is not an error.
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

// supervise waits for the end of the program and cleans up after it.
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
	strays := p.endLeftovers()
	writeErr := p.pipes.finish()
	p.result = outcome(state, timedOut)
	if n := p.result.Code - codeSignal; len(p.c.Launcher) > 0 && p.result.Signal == "" && !timedOut && n > 0 {
		p.result.Signal = unix.SignalName(syscall.Signal(n))
	}
	p.result.Seconds = time.Since(p.began).Seconds()
	p.Stop(nil) // from here on a Stop comes too late
	p.err = cmp.Or(p.cause, waitErr, writeErr, strayError(strays))
}

// watch waits for the end of the program, and ends it if the context, Stop or Wall demands that.
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

// signal sends a signal to the program and reports whether it ended within the given time.
func (p *Process) signal(sig syscall.Signal, within time.Duration, exited <-chan struct{}) bool {
	for _, target := range p.targets() {
		unix.Kill(target, sig)
		unix.Kill(target, syscall.SIGCONT) // a stopped process would not handle it
	}
	select {
	case <-exited:
		return true
	case <-time.After(within):
		return false
	}
}

// targets returns the arguments of kill(2) for a signal: the group, or with a launcher the members of the group except the
// launcher and its child, which acts as the init process there. A launcher that is alone has started nothing yet.
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

// endLeftovers ends the processes that the program left running and returns those that could not be killed. The id of a group is not
// reused while the group has members, so that no other group is hit.
func (p *Process) endLeftovers() (strays []int) {
	group := p.os.Pid
	if !groupEnds(group, settleTime) {
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
		strays = append(strays, sweep(p, p.leftovers())...)
		activeCalls.Delete(p.call)
	}
	return strays
}

// groupEnds waits until the group has no living members, which is usually the case at once.
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

// members returns the living processes of a group; dead ones that nobody has waited for don't count.
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
		r.Code, r.Signal = exitStatus(status)
	}
	if timedOut {
		r.Code = CodeTimeout
	}
	return r
}

func exitStatus(status syscall.WaitStatus) (code int, signal string) {
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
