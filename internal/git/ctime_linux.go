package git

import (
	"syscall"
	"time"
)

// changedAt is when a file, or what is said of it, was changed last, by the clock.
func changedAt(st *syscall.Stat_t) time.Time { return time.Unix(st.Ctim.Unix()) }
