package ready

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// checkBase checks that the base of a task that has not begun exists. A task that has begun keeps the base that it began with.
func (c *check) checkBase(ctx context.Context) (err error) {
	if c.Begins == nil || mayHaveWork(c.Status) || c.task.Pipeline.BaseCommit != "" {
		return nil
	}
	c.baseCommit, err = c.findBase(ctx)
	c.baseless = err == nil && c.baseCommit == ""
	return err
}

// checkBranchFree checks that the branch of a task that has not begun is free, or the task's own.
func (c *check) checkBranchFree(ctx context.Context) error {
	if c.baseCommit == "" || git.CheckBranchName(c.task.BranchName()) != nil {
		return nil
	}
	err := c.checkBranchUsable(ctx, c.baseCommit)
	var taken *git.BranchError
	if !errors.As(err, &taken) {
		return err
	}
	hint := "trellis task set-branch " + trellis.ShellWord(c.As) + " BRANCH"
	if taken.Tip != "" {
		hint += ", or trellis start " + trellis.ShellWord(c.As) + " --adopt-branch if it is this task's"
	}
	c.addAt("branch", hint, "%v", taken)
	return nil
}

// CheckBranch returns a *git.BranchError if the task of in, which has not begun, could not work on the branch of that name. Check
// reports that once task.json names the branch.
func CheckBranch(ctx context.Context, in Input, name string) error {
	t, err := in.Store.Load(in.Dir)
	if err != nil {
		return err
	}
	named := *t
	named.Branch, named.Pipeline.BaseCommit = name, "" // a task that has begun begins afresh there
	c := &check{Input: in, task: &named}
	c.As, c.Status = cmp.Or(c.As, t.ID), trellis.Ready
	if err := c.checkBase(ctx); err != nil || c.baseCommit == "" && !c.baseless {
		return err
	}
	c.Adopt = c.Adopt || c.baseless // without a base, commits that are not the task's can't be found
	return c.checkBranchUsable(ctx, c.baseCommit)
}

// findBase returns the commit at which the work would begin, or "" if there is none, which it adds as a problem.
func (c *check) findBase(ctx context.Context) (commit string, err error) {
	name, hint := c.task.BaseBranch, "trellis task set-base-branch "+trellis.ShellWord(c.As)+" BRANCH"
	if name == "" {
		if name, err = c.Begins.Refs().CurrentBranch(ctx, c.Begins.Main); err == nil && name == "" {
			c.addAt("base_branch", hint, "no base_branch is set and no branch is checked out")
		}
		if err != nil || name == "" {
			return "", err
		}
	}
	commit, err = c.Begins.Refs().Resolve(ctx, name)
	if errors.Is(err, git.ErrNotFound) {
		c.addAt("base_branch", hint, "there is no base branch %s", name)
		return "", nil
	}
	return commit, err
}

// checkBranchUsable returns a *git.BranchError if the branch is taken: by commits that are not the task's, by a worktree, or by a branch
// that can't exist beside it, as a and a/b.
func (c *check) checkBranchUsable(ctx context.Context, base string) error {
	own := c.task.BranchName()
	tip, err := c.Begins.Refs().Branch(ctx, own)
	switch {
	case err != nil:
		return err
	case tip == "":
		return c.checkRefConflict(ctx, own)
	}
	if err := c.checkNotCheckedOut(ctx, own); err != nil || c.Adopt {
		return err
	}
	foreign, err := c.hasForeignCommits(ctx, base, tip)
	if foreign {
		return &git.BranchError{Branch: own, Taken: own, Tip: tip}
	}
	return err
}

// hasForeignCommits reports whether a branch has commits that are neither in the base nor made by this task. For a task that depends on
// others, the base is not known before it begins.
func (c *check) hasForeignCommits(ctx context.Context, base, tip string) (bool, error) {
	if tip == base || len(c.task.Pipeline.DependsOn) > 0 {
		return false, nil
	}
	if within, err := c.Begins.History().IsAncestor(ctx, tip, base); err != nil || within {
		return false, err
	}
	made, err := c.Begins.History().FindTrailer(ctx, base, tip, fmt.Sprintf("%s: %s", trellis.TaskTrailer, c.As))
	return made == "", err
}

// checkRefConflict returns a *git.BranchError if there is a branch where the new one needs a folder, or the other way round.
func (c *check) checkRefConflict(ctx context.Context, own string) error {
	for above := path.Dir(own); above != "."; above = path.Dir(above) {
		if tip, err := c.Begins.Refs().Branch(ctx, above); err != nil {
			return err
		} else if tip != "" {
			return &git.BranchError{Branch: own, Taken: above}
		}
	}
	below, err := os.Stat(filepath.Join(c.Begins.Common, "refs", "heads", filepath.FromSlash(own)))
	if err != nil || !below.IsDir() {
		return nil
	}
	return c.Begins.Refs().BranchFree(ctx, own)
}

// checkNotCheckedOut returns a *git.BranchError if the branch is checked out in a worktree that is not the task's.
func (c *check) checkNotCheckedOut(ctx context.Context, own string) error {
	if now, err := c.Begins.Refs().CurrentBranch(ctx, c.Begins.Main); err != nil {
		return err
	} else if now == own {
		return &git.BranchError{Branch: own, Taken: own, Worktree: c.Begins.Main}
	}
	all, err := c.Begins.Worktrees().List(ctx)
	for _, w := range all {
		if w.Branch == own && w.Owner() != c.As && !w.At(c.task.WorktreePath) {
			return &git.BranchError{Branch: own, Taken: own, Worktree: w.Path, Owner: cmp.Or(w.Owner(), c.claimant(w))}
		}
	}
	return err
}

// claimant returns another task whose task.json names a worktree, "" if there is none.
func (c *check) claimant(w git.Worktree) string {
	entries, _ := c.Store.List() // what can't be read names nothing
	for _, e := range entries {
		if e.Task != nil && e.Task.ID != c.As && e.Task.WorktreePath != "" && w.At(e.Task.WorktreePath) {
			return e.Task.ID
		}
	}
	return ""
}
