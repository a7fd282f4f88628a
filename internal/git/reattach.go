package git

import (
	"context"
	"errors"
	"fmt"
)

// Reattach puts the HEAD of a checkout back on a branch that holds base, when someone switched to another
// branch or took commits away from below it. Files and index stay as they are: what they hold against base is
// still to be committed. Commits that nothing else names then are saved as ref, unless that is "". It reports whether it
// had to.
func (r Backups) Reattach(ctx context.Context, dir, branch, base, ref string) (bool, error) {
	if err := checkWorktree(ctx, dir); err != nil {
		return false, err
	}
	now, err := r.Refs().CurrentBranch(ctx, dir)
	if err != nil {
		return false, err
	}
	tip, err := r.Refs().Branch(ctx, branch)
	if err != nil {
		return false, err
	}
	holds := tip == base
	if tip != "" && !holds {
		if holds, err = r.History().IsAncestor(ctx, base, tip); err != nil {
			return false, err
		}
	}
	if now == branch && holds {
		return false, nil
	}
	if now != branch {
		head, err := r.Refs().Head(ctx, dir)
		if err == nil {
			err = r.saveCommit(ctx, head, "", ref)
		}
		if err != nil && !errors.Is(err, ErrNoCommit) {
			return false, fmt.Errorf("saving where %s was: %w", dir, err)
		}
	}
	if !holds {
		if err := r.saveCommit(ctx, tip, branch, ref); err != nil {
			return false, err
		}
		if err := r.Refs().MoveRef(ctx, "refs/heads/"+branch, base, tip); err != nil {
			return false, fmt.Errorf("putting %s back on its base: %w", branch, err)
		}
	}
	_, _, err = r.Run(ctx, Command{Dir: dir, Write: true, Args: []string{"symbolic-ref", "HEAD", "refs/heads/" + branch}})
	return true, err
}

// Keep makes ref name the commit that a branch ends in, and returns that; "" when there is no such branch. A
// ref that is there already must name the same.
func (r Backups) Keep(ctx context.Context, branch, ref string) (string, error) {
	tip, err := r.Refs().Branch(ctx, branch)
	if err != nil || tip == "" {
		return "", err
	}
	if old, err := r.Refs().Resolve(ctx, ref); err == nil && old == tip {
		return tip, nil
	}
	return tip, r.Refs().MoveRef(ctx, ref, tip, "")
}
