package scheduler

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// settings are what a watcher works by: its options, and the site with the settings that the files of the repository have now.
type settings struct {
	s        *runner.Site // a reload replaces it; what is under way keeps the one that it began with
	options  WatchOptions
	joined   config.Shared // how the watcher shares tasks with other machines; stays the same until it ends
	reloadAt time.Time     // when the settings are read again; zero: not scheduled
}

// settingsDir returns the folder of the files that a reload reads.
func (c *settings) settingsDir() string { return filepath.Join(c.s.Store.Root, ".trellis") }

func (c *settings) objectivesDir() string { return filepath.Join(c.settingsDir(), "objectives") }

// ledgerPath returns the path of the file of what is trusted, "" if there is none.
func (c *settings) ledgerPath() string {
	if c.s.Trust == nil || c.s.Trust.Ledger == nil {
		return ""
	}
	return c.s.Trust.Ledger.Path
}

// slots returns how many tasks and plannings may run at once.
func (c *settings) slots() int {
	if c.options.Parallel > 0 {
		return c.options.Parallel
	}
	return max(1, c.s.Config.Limits.Parallel)
}

// worksOnObjectives reports whether this watcher works on objectives.
func (c *settings) worksOnObjectives() bool {
	return c.options.Objectives || c.s.Config.Objectives.Watch
}

// asksPulls reports whether this watcher checks pull requests by itself: runs are begun for what is wrong with them, or
// somebody is notified of those that can be merged.
func (c *settings) asksPulls() bool {
	hears := func(n config.Notify) bool { return slices.Contains(n.On, config.Mergeable) }
	return c.s.Config.Delivery.React || slices.ContainsFunc(c.s.Config.Notify, hears)
}

// realTime converts a time of the site's clock to one of the real clock.
func (c *settings) realTime(at time.Time) time.Time { return time.Now().Add(at.Sub(c.s.Clock())) }

// scheduleReload schedules a reload for when the files of the settings have settled.
func (c *settings) scheduleReload() {
	if c.options.Reload != nil {
		c.reloadAt = time.Now().Add(eventPause)
	}
}

// reloadDue reports whether it is time for the reload that scheduleReload has scheduled.
func (c *settings) reloadDue() bool { return !c.reloadAt.IsZero() && !c.reloadAt.After(time.Now()) }

// reload reads the settings again and reports whether they have changed. Invalid settings leave the previous ones in place.
func (c *settings) reload() (bool, error) {
	c.reloadAt = time.Time{}
	if c.options.Reload == nil {
		return false, nil
	}
	next, err := c.options.Reload()
	if err != nil || next == nil {
		return false, err
	}
	next.TakeOver(c.s)
	c.s = next
	return true, nil
}
