package git

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Forward takes a branch, and the checkout at dir that it is checked out in, from a commit to one that has it in its
// history, and reports whether they are there. They are left alone when the branch is elsewhere, the checkout is not on
// it, or something in it is not committed, but for what is below exclude. It may be called again after it was cut off.
// Without a dir it is the branch alone, unless some checkout is on that.
func (r Backups) Forward(ctx context.Context, dir, branch, from, to string, exclude ...string) (bool, error) {
	if dir == "" {
		return r.forwardAlone(ctx, branch, from, to)
	}
	if err := r.worktreeOrMain(dir); err != nil {
		return false, err
	}
	now, err := r.Refs().CurrentBranch(ctx, dir)
	if err != nil || now != branch {
		return false, err
	}
	tip, err := r.Refs().Branch(ctx, branch)
	if err != nil || tip != from {
		return err == nil && tip == to, err
	}
	if within, err := r.History().IsAncestor(ctx, from, to); err != nil || !within {
		return false, err
	}
	if _, _, err := r.Run(ctx, Command{Dir: dir, Write: true, Args: []string{"update-index", "-q", "--refresh"}, Accept: []int{1}}); err != nil {
		return false, err
	}
	_, differs, err := r.Run(ctx, Command{Dir: dir, Args: []string{"diff-index", "--quiet", to, "--"}, Accept: []int{1}})
	if err != nil {
		return false, err
	}
	if differs != 0 { // else only the branch is left to be moved
		if list, err := r.Index().Status(ctx, dir, exclude...); err != nil || slices.ContainsFunc(list, func(e Entry) bool { return !e.around(exclude) }) {
			return false, err
		}
		if _, _, err := r.Run(ctx, Command{Dir: dir, Write: true, Once: true, Args: []string{"read-tree", "-m", "-u", from, to}}); err != nil {
			return false, fmt.Errorf("taking %s to %.12s: %w", dir, to, err)
		}
	}
	if err := r.Refs().MoveRef(ctx, BranchPrefix+branch, to, from); err != nil {
		return false, fmt.Errorf("moving %s to %.12s: %w", branch, to, err)
	}
	return true, nil
}

// forwardAlone is Forward for a branch that no checkout is on.
func (r Backups) forwardAlone(ctx context.Context, branch, from, to string) (bool, error) {
	tip, err := r.Refs().Branch(ctx, branch)
	if err != nil || tip != from {
		return err == nil && tip == to, err
	}
	if within, err := r.History().IsAncestor(ctx, from, to); err != nil || !within {
		return false, err
	}
	here, err := r.Refs().CurrentBranch(ctx, r.Main)
	if err != nil || here == branch {
		return false, err
	}
	list, err := r.Worktrees().List(ctx)
	if err != nil || slices.ContainsFunc(list, func(w Worktree) bool { return w.Branch == branch && !w.Gone }) {
		return false, err
	}
	if err := r.Refs().MoveRef(ctx, BranchPrefix+branch, to, from); err != nil {
		return false, fmt.Errorf("moving %s to %.12s: %w", branch, to, err)
	}
	return true, nil
}

// around reports whether git names an untracked folder for nothing but what is excluded in it.
func (e Entry) around(exclude []string) bool {
	return e.untracked() && slices.ContainsFunc(exclude, func(path string) bool { return strings.HasPrefix(path, e.Path) })
}
