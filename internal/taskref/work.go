package taskref

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
)

// ImportWork creates a worktree at path on the branch of a state, with the files that it had where the state was saved: what was
// uncommitted there is uncommitted here, and unstaged. An existing worktree and branch of the task are first saved as backups
// if they hold anything that the state lacks; files that git ignores in that worktree are lost. If the branch belongs to
// another task, the error is a *git.BranchError. An interrupted call is repaired by the next one. It does nothing if the state
// has no work.
func (r Remote) ImportWork(ctx context.Context, s State, path string) error {
	if s.Branch == "" {
		return nil
	}
	b := workImport{r, s, path}
	err := b.fetch(ctx)
	if err == nil {
		err = b.clearOld(ctx)
	}
	if err == nil {
		err = b.createWorktree(ctx)
	}
	if err != nil {
		return fmt.Errorf("bringing the work of %s from %s: %w", s.Task, r.Name, err)
	}
	return nil
}

// workImport brings the work of a state to a path.
type workImport struct {
	Remote
	state State
	path  string
}

// fetch makes sure that the commits of the work exist here, and match the state.
func (b workImport) fetch(ctx context.Context) error {
	here, err := b.hasCommits(ctx)
	if err == nil && !here {
		if err = b.Repo.Remotes().FetchRefs(ctx, b.Name, b.timeout(), b.spec()); err == nil {
			here, err = b.hasCommits(ctx)
		}
	}
	if err == nil && !here {
		err = fmt.Errorf("the remote has not the commits that the state %.12s names", b.state.Commit)
	}
	return err
}

// FetchWork fetches the commits of the work of several states with one request to the remote. If one of them is missing there,
// possibly none is fetched: whoever brings work fetches what is missing.
func (r Remote) FetchWork(ctx context.Context, states []State) error {
	var specs []string
	for _, s := range states {
		b := workImport{Remote: r, state: s}
		if s.Branch == "" {
			continue
		}
		if here, err := b.hasCommits(git.Hookless(ctx)); err == nil && !here {
			specs = append(specs, b.spec())
		}
	}
	if len(specs) == 0 {
		return nil
	}
	return r.Repo.Remotes().FetchRefs(git.Hookless(ctx), r.Name, r.timeout(), specs...)
}

// spec returns the refspec of the work.
func (b workImport) spec() string {
	return "+" + wipRefs + b.state.Task + ":" + remoteRefs + strings.TrimPrefix(wipRefs, git.OwnPrefix) + b.state.Task
}

func (b workImport) hasCommits(ctx context.Context) (bool, error) {
	for _, commit := range []string{b.state.Head, b.state.Work} {
		if here, err := b.Repo.Refs().Find(ctx, commit); err != nil || here == "" {
			return false, err
		}
	}
	if b.state.Head == b.state.Work {
		return true, nil
	}
	within, err := b.Repo.History().IsAncestor(ctx, b.state.Head, b.state.Work)
	if err == nil && !within {
		err = fmt.Errorf("the state %.12s is not of one piece: its work was not begun at the head of its branch", b.state.Commit)
	}
	return within, err
}

// clearOld removes the local worktree and branch of the task, unless they match the state, after backing them up.
func (b workImport) clearOld(ctx context.Context) error {
	all, err := b.Repo.Worktrees().List(ctx)
	if err == nil {
		err = b.checkBranchFree(ctx, all)
	}
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.Owner() != b.state.Task || w.Branch != b.state.Branch && !w.At(b.path) {
			continue
		}
		if err := b.clearWorktree(ctx, w); err != nil {
			return err
		}
	}
	return b.moveBranch(ctx)
}

func (b workImport) clearWorktree(ctx context.Context, w git.Worktree) error {
	if !w.Gone && !w.HalfMade() {
		if same, err := b.matches(ctx, w); err != nil || same && w.At(b.path) {
			return err
		}
		if err := b.backUpWorktree(ctx, w); err != nil {
			return err
		}
	}
	if err := b.Disk.Step("remove", w.Path); err != nil {
		return err
	}
	return b.Repo.Worktrees().Remove(ctx, w.Path)
}

// matches reports whether a worktree already holds what the state has.
func (b workImport) matches(ctx context.Context, w git.Worktree) (bool, error) {
	if head, err := b.Repo.Refs().Head(ctx, w.Path); err != nil || head != b.state.Head || w.Branch != b.state.Branch {
		return false, err
	}
	now, err := snapshot.New(b.Repo).TreeOf(ctx, w.Path, b.Exclude...)
	if err != nil {
		return false, err
	}
	tree, err := b.Repo.Refs().TreeAt(ctx, b.state.Work)
	return now == tree, err
}

// backUpWorktree makes a backup of a worktree, unless it holds what this clone saved last.
func (b workImport) backUpWorktree(ctx context.Context, w git.Worktree) error {
	backups := snapshot.NewBackups(b.Repo)
	last, err := b.Repo.Refs().Find(ctx, wipRefs+b.state.Task)
	if err == nil && last != "" {
		held, err := backups.Covers(ctx, last, w.Path)
		if err != nil || held {
			return err
		}
	}
	if err != nil {
		return err
	}
	ref, err := b.backupRef(ctx, b.state.Task, "work-")
	if err == nil {
		_, err = backups.Backup(ctx, w.Path, ref, "trellis: work of "+b.state.Task+" before that of another machine took its place")
	}
	return err
}

// moveBranch moves the branch to the state's head. Commits beyond that are backed up.
func (b workImport) moveBranch(ctx context.Context) error {
	tip, err := b.Repo.Refs().Branch(ctx, b.state.Branch)
	if err != nil || tip == "" || tip == b.state.Head {
		return err
	}
	within, err := b.Repo.History().IsAncestor(ctx, tip, b.state.Work)
	if err == nil && !within {
		err = b.backUpBranch(ctx)
	}
	if err == nil {
		err = b.Disk.Step("move", git.BranchPrefix+b.state.Branch)
	}
	if err != nil {
		return err
	}
	return b.Repo.Refs().MoveRef(ctx, git.BranchPrefix+b.state.Branch, b.state.Head, tip)
}

func (b workImport) backUpBranch(ctx context.Context) error {
	ref, err := b.backupRef(ctx, b.state.Task, "branch-")
	if err == nil {
		_, err = snapshot.NewBackups(b.Repo).PinBranch(ctx, b.state.Branch, ref)
	}
	return err
}

// checkBranchFree returns an error if another checkout uses the branch.
func (b workImport) checkBranchFree(ctx context.Context, all []git.Worktree) error {
	if here, err := b.Repo.Refs().CurrentBranch(ctx, b.Repo.Main); err != nil {
		return err
	} else if here == b.state.Branch {
		return &git.BranchError{Branch: b.state.Branch, Taken: b.state.Branch, Worktree: b.Repo.Main}
	}
	for _, w := range all {
		if w.Branch == b.state.Branch && w.Owner() != b.state.Task {
			return &git.BranchError{Branch: b.state.Branch, Taken: b.state.Branch, Worktree: w.Path, Owner: w.Owner()}
		}
	}
	return nil
}

// createWorktree creates the worktree, and restores what was not committed.
func (b workImport) createWorktree(ctx context.Context) error {
	if err := b.Disk.Step("worktree", b.path); err != nil {
		return err
	}
	if err := b.Repo.Worktrees().Add(ctx, git.NewWorktree{Path: b.path, Branch: b.state.Branch, Base: b.state.Head, Owner: b.state.Task}); err != nil {
		return err
	}
	if err := b.Disk.Step("unpack", b.path); err != nil {
		return err
	}
	if b.state.Work != b.state.Head {
		if err := snapshot.NewBackups(b.Repo).RestoreInto(ctx, b.path, b.state.Work); err != nil {
			return err
		}
	}
	return b.setRef(ctx, wipRefs+b.state.Task, b.state.Work)
}

// ImportBranch moves the branch of a state to its head on the remote, unless it has local commits that the state lacks, or is
// checked out. It creates no worktree. It does nothing if the state has no work.
func (r Remote) ImportBranch(ctx context.Context, s State) error {
	if s.Branch == "" {
		return nil
	}
	b := workImport{Remote: r, state: s}
	err := b.fetch(ctx)
	if err == nil {
		err = b.fastForwardBranch(ctx)
	}
	if err != nil {
		return fmt.Errorf("bringing the branch of %s from %s: %w", s.Task, r.Name, err)
	}
	return nil
}

// fastForwardBranch moves the branch to the state's head, unless it is checked out.
func (b workImport) fastForwardBranch(ctx context.Context) error {
	tip, err := b.Repo.Refs().Branch(ctx, b.state.Branch)
	if err != nil || tip == b.state.Head {
		return err
	}
	if err := b.Repo.Worktrees().CheckOnlyAt(ctx, b.state.Branch, ""); errors.As(err, new(*git.BranchError)) {
		return nil
	} else if err != nil {
		return err
	}
	if tip != "" {
		if within, err := b.Repo.History().IsAncestor(ctx, tip, b.state.Head); err != nil || !within {
			return err
		}
	}
	return b.Repo.Refs().MoveRef(ctx, git.BranchPrefix+b.state.Branch, b.state.Head, tip)
}
