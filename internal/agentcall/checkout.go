package agentcall

import (
	"context"
	"sync"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
)

// Checkout tells how the main checkout looks, for who watches what is changed there while agents are at work. Its methods may
// be called concurrently.
type Checkout struct {
	Repo *git.Repo

	mu   sync.Mutex
	seen *git.WorktreeState
}

// Before is how it looks before a call. What was seen after one call is what the next begins with, but with fresh, when it
// is to be said of what is changed from now on alone.
func (co *Checkout) Before(ctx context.Context, fresh bool) (git.WorktreeState, error) {
	co.mu.Lock()
	seen := co.seen
	co.mu.Unlock()
	if seen != nil && !fresh {
		return *seen, nil
	}
	return co.Now(ctx)
}

// NoteChanges is a Watcher that notes what was changed since before while an agent was at work that may only read. People, or
// other agents, may be the cause: it stays.
func NoteChanges(before git.WorktreeState, now func(context.Context) (git.WorktreeState, error)) Watcher {
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

// Now is how it looks, without what is Trellis' own. People may be at work there.
func (co *Checkout) Now(ctx context.Context) (git.WorktreeState, error) {
	state, err := co.Repo.Index().StateOf(ctx, co.Repo.Main, ".trellis/tasks", ".trellis/objectives", ".trellis/.runtime")
	if err == nil {
		co.mu.Lock()
		co.seen = &state
		co.mu.Unlock()
	}
	return state, err
}
