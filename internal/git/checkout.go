package git

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Checkout makes a fresh checkout of a commit at path (absolute), on no branch: the files of the commit and no
// others. What is at path already, from a call that was cut off, is replaced when it is a worktree of this
// repository. No hook runs. Files that are not those of the commit are a *DamagedError. The caller removes it with [Worktrees.Remove].
func (r Worktrees) Checkout(ctx context.Context, path, commit string) error {
	path = clean(path)
	err := Retry(ctx, func() error { return r.checkout(ctx, path, commit) })
	if err != nil {
		return fmt.Errorf("checking out %s: %w", commit, err)
	}
	return nil
}

func (r Worktrees) checkout(ctx context.Context, path, commit string) error {
	if err := r.Remove(ctx, path); err != nil && !errors.Is(err, ErrNoWorktree) {
		return err
	}
	return r.exclusively(ctx, func() error {
		if err := vacant(path); err != nil {
			return err
		}
		err := RetryLocked(ctx, nil, func() error {
			_, _, err := r.Run(ctx, Command{Dir: r.Main, Write: true, Args: []string{"-c", "core.hooksPath=" + os.DevNull, "-c", "core.sparseCheckout=false",
				"worktree", "add", "--quiet", "--detach", "--", path, commit}, Once: true})
			return err
		})
		if err == nil {
			err = r.Trees().verifyHead(ctx, path)
		}
		return err
	})
}

// Unhide makes git look again at tracked files that it was told not to look at (assume-unchanged, skip-worktree),
// and returns them. Files that a sparse checkout leaves out stay out.
func (r Index) Unhide(ctx context.Context, dir string) ([]string, error) {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return nil, err
	}
	shown := r.seen.takeUnhid(gitDir)
	hidden, err := r.hidden(ctx, dir, filepath.Join(gitDir, "index"))
	if err != nil || len(hidden) == 0 {
		return shown, err
	}
	err = RetryLocked(ctx, r.ownLocks(gitDir, ""), func() error {
		for _, option := range []string{"--no-assume-unchanged", "--no-skip-worktree"} { // git takes one at a time
			if err := r.updateIndex(ctx, dir, option, hidden); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("making git look at all files of %s: %w", dir, err)
	}
	return append(shown, hidden...), nil
}

// Ignored are the paths of a checkout that git ignores, folders ending in /, the excluded paths left out.
func (r Index) Ignored(ctx context.Context, dir string, exclude ...string) (list []string, err error) {
	args := append([]string{"ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory", "--"}, pathspec(exclude)...)
	out, _, err := r.Run(ctx, Command{Dir: dir, Args: args})
	for p := range strings.SplitSeq(strings.TrimSuffix(out, "\x00"), "\x00") {
		if p != "" {
			list = append(list, p)
		}
	}
	return list, err
}

// ChangesBetween are the paths at which two commits differ, sorted.
func (r History) ChangesBetween(ctx context.Context, old, new string) ([]Change, error) {
	args := slices.Concat([]string{"diff-tree", "-r", "-z", "--raw", "--numstat"}, plain, []string{"--end-of-options", old, new})
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: args})
	if err != nil {
		return nil, err
	}
	return parseChanges(out)
}
