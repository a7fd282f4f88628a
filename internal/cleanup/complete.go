package cleanup

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Completer completes tasks whose work was merged.
type Completer struct {
	Store taskdir.Store
	Now   func() time.Time
}

// CompleteMerged completes the tasks in review in list whose work is in its base, and the parents whose last child was among them,
// and returns their names. A task that somebody works on is left for another time.
func (c Completer) CompleteMerged(ctx context.Context, list []Leftover) (completed []string, err error) {
	for i, l := range list {
		if ctx.Err() != nil {
			return completed, context.Cause(ctx)
		}
		if _, held := Holder(l.Dir); held && l.Status == trellis.Review {
			continue
		}
		done, err := c.Complete(l, "")
		if err != nil {
			return completed, err
		}
		if len(done) > 0 && done[0] == l.ID {
			list[i].Status = trellis.Completed
		}
		completed = append(completed, done...)
	}
	return completed, nil
}

// Complete does for one task what CompleteMerged does, also if its pull request was merged: url is then the address of that,
// else "". It checks the parents even if the task is completed already, since an earlier call may have been cut off before them.
func (c Completer) Complete(l Leftover, url string) (completed []string, err error) {
	switch {
	case l.Status == trellis.Completed:
	case l.Status != trellis.Review || l.Proof == "" && url == "":
		return nil, nil
	default:
		done, err := c.complete(l, url)
		if err != nil || !done {
			return nil, err
		}
		completed = append(completed, l.ID)
	}
	if filepath.Dir(l.Dir) != c.Store.Tasks() {
		return completed, nil
	}
	parents, err := c.Store.CompleteParents(l.Dir)
	if err != nil {
		return completed, fmt.Errorf("completing the parents of %s: %w", l.ID, err)
	}
	return append(completed, parents...), nil
}

// complete sets a task in review to completed.
func (c Completer) complete(l Leftover, url string) (done bool, err error) {
	_, err = c.Store.Update(l.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status != trellis.Review || t.Pipeline.Revision != l.Task.Pipeline.Revision { // otherwise it went on meanwhile
			return nil
		}
		done = true
		e.Set("status", trellis.Completed)
		e.Set("pipeline.outcome", trellis.Merged)
		e.Set("completedAt", c.Now().Format(time.DateOnly))
		if url != "" && t.PRURL == "" {
			e.Set("pr_url", url)
		}
		return nil
	})
	return done, err
}
