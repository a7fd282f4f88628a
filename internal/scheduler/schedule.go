package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// settle is how long events of one directory are collected after the first, which counts at once.
const settle = 50 * time.Millisecond

// schedule is when which directory is looked at.
type schedule struct {
	due  map[string]time.Time
	seen map[string]time.Time // when a directory was last looked at
	soon map[string]bool      // due directories that a watch --once stays for
}

func newSchedule() schedule {
	return schedule{map[string]time.Time{}, map[string]time.Time{}, map[string]bool{}}
}

// put has a directory looked at at a time. When that is work to come which a run would sit out as well, a watch --once stays
// for it.
func (c *schedule) put(dir string, at time.Time, work bool) {
	c.due[dir], c.soon[dir] = at, work && time.Until(at) <= runner.ParkAfter
}

// now has a directory looked at as soon as there is room.
func (c *schedule) now(dir string) { c.due[dir] = time.Now() }

// settled has a directory looked at when what happens to it just now is over.
func (c *schedule) settled(dir string) { c.due[dir] = time.Now().Add(settle) }

// after has a directory looked at a while after it was looked at last, if that is not to happen before.
func (c *schedule) after(dir string, pause time.Duration) {
	at := c.seen[dir].Add(pause)
	if old, ok := c.due[dir]; !ok || old.After(at) {
		c.due[dir] = at
	}
}

// begin takes in that a directory is looked at now.
func (c *schedule) begin(dir string) {
	delete(c.due, dir)
	c.seen[dir] = time.Now()
}

// ready are the directories whose time has come, but for some: those that wait longest first.
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

// next is how long it is until a directory is due, but for some, and at most so long.
func (c *schedule) next(most time.Duration, but func(dir string) bool) time.Duration {
	for dir, at := range c.due {
		if !but(dir) {
			most = min(most, time.Until(at))
		}
	}
	return most
}

// idle reports whether nothing that a watch --once stays for is to come, but for some directories.
func (c *schedule) idle(but func(dir string) bool) bool {
	for dir, at := range c.due {
		if !but(dir) && (c.soon[dir] || time.Until(at) <= settle) {
			return false
		}
	}
	return true
}
