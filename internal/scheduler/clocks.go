package scheduler

import "time"

// clocks are the one on the wall and the one that only counts, as they were when the watcher's loop turned last.
type clocks struct{ wall, counted time.Time }

// woke reports whether the machine slept, or its clock was set: by more than a moment, the wall clock went
// another way than the one that only counts. Nothing that was to happen at a time is certain then.
func (c *clocks) woke(wall time.Time) bool {
	now, counted := wall.Round(0), time.Now()
	off := now.Sub(c.wall) - counted.Sub(c.counted)
	c.wall, c.counted = now, counted
	return off.Abs() > clockJump
}

// clockJump is more than any clock is put right by as it runs.
const clockJump = 5 * time.Second
