package proc

import (
	"os"
	"sync"
)

// activeCalls holds the calls of this process that have not ended, with their tags.
var activeCalls sync.Map

// leftovers returns a function that matches the processes that a program left: those with the marks of its call, and those that went astray.
func (p *Process) leftovers() func(info) bool {
	reaper, guarded := Guarded()
	return func(i info) bool {
		pid := i.id.PID
		return tagOf(pid) == p.tag || hasVariable(pid, callVar, p.call) || guarded && i.parent == reaper.PID && isStray(pid)
	}
}

// isStray reports whether an orphan, which the reaper has adopted, carries the marks of no call that is at work here. A process
// that drops them all hides, and there is no call left whose end it could wait for. What git leaves running by itself, to repack a
// repository for example, does not hide.
func isStray(pid int) bool {
	if pid == os.Getpid() {
		return false
	}
	env := environ(pid)
	call, _ := Getenv(env, callVar)
	marker, _ := Getenv(env, MarkerVar)
	if _, busy := activeCalls.Load(call); busy || MarkerVar+"="+marker == OwnerVariable(Self()) {
		return false
	}
	t, tagged := tagOf(pid), false
	activeCalls.Range(func(_, value any) bool {
		tagged = value == t
		return !tagged
	})
	return !tagged
}
