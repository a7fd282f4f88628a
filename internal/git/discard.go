package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Discard takes back all that is not committed at or below the paths of a checkout: staged, unstaged and
// untracked. Paths are relative to the root. It reports whether there was anything: all of the checkout is then saved as
// ref first, unless that is "". A repository within is a *NestedError, and nothing is taken back.
func (r Backups) Discard(ctx context.Context, dir, ref string, paths ...string) (bool, error) {
	entries, err := r.Index().statusOf(ctx, dir, below(paths))
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(entries, func(e Entry) bool { return concerns(paths, e.Path) }) {
		if err := errors.Join(r.repositoriesAt(ctx, dir, paths), r.save(ctx, dir, ref)); err != nil {
			return false, err
		}
	}
	root, err := os.OpenRoot(dir) // a link that an agent made leads nowhere
	if err != nil {
		return false, fmt.Errorf("discarding changes: %w", err)
	}
	defer root.Close()
	if err := checkWorktree(ctx, dir); err != nil {
		return false, err
	}
	var tracked []string
	found := false
	for _, e := range entries {
		inside, own := overlap(paths, e.Path)
		for _, p := range own { // within an untracked folder, which git names alone
			gone, err := remove(root, p)
			if found = found || gone; err != nil {
				return found, err
			}
		}
		if !inside {
			continue
		}
		found = true
		if !e.untracked() && e.Code[0] != 'A' {
			tracked = append(tracked, e.Path)
			continue
		}
		if err := r.drop(ctx, root, e); err != nil {
			return true, err
		}
	}
	if len(tracked) == 0 {
		return found, nil
	}
	_, _, err = r.Run(ctx, Command{Dir: dir, Write: true, Args: []string{"checkout", "-q", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul"},
		Stdin: strings.NewReader(strings.Join(tracked, "\x00") + "\x00"), Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
	return true, err
}

// below is everything at or below the paths; all there is when they are too many for an argument list.
func below(paths []string) (list []string) {
	const most = 500
	if len(paths) > most {
		return nil
	}
	for _, p := range paths {
		list = append(list, literal("", p))
	}
	return list
}

// drop removes a path that HEAD does not have.
func (r Backups) drop(ctx context.Context, root *os.Root, e Entry) error {
	if !e.untracked() {
		_, _, err := r.Run(ctx, Command{Dir: root.Name(), Write: true, Args: []string{"rm", "-q", "-f", "--cached", "--ignore-unmatch", "--", e.Path}, Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
		if err != nil {
			return err
		}
	}
	_, err := remove(root, e.Path)
	return err
}

// remove deletes a path with all below it, and reports whether it was there.
func remove(root *os.Root, path string) (bool, error) {
	path = strings.TrimSuffix(path, "/")
	if _, err := root.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := root.RemoveAll(path); err != nil {
		return true, fmt.Errorf("discarding %s: %w", path, err)
	}
	return true, nil
}

// repositoriesAt is a *NestedError when there are repositories at or below the paths: nothing saves what is in them.
func (r Backups) repositoriesAt(ctx context.Context, dir string, paths []string) error {
	all, err := r.Snapshots().nested(ctx, dir, nil, nil)
	if err != nil {
		return err
	}
	within := slices.DeleteFunc(all, func(p string) bool { return !concerns(paths, filepath.ToSlash(p)) })
	if len(within) > 0 {
		return &NestedError{within}
	}
	return nil
}

// concerns reports whether path is at or below one of the paths, or a folder that has one.
func concerns(paths []string, path string) bool {
	inside, own := overlap(paths, path)
	return inside || len(own) > 0
}

// overlap reports whether path is one of the paths or below one, and which of them are below it.
func overlap(paths []string, path string) (inside bool, own []string) {
	name, folder := strings.CutSuffix(path, "/")
	for _, p := range paths {
		if name == p || strings.HasPrefix(name, p+"/") {
			inside = true
		} else if folder && strings.HasPrefix(p, path) {
			own = append(own, p)
		}
	}
	return inside, own
}

// DeleteBranch deletes a local branch that is checked out nowhere; none of that name is no error. What it
// held is lost unless something else names it: save it first, with [Backups.Backup].
func (r Refs) DeleteBranch(ctx context.Context, name string) error {
	own := []string{r.branchLock(name)}
	for _, shared := range []string{"packed-refs.lock", "packed-refs.new", "config.lock"} { // git trips over each that a dead one left
		own = append(own, filepath.Join(r.Common, shared))
	}
	return RetryLocked(ctx, own, func() error {
		return Retry(ctx, func() error {
			tip, err := r.Branch(ctx, name)
			if err != nil || tip == "" {
				return err
			}
			_, _, err = r.Run(ctx, Command{Dir: r.Main, Write: true, Once: true, Args: []string{"branch", "-q", "-D", "--", name}})
			return err
		})
	})
}
