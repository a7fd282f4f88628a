package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ID identifies a process for good: pids are reused, a pid with a start time is not (until the next boot, see BootID).
type ID struct {
	PID   int
	Start string // in the system's notation, only for comparison
}

// Self returns the ID of this process.
func Self() ID {
	i, _ := inspect(os.Getpid())
	return ID{os.Getpid(), i.id.Start}
}

// Alive reports whether the process is running. A dead one that nobody has waited for is not. With an empty Start any process with
// that pid counts.
func (id ID) Alive() bool {
	i, ok := inspect(id.PID)
	return ok && !i.dead && (id.Start == "" || id.Start == i.id.Start)
}

// Kill sends SIGKILL to the process, if it exists. It never hits another process that got the pid since; without a Start it does
// nothing.
func (id ID) Kill() {
	if id.Start == "" || !id.Alive() {
		return
	}
	p, err := os.FindProcess(id.PID) // on Linux a handle, which never refers to another process
	if err != nil {
		return
	}
	defer p.Release()
	if id.Alive() {
		p.Kill()
	}
}

// String returns pid:start.
func (id ID) String() string { return fmt.Sprintf("%d:%s", id.PID, id.Start) }

// notBefore reports whether the process started when the other did or later, as far as the clock of start times tells. It returns
// true if an ID has no start time.
func (id ID) notBefore(other ID) bool {
	if a, b := len(id.Start), len(other.Start); a != b {
		return a > b || a == 0 // numbers without leading zeros
	}
	return id.Start >= other.Start
}

func parseID(s string) (ID, bool) {
	pid, start, ok := strings.Cut(s, ":")
	n, err := strconv.Atoi(pid)
	return ID{n, start}, ok && err == nil && n > 0
}

// info is what the system reports about a process.
type info struct {
	id     ID
	parent int
	group  int
	dead   bool // ended, and nobody has waited for it
}

// ancestors returns the pids of the ancestors of pid, from its parent up, as far as they can be inspected.
func ancestors(pid int) (pids []int) {
	for range 1000 { // more generations are a loop caused by reused pids
		i, ok := inspect(pid)
		if !ok || i.parent <= 0 {
			break
		}
		pid = i.parent
		pids = append(pids, pid)
	}
	return pids
}

// descendants returns the processes of all that descend from one of roots, without roots.
func descendants(all []info, roots map[int]bool) (found []info) {
	in := map[int]bool{}
	for grown := true; grown; {
		grown = false
		for _, i := range all {
			if !in[i.id.PID] && !roots[i.id.PID] && (roots[i.parent] || in[i.parent]) {
				in[i.id.PID], grown = true, true
				found = append(found, i)
			}
		}
	}
	return found
}
