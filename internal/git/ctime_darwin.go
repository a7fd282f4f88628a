package git

import (
	"syscall"
	"time"
)

// changedAt returns when a file's content or metadata last changed (ctime).
func changedAt(st *syscall.Stat_t) time.Time { return time.Unix(st.Ctimespec.Unix()) }
