package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// adoptOrphans is not possible here: what loses its parent goes to launchd.
func adoptOrphans() error { return nil }

func workerAttr() *syscall.SysProcAttr { return &syscall.SysProcAttr{} }

// followGuard kills this process when the guard ends.
func followGuard(g ID) error {
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

// endDescendants kills what the worker started, by the marker that each Command with one gives.
func endDescendants() {
	prefix := Self().String() + "/"
	sweep(nil, func(pid int) bool {
		value, _ := lookup(environ(pid), callVar)
		return strings.HasPrefix(value, prefix)
	})
	reapDead()
}
