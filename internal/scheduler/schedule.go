package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// settle is how long events of one directory are collected after the first one, which counts at once.
const settle = 50 * time.Millisecond

// schedule is when each directory is to be inspected.
type schedule struct {
	due  map[string]time.Time
	seen map[string]time.Time // when a directory was last inspected
	soon map[string]bool      // due directories that a watch --once waits for
}

func newSchedule() schedule {
	return schedule{map[string]time.Time{}, map[string]time.Time{}, map[string]bool{}}
}

// put has a directory inspected at a time. If there is work to do then, and a run would sit out as long a wait, a watch
// --once waits for it.
func (c *schedule) put(dir string, at time.Time, work bool) {
	c.due[dir], c.soon[dir] = at, work && time.Until(at) <= runner.ParkAfter
}

// now has a directory inspected as soon as there is a slot.
func (c *schedule) now(dir string) { c.due[dir] = time.Now() }

// settled has a directory inspected when current changes to it have settled.
func (c *schedule) settled(dir string) { c.due[dir] = time.Now().Add(settle) }

// after has a directory inspected pause after its last inspection, unless it is due earlier.
func (c *schedule) after(dir string, pause time.Duration) {
	at := c.seen[dir].Add(pause)
	if old, ok := c.due[dir]; !ok || old.After(at) {
		c.due[dir] = at
	}
}

// begin records that a directory is being inspected now.
func (c *schedule) begin(dir string) {
	delete(c.due, dir)
	c.seen[dir] = time.Now()
}

// ready returns the directories that are due, except those for which but returns true, with the longest waiting first.
func (c *schedule) ready(but func(dir string) bool) (dirs []string) {
	now := time.Now()
	for dir, at := range c.due {
		if !at.After(now) && !but(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(c.due[a].Compare(c.due[b]), strings.Compare(a, b)) })
	return dirs
}

// next returns how long it is until a directory is due for which but returns false; it returns most if that is shorter.
func (c *schedule) next(most time.Duration, but func(dir string) bool) time.Duration {
	for dir, at := range c.due {
		if !but(dir) {
			most = min(most, time.Until(at))
		}
	}
	return most
}

// idle reports whether there is nothing that a watch --once waits for, not counting directories for which but returns true.
func (c *schedule) idle(but func(dir string) bool) bool {
	for dir, at := range c.due {
		if !but(dir) && (c.soon[dir] || time.Until(at) <= settle) {
			return false
		}
	}
	return true
}
