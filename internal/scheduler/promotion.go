package scheduler

import (
	"maps"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// promotion knows which tasks wait for which, so that they are inspected again as soon as one of those moves on.
type promotion struct {
	stood map[string]trellis.Status  // status of each directory at its last inspection
	wants map[string][]string        // IDs that a waiting directory depends on
	by    map[string]map[string]bool // directories that wait for an ID
}

func newPromotion() promotion {
	return promotion{map[string]trellis.Status{}, map[string][]string{}, map[string]map[string]bool{}}
}

// unreadable is the status of a task whose task.json can't be read.
const unreadable trellis.Status = "unreadable"

// promote records what an inspection found. It reports whether the status changed, and returns the directories that wait for the task.
func (p *promotion) promote(f inspected) (changed bool, waiting []string) {
	p.waits(f.Dir, f.Assessment)
	var now trellis.Status // stays "" if the directory is gone
	switch {
	case f.Task != nil:
		now = f.Task.Status
	case !f.gone:
		now = unreadable
	}
	if p.stood[f.Dir] == now {
		return false, nil
	}
	p.stood[f.Dir] = now
	return true, slices.Collect(maps.Keys(p.by[filepath.Base(f.Dir)]))
}

// waits records what a directory waits for now.
func (p *promotion) waits(dir string, l runner.Assessment) {
	for _, id := range p.wants[dir] {
		if delete(p.by[id], dir); len(p.by[id]) == 0 {
			delete(p.by, id)
		}
	}
	delete(p.wants, dir)
	if len(l.Waits) == 0 {
		return
	}
	p.wants[dir] = l.Task.Pipeline.DependsOn
	for _, id := range p.wants[dir] {
		if p.by[id] == nil {
			p.by[id] = map[string]bool{}
		}
		p.by[id][dir] = true
	}
}

// forget drops a directory that is gone, after promote has recorded that.
func (p *promotion) forget(dir string) { delete(p.stood, dir) }
