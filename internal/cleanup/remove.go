package cleanup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Removal is what was removed.
type Removal struct {
	Leftover           // as it was before
	Saved     []string // backups with what the base does not have
	Completed []string // tasks that turned out to be merged
}

// KeptError is returned if nothing was removed, and says why.
type KeptError struct{ ID, Why, Hint string }

func (e *KeptError) Error() string { return e.ID + " is left as it is: " + e.Why }

// Remove removes worktree and branch of a task, and completes the task if it turns out to be merged. With merged, it removes
// only work that is proven to be in its base; otherwise it first saves what is not there. It returns a *KeptError if nothing
// may be removed, and a *durable.HeldError if somebody works on the task.
func (c *Cleaner) Remove(ctx context.Context, dir string, merged bool) (r Removal, err error) {
	if _, err := c.Store.RunDir(dir); err != nil {
		return r, err
	}
	lock, err := runlock.Take(dir, c.Now())
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if r.Leftover, err = c.lookHeld(ctx, dir); err != nil {
		return r, err
	}
	if r.Keeps != "" {
		return r, &KeptError{r.ID, r.Keeps, r.Hint}
	}
	if merged && r.Proof == "" {
		return r, &KeptError{r.ID, r.Why, "trellis cleanup " + trellis.ShellWord(r.ID)}
	}
	if r.Completed, err = c.Completer().Complete(r.Leftover, ""); err != nil {
		return r, err
	}
	if err := c.save(ctx, &r); err != nil {
		return r, fmt.Errorf("saving the work of %s: %w", r.ID, err)
	}
	if err := c.removeAll(ctx, r.Leftover); err != nil {
		return r, fmt.Errorf("cleaning up after %s: %w", r.ID, err)
	}
	return r, nil
}

// lookHeld inspects a task whose lock this process holds, after it has repaired worktrees of which a part was removed before.
func (c *Cleaner) lookHeld(ctx context.Context, dir string) (l Leftover, err error) {
	all, err := c.Repo.Worktrees().List(ctx)
	if err != nil {
		return l, err
	}
	t, err := c.Store.Load(dir)
	if err != nil {
		return l, err
	}
	for _, w := range all {
		if owns(c.Folder, t, w) && checkNotSwapped(c.Repo, w) == nil {
			if err := c.Repo.Worktrees().Relink(w); err != nil {
				return l, err
			}
		}
	}
	return c.lookAt(ctx, dir, dir)
}

// save makes sure that what is to be removed is in a base or in a backup.
func (c *Cleaner) save(ctx context.Context, r *Removal) error {
	ref := fmt.Sprintf("%s%s/%d", snapshot.BackupRefs, r.ID, max(1, r.Task.Pipeline.Attempt))
	var saved []string // commits
	for _, tree := range r.Trees {
		name := ref
		if strings.HasSuffix(tree.Path, finalSuffix) {
			name += finalName
		}
		sha, err := c.saveTree(ctx, r.Leftover, tree, name)
		if err != nil {
			return err
		}
		if sha != "" {
			saved, r.Saved = append(saved, sha), append(r.Saved, name)
		}
	}
	for _, name := range []string{ref, ref + finalName} { // those of worktrees that were removed before
		if sha, err := c.Repo.Refs().Find(ctx, name); err != nil {
			return err
		} else if sha != "" {
			saved = append(saved, sha)
		}
	}
	return c.saveBranch(ctx, r, ref+"-branch", saved)
}

const finalName = "-final" // a ref can't contain ~

// saveTree makes a backup of a worktree that has more than its commit, or a commit that would be lost, and returns the commit
// of the backup; "" if there is nothing to save.
func (c *Cleaner) saveTree(ctx context.Context, l Leftover, tree Tree, ref string) (string, error) {
	if tree.Gone || tree.at.HalfMade() {
		return "", nil
	}
	head, err := c.Repo.Refs().Head(ctx, tree.Path)
	if errors.Is(err, git.ErrNoCommit) {
		head, err = "", nil
	}
	if err != nil {
		return "", err
	}
	safe := head == "" || head == l.Tip // saveBranch saves the tip
	if !safe {
		if safe, err = inBase(ctx, c.Repo, l, head); err != nil {
			return "", err
		}
	}
	dirty, _, err := inspector{c.Repo, c.Copied}.dirty(ctx, tree.Path)
	if err != nil || safe && !dirty {
		return "", err
	}
	sha, err := c.existingBackup(ctx, tree.Path, ref)
	if err == nil && sha == "" {
		sha, err = snapshot.NewBackups(c.Repo).Backup(ctx, tree.Path, ref, "trellis: work of "+l.ID+" that was taken away")
	}
	if inner, ok := errors.AsType[*git.EmbeddedRepoError](err); ok {
		return "", &KeptError{l.ID, nestedText(inner.Paths), "push what is in them, or move them away; then trellis cleanup " + trellis.ShellWord(l.ID)}
	}
	return sha, err
}

// existingBackup returns the backup that already has all that is left of a worktree: its removal was cut off, and a new backup
// would have a part only.
func (c *Cleaner) existingBackup(ctx context.Context, dir, ref string) (string, error) {
	sha, err := c.Repo.Refs().Find(ctx, ref)
	if err != nil || sha == "" {
		return "", err
	}
	if held, err := snapshot.NewBackups(c.Repo).Covers(ctx, sha, dir); err != nil || !held {
		return "", err
	}
	return sha, nil
}

// saveBranch keeps the commits of a branch, unless a base or a backup has them.
func (c *Cleaner) saveBranch(ctx context.Context, r *Removal, ref string, saved []string) error {
	if r.Branch == "" {
		return nil
	}
	for _, sha := range saved {
		if within, err := c.Repo.History().IsAncestor(ctx, r.Tip, sha); err != nil || within {
			return err
		}
	}
	if within, err := inBase(ctx, c.Repo, r.Leftover, r.Tip); err != nil || within {
		return err
	}
	name := ref
	for i := 2; ; i++ {
		old, err := c.Repo.Refs().Find(ctx, name)
		if err != nil {
			return err
		}
		if old == "" || old == r.Tip {
			break
		}
		name = fmt.Sprintf("%s-%d", ref, i)
	}
	tip, err := snapshot.NewBackups(c.Repo).PinBranch(ctx, r.Branch, name)
	if err == nil && tip != r.Tip {
		err = &git.MovedError{Ref: "refs/heads/" + r.Branch, Now: tip}
	}
	r.Saved = append(r.Saved, name)
	return err
}

// removeAll removes the worktrees, then the records of pushes of merged work, then the branch, then what the task says about them.
func (c *Cleaner) removeAll(ctx context.Context, l Leftover) error {
	for _, tree := range l.Trees {
		if err := c.Repo.Worktrees().Remove(ctx, tree.Path); err != nil {
			return err
		}
	}
	dir := filepath.Dir(filepath.Join(c.Folder, filepath.FromSlash(l.Task.BranchName())))
	for dir != c.Folder && filepath.IsLocal(l.Task.BranchName()) && os.Remove(dir) == nil { // it was empty
		dir = filepath.Dir(dir)
	}
	if l.Proof != "" {
		if err := c.Repo.Remotes().ForgetPushes(ctx, l.ID); err != nil {
			return err
		}
	}
	if l.Branch != "" {
		if err := update.New(c.Repo).EndUpdate(ctx, l.ID); err != nil {
			return err
		}
		if err := c.Repo.Refs().RemoveBranch(ctx, l.Branch, l.Tip); err != nil {
			return err
		}
	}
	_, err := c.Store.Update(l.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.WorktreePath != "" {
			e.Set("worktree_path", "")
		}
		return nil
	})
	return err
}
