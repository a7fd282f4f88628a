package proc

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ID names a process for good: pids are used again, a pid with a start time is not (until the next
// boot, see BootID).
type ID struct {
	PID   int
	Start string // the system's own notation, only to be compared
}

// Self is the ID of this process.
func Self() ID {
	i, _ := inspect(os.Getpid())
	return ID{os.Getpid(), i.id.Start}
}

// Alive reports whether the process runs. One that is dead and was not waited for does not. With
// an empty Start any process of that pid counts.
func (id ID) Alive() bool {
	i, ok := inspect(id.PID)
	return ok && !i.dead && (id.Start == "" || id.Start == i.id.Start)
}

// Kill sends SIGKILL to the process, if it is there. Another process that got its pid since is never hit; without a
// Start nothing is.
func (id ID) Kill() {
	if id.Start == "" || !id.Alive() {
		return
	}
	p, err := os.FindProcess(id.PID) // on Linux a handle: what it means stays the same
	if err != nil {
		return
	}
	defer p.Release()
	if id.Alive() {
		p.Kill()
	}
}

// String is pid:start.
func (id ID) String() string { return fmt.Sprintf("%d:%s", id.PID, id.Start) }

// notBefore reports whether the process began when the other did or later, as far as the clock of start times
// tells. Of an ID without a start time nothing is known, and it holds.
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

// info is what the system tells about a process.
type info struct {
	id     ID
	parent int
	group  int
	dead   bool // ended, and nobody has waited for it
}

// ancestors are the pids from the parent of pid up, of those that can be looked at.
func ancestors(pid int) (pids []int) {
	for range 1000 { // more generations than that are a loop made by pids in reuse
		i, ok := inspect(pid)
		if !ok || i.parent <= 0 {
			break
		}
		pid = i.parent
		pids = append(pids, pid)
	}
	return pids
}

// descendants are the processes of all that come from one of roots, roots excluded.
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
