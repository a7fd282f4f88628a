package scheduler

import (
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/runner"
)

// settings are what a watcher goes by: what was asked of it, and the site as the files of the repository have it now.
type settings struct {
	s        *runner.Site // a reload takes another one; what is under way keeps the one that it began with
	options  WatchOptions
	joined   config.Shared // by which the watcher shares tasks with other machines as long as it is there
	reloadAt time.Time     // when they are read again; zero: nothing asks for it
}

// settingsDir is the folder of the files that a reload reads.
func (c *settings) settingsDir() string { return filepath.Join(c.s.Store.Root, ".trellis") }

func (c *settings) objectivesDir() string { return filepath.Join(c.settingsDir(), "objectives") }

// ledger is the file of what is trusted, "" when there is none.
func (c *settings) ledger() string {
	if c.s.Trust == nil || c.s.Trust.Ledger == nil {
		return ""
	}
	return c.s.Trust.Ledger.Path
}

// slots is how many tasks and plannings run at once.
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

// asksPulls reports whether this watcher asks about pull requests by itself: somebody works on what is wrong with them, or
// wants to hear of those that are well.
func (c *settings) asksPulls() bool {
	hears := func(n config.Notify) bool { return slices.Contains(n.On, config.Mergeable) }
	return c.s.Config.Delivery.React || slices.ContainsFunc(c.s.Config.Notify, hears)
}

// real is a time of the site's clock as one of the real clock.
func (c *settings) real(at time.Time) time.Time { return time.Now().Add(at.Sub(c.s.Clock())) }

// changed has them read again once their files have settled.
func (c *settings) changed() {
	if c.options.Reload != nil {
		c.reloadAt = time.Now().Add(settle)
	}
}

// reloadDue reports whether they changed a moment ago.
func (c *settings) reloadDue() bool { return !c.reloadAt.IsZero() && !c.reloadAt.After(time.Now()) }

// reload reads them again and reports whether they are others. Settings that are wrong leave those before.
func (c *settings) reload() (bool, error) {
	c.reloadAt = time.Time{}
	if c.options.Reload == nil {
		return false, nil
	}
	next, err := c.options.Reload()
	if err != nil || next == nil {
		return false, err
	}
	next.Succeed(c.s)
	c.s = next
	return true, nil
}
