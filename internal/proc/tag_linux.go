package proc

import (
	"math"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// tagging is held while this process has a tag that is for another one.
var tagging sync.Mutex

// startTagged starts a program that has a tag from its first instant on, as everything has that comes from it: it is inherited from
// this process, which has it for as long as the start takes. It is the soft limit of how long real-time threads may
// work without a pause. At 146,000 years and more that limits nothing, nobody else uses it, and every descendant
// inherits it. Where the system refuses, markers have to do.
func startTagged(path string, argv []string, attr *os.ProcAttr, t tag) (*os.Process, error) {
	tagging.Lock() // also without a tag, so that none is inherited
	defer tagging.Unlock()
	var was unix.Rlimit
	if t != 0 && unix.Getrlimit(unix.RLIMIT_RTTIME, &was) == nil && was.Max >= uint64(t) {
		if unix.Setrlimit(unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: uint64(t), Max: was.Max}) == nil {
			defer unix.Setrlimit(unix.RLIMIT_RTTIME, &was) //nolint:errcheck // what was set before can be set
		}
	}
	return os.StartProcess(path, argv, attr)
}

// tagOf is the tag of a process, as far as it may be looked at.
func tagOf(pid int) tag {
	var l unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &l) != nil || l.Cur > math.MaxInt64 || l.Cur&tagBit == 0 {
		return 0
	}
	return tag(l.Cur)
}
