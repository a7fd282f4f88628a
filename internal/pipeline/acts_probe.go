package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// mostProbed is how many branches in review are looked at.
const mostProbed = 20

// probe says with which branches in review this one conflicts: the newest of those that are for the same base.
func (u *upstream) probe(ctx context.Context, _ flow.Call, in probeIn) (notes []string, err error) {
	list, err := u.store.List()
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	own, err := u.repo.Branch(ctx, in.Job.Branch)
	if err != nil {
		return nil, err
	}
	looked := 0
	for _, e := range list {
		t := e.Task
		if t == nil || t.ID == in.Task || t.Status != trellis.Review || t.BaseBranch != in.Job.BaseBranch || looked == mostProbed || t.ID == in.Job.StackedOn || t.Pipeline.StackedOn == in.Task {
			continue
		}
		tip, err := u.repo.Branch(ctx, t.BranchName())
		if err == nil && tip == "" {
			continue
		}
		looked++
		var files []string
		if err == nil {
			files, err = u.repo.Conflicts(ctx, own, tip)
		}
		switch {
		case errors.Is(err, git.ErrOldGit):
			return []string{"whether it conflicts with other work in review is not known: " + err.Error()}, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			notes = append(notes, fmt.Sprintf("whether it conflicts with %s is not known: %v", t.ID, err))
		case len(files) > 0:
			b := Bases{Repo: u.repo, Store: u.store, Known: u.merges}
			if done, err := b.merged(ctx, t, tip, Base{Commit: in.Job.BaseCommit}); err == nil && done {
				continue // nobody told its task yet
			}
			notes = append(notes, fmt.Sprintf("will conflict with %s in %s: merge one first", t.ID, strings.Join(few(files), ", ")))
		}
	}
	return notes, nil
}
