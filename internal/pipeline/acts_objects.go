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
	mu   sync.Mutex
	seen *git.Objects
}

// begin notes how they are. What was changed after since is looked at when somebody makes sure of them.
func (o *objects) begin(r *git.Repo, since time.Time) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.seen, err = r.Objects(since)
	return err
}

// check makes sure of them. In a process that goes on with a run the dates of others' doing are not believed alone: the trees of the
// base, by which changes are told, are hashed.
func (o *objects) check(ctx context.Context, r *git.Repo, since time.Time, base string) (notes []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		seen, err := r.Objects(since)
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
// believes what stands there. One that is wrong ends the run; what was removed is told. In a worktree of before this process
// all count that were changed since its worktree was made.
func (a *Acts) verifyObjects(ctx context.Context, base string) ([]string, error) {
	notes, err := a.objects.check(ctx, a.Repo, a.theWorktree().Began(), base)
	return notes, a.asSwapped(err)
}
