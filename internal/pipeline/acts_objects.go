package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
)

// objects are git's, as they were when nobody of the run was at work, or when they were looked at last. The zero value has not
// begun.
type objects struct {
	mu       sync.Mutex
	seen     *git.Objects
	since    time.Time // when the first run began, by its journal: what was changed later is looked at
	borrowed []string  // what was borrowed then, nil: nobody knows
}

// Objects tells what the journal says of git's objects: when the first run of the task began, and where they were borrowed before
// any agent was at work, nil when that is not known.
func (g *guard) Objects(since time.Time, borrowed []string) {
	g.objects.mu.Lock()
	defer g.objects.mu.Unlock()
	g.objects.since, g.objects.borrowed = since, borrowed
}

// begin notes how they are, and returns where they are borrowed: as before, or as now when that is nil.
func (o *objects) begin(r *git.Repo, before []string) (borrowed []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen, err = r.Objects(o.since, before); err != nil {
		return nil, err
	}
	o.borrowed = o.seen.Borrowed()
	return o.borrowed, nil
}

// check makes sure of them. In a process that goes on with a run the dates of others' doing are not believed alone: the trees of the
// base, by which changes are told, are hashed.
func (o *objects) check(ctx context.Context, r *git.Repo, base string) (notes []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		seen, err := r.Objects(o.since, o.borrowed)
		if err == nil {
			err = r.VerifyTrees(ctx, base)
		}
		if err != nil {
			return nil, err
		}
		o.seen = seen
	}
	return o.seen.Check(ctx)
}

// verifyObjects makes sure of the objects that appeared or were changed since an agent or a command of the run was at work: git itself
// believes what stands there. One that is wrong ends the run; what was removed is told. In a process that goes on
// with a run all count that were changed since the first run began.
func (g *guard) verifyObjects(ctx context.Context, base string) ([]string, error) {
	notes, err := g.objects.check(ctx, g.repo, base)
	return notes, g.explain(err)
}

// beginObjects notes how git's objects are before any agent is at work.
func (g *guard) beginObjects(before []string) (borrowed []string, err error) {
	return g.objects.begin(g.repo, before)
}
