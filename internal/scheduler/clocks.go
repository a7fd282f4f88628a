package scheduler

import "time"

// clocks are the times of the wall clock and of the monotonic clock at the last turn of the watcher's loop.
type clocks struct{ wall, monotonic time.Time }

// woke reports whether the machine slept, or its clock was set: the wall clock and the monotonic clock advanced differently,
// by more than clockJump. Scheduled times are then no longer reliable.
func (c *clocks) woke(wall time.Time) bool {
	now, counted := wall.Round(0), time.Now()
	off := now.Sub(c.wall) - counted.Sub(c.monotonic)
	c.wall, c.monotonic = now, counted
	return off.Abs() > clockJump
}

// clockJump is more than any adjustment of a running clock.
const clockJump = 5 * time.Second
