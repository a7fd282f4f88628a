package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// modules are the submodules that a task works in.
type modules struct {
	place
}

// atCommit returns the submodules of a job at the commits that commit records.
func (ms *modules) atCommit(ctx context.Context, j Job, commit string) (list []*git.Module, err error) {
	if len(j.Modules) > 0 && j.Setup.Timeout > 0 { // missing commits are fetched
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, j.Setup.Timeout, fmt.Errorf("it took longer than worktree.setup_timeout, %v", j.Setup.Timeout))
		defer cancel()
	}
	for _, path := range j.Modules {
		m, err := ms.repo.Modules().Module(ctx, commit, path)
		if err != nil {
			return nil, flow.Fail(string(trellis.HookFailed), "%v", err)
		}
		list = append(list, m)
	}
	return list, nil
}

// addWorktrees checks the submodules out in the worktree, each on a branch with the name of the task's.
func (ms *modules) addWorktrees(ctx context.Context, in prepareIn) error {
	list, err := ms.atCommit(ctx, in.Job, in.Job.BaseCommit)
	for _, m := range list {
		at := in
		at.Job.BaseCommit = m.Base
		own, err := mayUseBranch(ctx, m.Repo, at, filepath.Base(ms.task.dir))
		if err != nil {
			return err
		}
		if err := m.Worktrees().Add(ctx, git.NewWorktree{Path: m.Dir(in.Job.Worktree), Branch: in.Job.Branch, Base: m.Base, Adopt: own}); err != nil {
			return flow.Fail(string(trellis.WorktreeFailed), "submodule %s: %v", m.Path, err)
		}
	}
	return err
}

// removeBranches deletes the branches of the submodules, whose worktrees are gone. What they hold is kept under ref.
func (ms *modules) removeBranches(ctx context.Context, j Job, ref string) (notes []string, err error) {
	list, err := ms.atCommit(ctx, j, j.BaseCommit)
	for _, m := range list {
		tip, err := m.Refs().Branch(ctx, j.Branch)
		if err != nil {
			return notes, err
		}
		if tip == "" {
			continue
		}
		if tip != m.Base {
			if _, err := snapshot.NewBackups(m.Repo).PinBranch(ctx, j.Branch, ref); err != nil {
				return notes, err
			}
			notes = append(notes, fmt.Sprintf("the branch of %s so far is kept there as %s", m.Path, ref))
		}
		if err := m.Refs().DeleteBranch(ctx, j.Branch); err != nil {
			return notes, err
		}
	}
	return notes, err
}

// repair undoes changes in submodules that no agent may make to git.
func (ms *modules) repair(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	list, err := ms.atCommit(ctx, j, j.BaseCommit)
	for _, m := range list {
		strayed, err := snapshot.NewBackups(m.Repo).Reattach(ctx, m.Dir(j.Worktree), j.Branch, m.Base, ms.task.backupRef(c)+"-strayed")
		if err != nil {
			return notes, err
		}
		if strayed {
			notes = append(notes, m.Path+" had left its branch, or the branch its base: it was put back, the files as they were")
		}
		if _, err := m.Index().ClearHiddenFlags(ctx, m.Dir(j.Worktree)); err != nil {
			return notes, err
		}
	}
	return notes, err
}

// checkOut fills the submodules of a fresh checkout of a commit.
func (ms *modules) checkOut(ctx context.Context, j Job, commit string) error {
	list, err := ms.atCommit(ctx, j, commit)
	for _, m := range list {
		if err := m.Worktrees().Checkout(ctx, m.Dir(j.Worktree), m.Base); err != nil {
			return err
		}
	}
	return err
}

// checkUnmoved returns a failure if the new base has another commit of a submodule that the task works in.
func (ms *modules) checkUnmoved(ctx context.Context, j Job, next string) error {
	for _, path := range j.Modules {
		was, err := ms.repo.Modules().ModuleCommit(ctx, j.BaseCommit, path)
		if err != nil {
			return err
		}
		if now, err := ms.repo.Modules().ModuleCommit(ctx, next, path); err != nil {
			return err
		} else if now != was {
			return flow.Fail(string(trellis.Conflict), "%s moved on to %.12s, which has another commit of the submodule %s that this task works in; `git -C %s merge %.12[2]s`, with a commit of the submodule that has both, then `trellis retry %[5]s` checks that and continues", j.BaseBranch, next, path, trellis.ShellWord(j.Worktree), filepath.Base(ms.task.dir))
		}
	}
	return nil
}

// commitModules commits the work in the submodules, before the superproject commits their new tips. If an earlier attempt of the
// call has committed it, nothing is left to commit.
func (cm *committer) commitModules(ctx context.Context, c flow.Call, in commitIn, o git.CommitOptions, s *search) (notes []string, err error) {
	list, err := cm.modules.atCommit(ctx, in.Job, in.Job.BaseCommit)
	for _, m := range list {
		head, err := cm.commitModule(ctx, c, m, in, o, s)
		if err != nil {
			return notes, err
		}
		if head != m.Base {
			note := fmt.Sprintf("the work in %s is commit %.12s on its own branch %s", m.Path, head, in.Job.Branch)
			if !in.Job.Delivery.Push {
				note += fmt.Sprintf(": push that before the task's, with `git -C %s push origin %s`; `trellis deliver` does so", trellis.ShellWord(m.Path), trellis.ShellWord(in.Job.Branch))
			}
			notes = append(notes, note)
		}
	}
	return notes, err
}

// commitModule commits the work in one submodule. If its commits hold a secret, whoever made them, they are redone as one.
func (cm *committer) commitModule(ctx context.Context, c flow.Call, m *git.Module, in commitIn, o git.CommitOptions, s *search) (head string, err error) {
	dir := m.Dir(in.Job.Worktree)
	if _, err := snapshot.NewBackups(m.Repo).Reattach(ctx, dir, in.Job.Branch, m.Base, cm.task.backupRef(c)+"-strayed"); err != nil {
		return "", err
	}
	if head, err = m.Refs().Head(ctx, dir); err != nil {
		return "", err
	}
	own, err := m.History().FindTrailer(ctx, m.Base, head, o.Trailers[0])
	if err != nil {
		return "", err
	}
	moduleSearch := *s
	moduleSearch.repo, moduleSearch.pathPrefix, moduleSearch.job.Worktree, moduleSearch.job.BaseCommit = m.Repo, m.Path+"/", dir, m.Base
	defer func() { s.notes = moduleSearch.notes }()
	o.Amend, o.Exclude = head != m.Base && own == head, m.Below(NeverCommitted(in.Job))
	o.Inspect, moduleSearch.excluded = moduleSearch.inspect, o.Exclude
	const most = 2
	for try := 1; ; try++ {
		made, err := m.Committer().Commit(ctx, dir, o)
		if errors.Is(err, git.ErrNothing) { // there is no change, or the agent or an earlier attempt committed it all
			made, err = m.Refs().Head(ctx, dir)
		}
		if err != nil {
			return "", err
		}
		places, err := cm.leaks.retract(ctx, c, &moduleSearch, try)
		switch {
		case err != nil || len(places) == 0:
			return made, err
		case try == most:
			return "", &leakError{places}
		}
		o.Amend = false
	}
}
