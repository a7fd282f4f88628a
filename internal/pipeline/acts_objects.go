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

// begin notes how they are. What was changed after since is looked at when somebody makes sure of them. That what others may have
// done before then is not believed either, the trees of base, by which changes are told, are hashed.
func (o *objects) begin(ctx context.Context, r *git.Repo, since time.Time, base string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.note(ctx, r, since, base)
}

func (o *objects) note(ctx context.Context, r *git.Repo, since time.Time, base string) error {
	seen, err := r.Objects(since)
	if err == nil {
		err = r.VerifyTrees(ctx, base)
	}
	if err == nil {
		o.seen = seen
	}
	return err
}

// check makes sure of them.
func (o *objects) check(ctx context.Context, r *git.Repo, since time.Time, base string) (notes []string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.seen == nil {
		if err := o.note(ctx, r, since, base); err != nil {
			return nil, err
		}
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
