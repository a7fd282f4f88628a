package scheduler

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
)

// eventPause is how long events of one directory are collected after the first one, which counts at once.
const eventPause = 50 * time.Millisecond

// schedule is when each directory is to be inspected.
type schedule struct {
	due         map[string]time.Time
	inspectedAt map[string]time.Time // when a directory was last inspected
	onceWaits   map[string]bool      // due directories that a watch --once waits for
}

func newSchedule() schedule {
	return schedule{map[string]time.Time{}, map[string]time.Time{}, map[string]bool{}}
}

// put has a directory inspected at a time. work: the directory will be run then, so a watch --once waits for it, unless that is more
// than runner.ParkAfter away.
func (c *schedule) put(dir string, at time.Time, work bool) {
	c.due[dir], c.onceWaits[dir] = at, work && time.Until(at) <= runner.ParkAfter
}

// putNow has a directory inspected as soon as there is a slot.
func (c *schedule) putNow(dir string) { c.due[dir] = time.Now() }

// putSettled has a directory inspected when current changes to it have settled.
func (c *schedule) putSettled(dir string) { c.due[dir] = time.Now().Add(eventPause) }

// putAfter has a directory inspected pause after its last inspection, unless it is due earlier.
func (c *schedule) putAfter(dir string, pause time.Duration) {
	at := c.inspectedAt[dir].Add(pause)
	if old, ok := c.due[dir]; !ok || old.After(at) {
		c.due[dir] = at
	}
}

// markInspecting records that a directory is being inspected now.
func (c *schedule) markInspecting(dir string) {
	delete(c.due, dir)
	c.inspectedAt[dir] = time.Now()
}

// dueDirs returns the directories that are due, except those for which except returns true, with the longest waiting first.
func (c *schedule) dueDirs(except func(dir string) bool) (dirs []string) {
	now := time.Now()
	for dir, at := range c.due {
		if !at.After(now) && !except(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.SortFunc(dirs, func(a, b string) int { return cmp.Or(c.due[a].Compare(c.due[b]), strings.Compare(a, b)) })
	return dirs
}

// next returns how long it is until a directory is due for which except returns false; it returns most if that is shorter.
func (c *schedule) next(most time.Duration, except func(dir string) bool) time.Duration {
	for dir, at := range c.due {
		if !except(dir) {
			most = min(most, time.Until(at))
		}
	}
	return most
}

// idle reports whether there is nothing that a watch --once waits for, not counting directories for which except returns true.
func (c *schedule) idle(except func(dir string) bool) bool {
	for dir, at := range c.due {
		if !except(dir) && (c.onceWaits[dir] || time.Until(at) <= eventPause) {
			return false
		}
	}
	return true
}
