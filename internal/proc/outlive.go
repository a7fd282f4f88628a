package proc

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// sweeperVar names the guard in the environment of its sweeper.
const sweeperVar = "TRELLIS_GUARD_SWEEPER"

// startSweeper starts this program once more, in a session of its own, as a process that outlives the guard: when that
// is killed, it ends what the worker started. It knows of the guard's end by a pipe whose other end, which is
// returned, only the guard holds.
func startSweeper() (hold io.Closer, err error) {
	path, err := ownPath()
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	life, held, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer life.Close()
	p, err := os.StartProcess(path, os.Args, &os.ProcAttr{
		Env:   merge(os.Environ(), []string{sweeperVar + "=" + Self().String()}),
		Files: []*os.File{life, null, null},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		held.Close()
		return nil, fmt.Errorf("starting the sweeper: %w", err)
	}
	return held, p.Release() // it is waited for with the orphans
}

// outlive waits for the end of the guard, and ends what it left. A guard that comes to its end as it should leaves
// nothing, this process neither.
func outlive(g ID) {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
	io.Copy(io.Discard, os.Stdin) //nolint:errcheck // an end is an end
	sweep(nil, remains(g))
}

// remains matches what comes from a guard: its worker, what that started, and, by the tags of these, what has another
// environment. A later call may have got the same tag; it has the marker of its own guard.
func remains(g ID) func(pid int) bool {
	var tags []tag
	return func(pid int) bool {
		env := environ(pid)
		call, marked := lookup(env, callVar)
		guard, _ := lookup(env, guardVar)
		if guard != g.String() && !strings.HasPrefix(call, g.String()+"/") {
			return !marked && slices.Contains(tags, tagOf(pid))
		}
		if t := tagOf(pid); t != 0 {
			tags = append(tags, t)
		}
		return true
	}
}
