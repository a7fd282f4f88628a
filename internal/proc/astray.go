package proc

import (
	"os"
	"sync"
)

// atWork are the calls of this process that have not ended, with their tags.
var atWork sync.Map

// left matches what a program left: what carries the marks of its call, and what went astray.
func (p *Process) left() func(info) bool {
	reaper, guarded := Guarded()
	return func(i info) bool {
		pid := i.id.PID
		return tagOf(pid) == p.tag || carries(pid, callVar, p.call) || guarded && i.parent == reaper.PID && astray(pid)
	}
}

// astray reports whether an orphan, which the reaper has adopted, carries the marks of nobody who is at work here. Whoever
// drops them all hides, and has nobody left for whose end it could wait. What git leaves to itself, the repacking of a
// repository say, does not hide.
func astray(pid int) bool {
	if pid == os.Getpid() {
		return false
	}
	env := environ(pid)
	call, _ := Getenv(env, callVar)
	marker, _ := Getenv(env, MarkerVar)
	if _, busy := atWork.Load(call); busy || MarkerVar+"="+marker == Owned(Self()) {
		return false
	}
	t, tagged := tagOf(pid), false
	atWork.Range(func(_, value any) bool {
		tagged = value == t
		return !tagged
	})
	return !tagged
}
