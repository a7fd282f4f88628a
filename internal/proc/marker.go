package proc

import (
	"os"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/patience"
)

// sweepTime bounds a sweep: processes can fork faster than they are found, and a system call that
// hangs outlives SIGKILL.
const sweepTime = 3 * time.Second

// Sweep kills every process that carries the marker of a run, with all its descendants, and returns those that stay alive. It
// spares this process and its ancestors. On Linux the marker is more than a variable: a process that was given another environment
// and left its parents is found too, and so is one in a control group of the run, whatever it did, in this process's folder of
// control groups or one of cgroups.
func Sweep(marker string, cgroups ...string) []int {
	if marker == "" {
		return nil
	}
	left := sweepCgroups(marker, cgroups...)
	run := runTag(marker)
	return append(left, sweep(nil, func(i info) bool { return tagOf(i.id.PID).isOfRun(run) || hasVariable(i.id.PID, MarkerVar, marker) })...)
}

// hasVariable reports whether a process was started with this value of a variable.
func hasVariable(pid int, name, value string) bool {
	got, ok := Getenv(environ(pid), name)
	return ok && got == value
}

// recentStart is too short for any system to start as many processes as it has pids.
const recentStart = 20 * time.Millisecond

// sweep kills the processes that match, with their descendants, and waits until they are dead. If from is set, they have to come
// from it, and processes that were started earlier are not inspected.
func sweep(from *Process, match func(info) bool) []int {
	var spared []int
	var dying []ID // descendants carry no mark, and may take longer to die than the process that did
	for end := patience.New(sweepTime); ; time.Sleep(pollGroup) {
		dying = slices.DeleteFunc(dying, func(id ID) bool { return !id.Alive() })
		all, first := candidates(from)
		roots := matching(all, first, match)
		if len(roots) > 0 && spared == nil {
			spared = append(ancestors(os.Getpid()), os.Getpid())
		}
		found := withDescendants(all, roots, spared)
		for _, id := range found {
			id.Kill()
			if !slices.Contains(dying, id) {
				dying = append(dying, id)
			}
		}
		if len(dying) == 0 || end.Over() {
			return pidsOf(dying)
		}
	}
}

func pidsOf(ids []ID) (pids []int) {
	for _, id := range ids {
		pids = append(pids, id.PID)
	}
	return pids
}

// candidates returns the processes that may come from p, and maybe others that started before first.
func candidates(p *Process) (list []info, first ID) {
	if p == nil {
		return processes(), ID{}
	}
	if time.Since(p.began) < recentStart {
		if list, ok := startedAfter(p.os.Pid); ok && time.Since(p.began) < recentStart {
			return list, p.id
		}
	}
	return processes(), p.id
}

// matching returns the living processes that match, and that did not start before first.
func matching(all []info, first ID, match func(info) bool) map[int]bool {
	roots := map[int]bool{}
	for _, i := range all {
		if !i.dead && i.id.notBefore(first) && match(i) {
			roots[i.id.PID] = true
		}
	}
	return roots
}

// withDescendants returns roots and all their descendants, without the dead and the spared.
func withDescendants(all []info, roots map[int]bool, spared []int) (ids []ID) {
	for _, pid := range spared {
		delete(roots, pid)
	}
	for _, i := range append(descendants(all, roots), selected(all, roots)...) {
		if !i.dead && !slices.Contains(spared, i.id.PID) {
			ids = append(ids, i.id)
		}
	}
	return ids
}

func selected(all []info, pids map[int]bool) (list []info) {
	for _, i := range all {
		if pids[i.id.PID] {
			list = append(list, i)
		}
	}
	return list
}

// StartedByRun reports whether this process, whose environment is env, was started by a run: it or one of its ancestors carries a
// marker. A process that clears its environment and leaves its parents is not recognized.
func StartedByRun(env []string) bool {
	marked := func(env []string) bool {
		marker, _ := Getenv(env, MarkerVar)
		return marker != ""
	}
	return marked(env) || slices.ContainsFunc(ancestors(os.Getpid()), func(pid int) bool { return marked(environ(pid)) })
}
