package proc

import (
	"math"

	"golang.org/x/sys/unix"
)

// setTag gives a process that was just started its tag, as the soft limit of how long its real-time threads may work without a
// pause. At 146,000 years and more this limits nothing, nobody else uses it, and every descendant inherits it. Where the system
// refuses, and for processes that the new one started in the microseconds before, the markers have to suffice.
func setTag(pid int, t tag) {
	var was unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &was) == nil && was.Max >= uint64(t) {
		_ = unix.Prlimit(pid, unix.RLIMIT_RTTIME, &unix.Rlimit{Cur: uint64(t), Max: was.Max}, nil)
	}
}

// tagOf returns the tag of a process, 0 if it has none or may not be inspected.
func tagOf(pid int) tag {
	var l unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_RTTIME, nil, &l) != nil || l.Cur > math.MaxInt64 || l.Cur&tagBit == 0 {
		return 0
	}
	return tag(l.Cur)
}
