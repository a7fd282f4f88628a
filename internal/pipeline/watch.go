package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/trellis-tasks/trellis/internal/agentcall"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// callWatch checks the repository before and after an agent's call.
type callWatch struct {
	place
	guard     *worktreeGuard
	checkout  *mainWatch
	readOnly  *readerSnapshot
	standards *standardsWatch
}

// Watch makes sure that an agent works only in the worktree that was made for it.
func (cw *callWatch) Watch(ctx context.Context, c flow.Call, r agentcall.Request) (agentcall.Recheck, error) {
	m := cw.guard.worktree()
	if err := cw.guard.checkSame(m); err != nil {
		return nil, err
	}
	ctx, err := cw.guard.confine(ctx, baseOf(r.Data))
	if err != nil {
		return nil, err
	}
	main, err := cw.checkout.watch(ctx, c, r)
	if err != nil {
		return nil, err
	}
	standards, err := cw.standards.watch(c)
	if err != nil {
		return nil, err
	}
	tree := agentcall.Recheck(func(context.Context) ([]string, *flow.Failure, error) { return nil, nil, nil })
	if r.Permission == trellis.PermitRead {
		if tree, err = cw.watchReader(ctx, c, r); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context) ([]string, *flow.Failure, error) {
		ctx, err := cw.guard.confine(ctx, baseOf(r.Data))
		if err != nil {
			return nil, nil, err
		}
		notes, fail, err := tree(ctx)
		if gone := cw.guard.checkSame(m); gone != nil {
			fail, err = flow.AsFailure(gone), nil
		}
		more, moved, mainErr := main(ctx)
		if fail == nil {
			fail = moved
		}
		standardsNotes, standardsErr := standards(fmt.Sprintf("the %s agent was at work", r.Role))
		return slices.Concat(notes, standardsNotes, more), fail, errors.Join(err, mainErr, standardsErr)
	}, nil
}

// watchReader makes sure that a role that may only read leaves the worktree unchanged: its changes are undone, and fail its call.
func (cw *callWatch) watchReader(ctx context.Context, c flow.Call, r agentcall.Request) (agentcall.Recheck, error) {
	var d promptData
	if err := json.Unmarshal(r.Data, &d); err != nil {
		return nil, fmt.Errorf("reading the request: %w", err)
	}
	before, err := snapshot.New(cw.repo).Snapshot(ctx, r.Dir, NeverCommitted(d.Job)...)
	if err != nil {
		return nil, err
	}
	cw.readOnly.Store(before)
	return func(ctx context.Context) (_ []string, _ *flow.Failure, err error) {
		cw.readOnly.Store(nil)
		defer func() { err = errors.Join(err, before.Close()) }()
		undone, err := before.Restore(ctx, cw.task.backupRef(c))
		if err != nil || len(undone) == 0 {
			return nil, nil, err
		}
		return nil, flow.Fail(string(trellis.ProtectedPath), "the %s agent may only read, but changed %s; that was undone", r.Role, strings.Join(shortList(pathsOf(undone)), ", ")), nil
	}, nil
}

// readerSnapshot is the worktree before a call that may only read, for its prompt to show.
type readerSnapshot = atomic.Pointer[snapshot.Snapshot]
