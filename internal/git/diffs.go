package git

import (
	"slices"
	"sync"
)

// diffCache remembers what differs between commits and trees, which never changes: a commit is told apart from its base as
// its snapshot was. The zero value is empty.
type diffCache struct {
	mu    sync.Mutex
	known map[string][]Change // by commit, colon and tree
}

// Of so many, and so long, comparisons the result is kept: those of the tasks that run now.
const (
	maxDiffs   = 100
	maxChanges = 1000
)

func (d *diffCache) recall(commit, tree string) ([]Change, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	list, ok := d.known[commit+":"+tree]
	return slices.Clone(list), ok
}

func (d *diffCache) keep(commit, tree string, list []Change) {
	if !isHash(commit) || len(list) > maxChanges {
		return // a name can mean another commit next time
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil || len(d.known) >= maxDiffs {
		d.known = map[string][]Change{}
	}
	d.known[commit+":"+tree] = slices.Clone(list)
}
