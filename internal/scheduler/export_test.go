package scheduler

import "time"

// Unrest keeps since when directories have been invalid without a report.
type Unrest = settling

// Until returns when to report the problems of a directory.
func (u settling) Until(dir string) time.Time { return u.until(dir) }
