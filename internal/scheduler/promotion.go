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
	lastStatus map[string]trellis.Status  // status of each directory at its last inspection
	dependsOn  map[string][]string        // IDs that a waiting directory depends on
	waitingFor map[string]map[string]bool // directories that wait for an ID
}

func newPromotion() promotion {
	return promotion{map[string]trellis.Status{}, map[string][]string{}, map[string]map[string]bool{}}
}

// unreadable is the status of a task whose task.json can't be read.
const unreadable trellis.Status = "unreadable"

// promote records what an inspection found. It reports whether the status changed, and returns the directories that wait for the task.
func (p *promotion) promote(f inspectionResult) (changed bool, waiting []string) {
	p.recordWaits(f.Dir, f.Assessment)
	var now trellis.Status // stays "" if the directory is gone
	switch {
	case f.Task != nil:
		now = f.Task.Status
	case !f.gone:
		now = unreadable
	}
	if p.lastStatus[f.Dir] == now {
		return false, nil
	}
	p.lastStatus[f.Dir] = now
	return true, slices.Collect(maps.Keys(p.waitingFor[filepath.Base(f.Dir)]))
}

// recordWaits records what a directory waits for now.
func (p *promotion) recordWaits(dir string, l runner.Assessment) {
	for _, id := range p.dependsOn[dir] {
		if delete(p.waitingFor[id], dir); len(p.waitingFor[id]) == 0 {
			delete(p.waitingFor, id)
		}
	}
	delete(p.dependsOn, dir)
	if len(l.Waits) == 0 {
		return
	}
	p.dependsOn[dir] = l.Task.Pipeline.DependsOn
	for _, id := range p.dependsOn[dir] {
		if p.waitingFor[id] == nil {
			p.waitingFor[id] = map[string]bool{}
		}
		p.waitingFor[id][dir] = true
	}
}

// forget drops a directory that is gone, after promote has recorded that.
func (p *promotion) forget(dir string) { delete(p.lastStatus, dir) }
