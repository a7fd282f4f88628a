package planner

import (
	"context"
	"sync"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
)

// watcher watches the main checkout.
type watcher struct {
	repo *git.Repo

	mu   sync.Mutex
	seen *git.WorktreeState // after the last call
}

// watch looks whether the main checkout was changed while a planning agent, which may only read, was at work. People
// may be editing there, so a change is reported and stays. What was seen after one call is what the next begins with.
func (w *watcher) watch(ctx context.Context, _ flow.Call, _ agentcall.Request) (func(context.Context) ([]string, *flow.Failure, error), error) {
	before, err := w.lastSeen(ctx)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (notes []string, _ *flow.Failure, err error) {
		after, err := w.looks(ctx)
		if err != nil {
			return nil, nil, err
		}
		for _, path := range after.Since(*before) {
			notes = append(notes, path+" was changed while an agent that may only read was at work")
		}
		w.mu.Lock()
		w.seen = after
		w.mu.Unlock()
		return notes, nil, nil
	}, nil
}

func (w *watcher) lastSeen(ctx context.Context) (*git.WorktreeState, error) {
	w.mu.Lock()
	seen := w.seen
	w.mu.Unlock()
	if seen != nil {
		return seen, nil
	}
	return w.looks(ctx)
}

// looks is how the main checkout looks, without what is Trellis' own.
func (w *watcher) looks(ctx context.Context) (*git.WorktreeState, error) {
	l, err := w.repo.Index().StateOf(ctx, w.repo.Main, ".trellis/tasks", ".trellis/objectives", ".trellis/.runtime")
	return &l, err
}
