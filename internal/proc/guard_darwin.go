package proc

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans does nothing: the system gives orphans to launchd.
func adoptOrphans() error { return nil }

func workerAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// endWithReaper kills this process when the reaper ends.
func endWithReaper(g ID) error {
	queue, err := unix.Kqueue()
	if err != nil {
		return fmt.Errorf("watching the guard: %w", err)
	}
	unix.CloseOnExec(queue)
	var event unix.Kevent_t
	unix.SetKevent(&event, g.PID, unix.EVFILT_PROC, unix.EV_ADD|unix.EV_ONESHOT)
	event.Fflags = unix.NOTE_EXIT
	if _, err := unix.Kevent(queue, []unix.Kevent_t{event}, nil, nil); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("watching the guard: %w", err)
	}
	go func() {
		for g.Alive() {
			unix.Kevent(queue, nil, make([]unix.Kevent_t, 1), nil)
		}
		unix.Kill(os.Getpid(), syscall.SIGKILL)
	}()
	return nil
}

func ownPath() (string, error) { return os.Executable() }

// endDescendants kills the remaining descendants of a process that was started and has ended: a worker is found by the ID of its
// reaper, and its commands by the markers that it gave them.
func endDescendants(from ID) {
	reapers := []ID{from, Self()}
	sweep(nil, func(i info) bool {
		env := environ(i.id.PID)
		call, _ := Getenv(env, callVar)
		guard, _ := Getenv(env, guardVar)
		return slices.ContainsFunc(reapers, func(r ID) bool { return guard == r.String() || strings.HasPrefix(call, r.String()+"/") })
	})
	reapDead()
}
