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

// sanitize sees to it that a git command in a linked worktree does not do outside of a sandbox what a program in it could
// not: git writes through links that it finds beside the index, and runs what the settings of a repository within the
// work tree name when it looks into that. Links are removed, git makes none there; such a repository is an *EmbeddedRepoError.
func (r *Repo) sanitize(ctx context.Context, c Command) error {
	if !r.hardened.Load() || c.Dir == "" {
		return nil
	}
	gitDir, err := r.gitDir(c.Dir)
	if err != nil || gitDir == r.Common { // whose index and logs can't be written in a sandbox
		return nil
	}
	if err := removeLinks(gitDir); err != nil {
		return fmt.Errorf("removing links from %s: %w", gitDir, err)
	}
	if slices.Contains(noLookInside, c.name()) {
		return nil
	}
	links, err := r.Index().gitlinks(ctx, c, gitDir)
	if err != nil {
		return err
	}
	foreign := slices.DeleteFunc(links, func(path string) bool { return r.ours(gitDir, filepath.Join(c.Dir, path, ".git")) })
	if len(foreign) > 0 {
		return &EmbeddedRepoError{foreign}
	}
	return nil
}

// noLookInside are commands that look into no repository within the work tree.
var noLookInside = []string{"ls-files", "rev-parse", "symbolic-ref", "cat-file", "ls-tree", "rev-list", "merge-base", "for-each-ref", "check-ignore"}

// removeLinks removes what is neither a file nor a folder from a worktree's git directory. HEAD, which may be a link, is
// never written through; submodules have settings of their own, and are not for others to write.
func removeLinks(gitDir string) error {
	return filepath.WalkDir(gitDir, func(path string, e fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case path == filepath.Join(gitDir, "modules"):
			return fs.SkipDir
		case e.IsDir() || e.Type().IsRegular() || path == filepath.Join(gitDir, "HEAD"):
			return nil
		}
		return os.Remove(path)
	})
}

// ours reports whether a .git within a work tree is nothing, or leads to the git directory of a submodule of ours.
func (r *Repo) ours(gitDir, dot string) bool {
	if _, err := os.Lstat(dot); absent(err) {
		return true
	}
	target, err := readLink(dot)
	if err != nil {
		return false
	}
	target, err = filepath.EvalSymlinks(target)
	return err == nil && (strings.HasPrefix(target, filepath.Join(gitDir, "modules")+"/") || strings.HasPrefix(target, filepath.Join(r.Common, "modules")+"/"))
}
