package proc

import (
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// sweepTime bounds a sweep: processes can fork faster than they are found, and a system call that
// hangs outlives SIGKILL.
const sweepTime = 3 * time.Second

// Sweep kills every process that carries the marker of a run in its environment, with all that
// descend from it, and returns those that stay alive. It spares this process and its ancestors.
// A process that was given another environment and left its parents is not found.
func Sweep(marker string) []int {
	if marker == "" {
		return nil
	}
	return sweep(func(env []string) bool {
		value, _ := lookup(env, MarkerVar)
		return value == marker
	})
}

func sweep(match func(env []string) bool) []int {
	spared := append(ancestors(os.Getpid()), os.Getpid())
	for end := time.Now().Add(sweepTime); ; time.Sleep(pollGroup) {
		found := marked(match, spared)
		if len(found) == 0 || time.Now().After(end) {
			return found
		}
		for _, pid := range found {
			unix.Kill(pid, syscall.SIGKILL)
		}
	}
}

// marked are the living processes whose environment matches, and their descendants.
func marked(match func(env []string) bool, spared []int) (pids []int) {
	all := processes()
	roots := map[int]bool{}
	add := func(i info) {
		if !i.dead && !slices.Contains(spared, i.id.PID) {
			pids = append(pids, i.id.PID)
		}
	}
	for _, i := range all {
		if !i.dead && !slices.Contains(spared, i.id.PID) && match(environ(i.id.PID)) {
			roots[i.id.PID] = true
			add(i)
		}
	}
	if len(roots) == 0 {
		return nil
	}
	for _, i := range descendants(all, roots) {
		add(i)
	}
	return pids
}

// InsideRun reports whether this process, whose environment is env, was started by a run: it or one
// of its ancestors carries a marker, which is returned. Whoever clears the environment and leaves
// its parents gets past it.
func InsideRun(env []string) (marker string, ok bool) {
	if marker, _ = lookup(env, MarkerVar); marker != "" {
		return marker, true
	}
	for _, pid := range ancestors(os.Getpid()) {
		if marker, _ = lookup(environ(pid), MarkerVar); marker != "" {
			return marker, true
		}
	}
	return "", false
}
