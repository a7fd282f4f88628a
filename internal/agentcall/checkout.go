package agentcall

import (
	"context"
	"sync"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
)

// Checkout reads the state of the main checkout, for detecting changes to it while agents work. Its methods may be called
// concurrently.
type Checkout struct {
	Repo *git.Repo

	mu   sync.Mutex
	seen *git.WorktreeState
}

// Before returns the state before a call. By default that is the last state that was read; with fresh it is read again, so that
// only changes from now on are reported.
func (co *Checkout) Before(ctx context.Context, fresh bool) (git.WorktreeState, error) {
	co.mu.Lock()
	seen := co.seen
	co.mu.Unlock()
	if seen != nil && !fresh {
		return *seen, nil
	}
	return co.Now(ctx)
}

// NoteChanges returns a Recheck that notes what changed since before while an agent that may only read was at work. The changes
// are kept, because people or other agents may have made them.
func NoteChanges(before git.WorktreeState, now func(context.Context) (git.WorktreeState, error)) Recheck {
	return func(ctx context.Context) (notes []string, _ *flow.Failure, err error) {
		after, err := now(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range after.Since(before) {
			notes = append(notes, path+" was changed while an agent that may only read was at work")
		}
		return notes, nil, nil
	}
}

// Now reads the current state, without the folders of Trellis itself. People may change the checkout at the same time.
func (co *Checkout) Now(ctx context.Context) (git.WorktreeState, error) {
	state, err := co.Repo.Index().StateOf(ctx, co.Repo.Main, ".trellis/tasks", ".trellis/objectives", ".trellis/.runtime")
	if err == nil {
		co.mu.Lock()
		co.seen = &state
		co.mu.Unlock()
	}
	return state, err
}
