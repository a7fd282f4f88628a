package taskref

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
)

// BringWork creates a worktree at path on the branch of a state, with the files that it had where the state was saved: what was
// uncommitted there is uncommitted here, and unstaged. An existing worktree and branch of the task are first saved as backups
// if they hold anything that the state lacks; files that git ignores in that worktree are lost. If the branch belongs to
// another task, the error is a *git.BranchError. An interrupted call is repaired by the next one. It does nothing if the state
// has no work.
func (r Remote) BringWork(ctx context.Context, s State, path string) error {
	if s.Branch == "" {
		return nil
	}
	b := bench{r, s, path}
	err := b.fetch(ctx)
	if err == nil {
		err = b.clear(ctx)
	}
	if err == nil {
		err = b.lay(ctx)
	}
	if err != nil {
		return fmt.Errorf("bringing the work of %s from %s: %w", s.Task, r.Name, err)
	}
	return nil
}

// bench is the place for the work of a state.
type bench struct {
	Remote
	s    State
	path string
}

// fetch makes sure that the commits of the work exist here, and match the state.
func (b bench) fetch(ctx context.Context) error {
	here, err := b.has(ctx)
	if err == nil && !here {
		if err = b.Repo.Remotes().FetchRefs(ctx, b.Name, b.limit(), b.spec()); err == nil {
			here, err = b.has(ctx)
		}
	}
	if err == nil && !here {
		err = fmt.Errorf("the remote has not the commits that the state %.12s names", b.s.Commit)
	}
	return err
}

// FetchWork fetches the commits of the work of several states with one request to the remote. If one of them is missing there,
// possibly none is fetched: whoever brings work fetches what is missing.
func (r Remote) FetchWork(ctx context.Context, states []State) error {
	var specs []string
	for _, s := range states {
		b := bench{Remote: r, s: s}
		if s.Branch == "" {
			continue
		}
		if here, err := b.has(git.Hookless(ctx)); err == nil && !here {
			specs = append(specs, b.spec())
		}
	}
	if len(specs) == 0 {
		return nil
	}
	return r.Repo.Remotes().FetchRefs(git.Hookless(ctx), r.Name, r.limit(), specs...)
}

// spec returns the refspec of the work.
func (b bench) spec() string {
	return "+" + wipRefs + b.s.Task + ":" + remoteRefs + strings.TrimPrefix(wipRefs, git.OwnPrefix) + b.s.Task
}

func (b bench) has(ctx context.Context) (bool, error) {
	for _, commit := range []string{b.s.Head, b.s.Work} {
		if here, err := b.Repo.Refs().Find(ctx, commit); err != nil || here == "" {
			return false, err
		}
	}
	if b.s.Head == b.s.Work {
		return true, nil
	}
	within, err := b.Repo.History().IsAncestor(ctx, b.s.Head, b.s.Work)
	if err == nil && !within {
		err = fmt.Errorf("the state %.12s is not of one piece: its work was not begun at the head of its branch", b.s.Commit)
	}
	return within, err
}

// clear removes the local worktree and branch of the task, unless they match the state, after backing them up.
func (b bench) clear(ctx context.Context) error {
	all, err := b.Repo.Worktrees().List(ctx)
	if err == nil {
		err = b.free(ctx, all)
	}
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.Owner() != b.s.Task || w.Branch != b.s.Branch && !w.At(b.path) {
			continue
		}
		if err := b.clearWorktree(ctx, w); err != nil {
			return err
		}
	}
	return b.moveBranch(ctx)
}

func (b bench) clearWorktree(ctx context.Context, w git.Worktree) error {
	if !w.Gone && !w.HalfMade() {
		if same, err := b.matches(ctx, w); err != nil || same && w.At(b.path) {
			return err
		}
		if err := b.keep(ctx, w); err != nil {
			return err
		}
	}
	if err := b.Disk.Step("remove", w.Path); err != nil {
		return err
	}
	return b.Repo.Worktrees().Remove(ctx, w.Path)
}

// matches reports whether a worktree already holds what the state has.
func (b bench) matches(ctx context.Context, w git.Worktree) (bool, error) {
	if head, err := b.Repo.Refs().Head(ctx, w.Path); err != nil || head != b.s.Head || w.Branch != b.s.Branch {
		return false, err
	}
	now, err := snapshot.New(b.Repo).TreeOf(ctx, w.Path, b.Exclude...)
	if err != nil {
		return false, err
	}
	tree, err := b.Repo.Refs().TreeAt(ctx, b.s.Work)
	return now == tree, err
}

// keep makes a backup of a worktree, unless it holds what this clone saved last.
func (b bench) keep(ctx context.Context, w git.Worktree) error {
	backups := snapshot.NewBackups(b.Repo)
	last, err := b.Repo.Refs().Find(ctx, wipRefs+b.s.Task)
	if err == nil && last != "" {
		held, err := backups.Holds(ctx, last, w.Path)
		if err != nil || held {
			return err
		}
	}
	if err != nil {
		return err
	}
	ref, err := b.backupRef(ctx, b.s.Task, "work-")
	if err == nil {
		_, err = backups.Backup(ctx, w.Path, ref, "trellis: work of "+b.s.Task+" before that of another machine took its place")
	}
	return err
}

// moveBranch moves the branch to the state's head. Commits beyond that are backed up.
func (b bench) moveBranch(ctx context.Context) error {
	tip, err := b.Repo.Refs().Branch(ctx, b.s.Branch)
	if err != nil || tip == "" || tip == b.s.Head {
		return err
	}
	within, err := b.Repo.History().IsAncestor(ctx, tip, b.s.Work)
	if err == nil && !within {
		err = b.keepBranch(ctx)
	}
	if err == nil {
		err = b.Disk.Step("move", git.BranchPrefix+b.s.Branch)
	}
	if err != nil {
		return err
	}
	return b.Repo.Refs().MoveRef(ctx, git.BranchPrefix+b.s.Branch, b.s.Head, tip)
}

func (b bench) keepBranch(ctx context.Context) error {
	ref, err := b.backupRef(ctx, b.s.Task, "branch-")
	if err == nil {
		_, err = snapshot.NewBackups(b.Repo).PinBranch(ctx, b.s.Branch, ref)
	}
	return err
}

// free returns an error if another checkout uses the branch.
func (b bench) free(ctx context.Context, all []git.Worktree) error {
	if here, err := b.Repo.Refs().CurrentBranch(ctx, b.Repo.Main); err != nil {
		return err
	} else if here == b.s.Branch {
		return &git.BranchError{Branch: b.s.Branch, Taken: b.s.Branch, Worktree: b.Repo.Main}
	}
	for _, w := range all {
		if w.Branch == b.s.Branch && w.Owner() != b.s.Task {
			return &git.BranchError{Branch: b.s.Branch, Taken: b.s.Branch, Worktree: w.Path, Owner: w.Owner()}
		}
	}
	return nil
}

// lay creates the worktree, and restores what was not committed.
func (b bench) lay(ctx context.Context) error {
	if err := b.Disk.Step("worktree", b.path); err != nil {
		return err
	}
	if err := b.Repo.Worktrees().Add(ctx, git.NewWorktree{Path: b.path, Branch: b.s.Branch, Base: b.s.Head, Owner: b.s.Task}); err != nil {
		return err
	}
	if err := b.Disk.Step("unpack", b.path); err != nil {
		return err
	}
	if b.s.Work != b.s.Head {
		if err := snapshot.NewBackups(b.Repo).RestoreInto(ctx, b.path, b.s.Work); err != nil {
			return err
		}
	}
	return b.set(ctx, wipRefs+b.s.Task, b.s.Work)
}

// BringBranch moves the branch of a state to its head on the remote, unless it has local commits that the state lacks, or is
// checked out. It creates no worktree. It does nothing if the state has no work.
func (r Remote) BringBranch(ctx context.Context, s State) error {
	if s.Branch == "" {
		return nil
	}
	b := bench{Remote: r, s: s}
	err := b.fetch(ctx)
	if err == nil {
		err = b.forward(ctx)
	}
	if err != nil {
		return fmt.Errorf("bringing the branch of %s from %s: %w", s.Task, r.Name, err)
	}
	return nil
}

// forward moves the branch, unless it is checked out.
func (b bench) forward(ctx context.Context) error {
	tip, err := b.Repo.Refs().Branch(ctx, b.s.Branch)
	if err != nil || tip == b.s.Head {
		return err
	}
	if err := b.Repo.Worktrees().Only(ctx, b.s.Branch, ""); errors.As(err, new(*git.BranchError)) {
		return nil
	} else if err != nil {
		return err
	}
	if tip != "" {
		if within, err := b.Repo.History().IsAncestor(ctx, tip, b.s.Head); err != nil || !within {
			return err
		}
	}
	return b.Repo.Refs().MoveRef(ctx, git.BranchPrefix+b.s.Branch, b.s.Head, tip)
}
