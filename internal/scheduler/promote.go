package scheduler

import (
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/runner"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// promotion knows which tasks wait for which, so that they are looked at again as soon as one of those moves on. The
// zero value knows of none.
type promotion struct {
	stood map[string]trellis.Status  // of each directory when it was looked at last
	wants map[string][]string        // what a directory that waits depends on, by id
	by    map[string]map[string]bool // the directories that wait for an id
}

// unreadable is where a task stands whose task.json can't be read.
const unreadable trellis.Status = "unreadable"

// promote takes in what was seen of a directory, and has those looked at that wait for it when its status changed.
func (w *watch) promote(f inspected) {
	p, dir, l := &w.promotion, f.Dir, f.Assessment
	if p.stood == nil {
		*p = promotion{map[string]trellis.Status{}, map[string][]string{}, map[string]map[string]bool{}}
	}
	p.waits(dir, l)
	var now trellis.Status // of what is gone
	switch {
	case l.Task != nil:
		now = l.Task.Status
	case !f.gone:
		now = unreadable
	}
	if p.stood[dir] == now {
		return
	}
	p.stood[dir] = now
	w.remind()
	if w.scan.found == nil {
		w.scan.found = map[string]bool{}
	}
	for other := range p.by[filepath.Base(dir)] { // none is begun before all are seen
		w.scan.left = append(w.scan.left, other)
	}
}

// waits notes what a directory waits for now.
func (p *promotion) waits(dir string, l runner.Assessment) {
	for _, id := range p.wants[dir] {
		if delete(p.by[id], dir); len(p.by[id]) == 0 {
			delete(p.by, id)
		}
	}
	delete(p.wants, dir)
	if l.Waits == "" {
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

// forget lets go of a directory that is gone. It was told that already.
func (p *promotion) forget(dir string) { delete(p.stood, dir) }
