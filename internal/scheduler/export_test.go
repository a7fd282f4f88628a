package scheduler

import "time"

// Unrest is when the watcher says what is wrong with a directory.
type Unrest = settling

// Until is when to say what is wrong with a directory.
func (u settling) Until(dir string) time.Time { return u.until(dir) }
