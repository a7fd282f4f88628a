package cleanup

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Restorable is what Remove removed of a task, as far as it can be restored.
type Restorable struct {
	Branch   string `json:"branch,omitempty"` // "": there was none
	Tip      string `json:"tip,omitempty"`
	Worktree string `json:"worktree,omitempty"` // "": there was none
	Saved    string `json:"saved,omitempty"`    // commit with what the worktree had beyond Tip; "": nothing
}

// Restorable returns what of a removal can be restored.
func (r Removal) Restorable(ctx context.Context, repo *git.Repo) (t Restorable, err error) {
	t.Branch, t.Tip = r.Branch, r.Tip
	for _, tree := range r.Trees {
		if !tree.Gone && !strings.HasSuffix(tree.Path, finalSuffix) {
			t.Worktree = tree.Path
		}
	}
	for _, ref := range r.Saved {
		attempt := ref[strings.LastIndexByte(ref, '/')+1:]
		if t.Worktree != "" && strings.Trim(attempt, "0123456789") == "" { // others are for the branch, or for the fresh checkout
			t.Saved, err = repo.Refs().Find(ctx, ref)
		}
	}
	return t, err
}

// Restore restores what was removed of the task in dir. It replaces nothing: an existing branch or folder of that name is an error.
func (c *Cleaner) Restore(ctx context.Context, dir string, t Restorable) (err error) {
	if _, err := c.Store.RunDir(dir); err != nil {
		return err
	}
	lock, err := runlock.Take(dir, c.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if t.Branch == "" {
		return fmt.Errorf("there was no branch; what the worktree held is %s", t.Saved)
	}
	if err := c.Repo.Refs().BranchFree(ctx, t.Branch); err != nil {
		return err
	}
	if t.Worktree == "" {
		return c.Repo.Refs().MoveRef(ctx, "refs/heads/"+t.Branch, t.Tip, "")
	}
	task, err := c.Store.Load(dir)
	if err != nil {
		return err
	}
	if err := c.Repo.Worktrees().Add(ctx, git.NewWorktree{Path: t.Worktree, Branch: t.Branch, Base: t.Tip, Owner: task.ID}); err != nil {
		return err
	}
	if t.Saved != "" {
		if err := snapshot.NewBackups(c.Repo).RestoreInto(ctx, t.Worktree, t.Saved); err != nil {
			return err
		}
	}
	_, err = c.Store.Update(dir, func(now *taskdir.Task, e *taskdir.Edit) error {
		e.KeepRevision()
		e.Set("worktree_path", t.Worktree)
		return nil
	})
	return err
}
