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

// sanitize keeps a git command in a linked worktree from doing outside of a sandbox what a sandboxed program could not: git writes
// through links beside the index, and if it inspects a repository within the work tree, it runs programs that the settings of that
// repository name. sanitize removes such links, which git never creates, and returns an *EmbeddedRepoError for such a repository.
func (r *Repo) sanitize(ctx context.Context, c Command) error {
	if !r.hardened.Load() || c.Dir == "" {
		return nil
	}
	gitDir, err := r.gitDir(c.Dir)
	if err != nil || gitDir == r.Common { // sandboxed programs can't write its index and logs
		return nil
	}
	if err := removeLinks(gitDir); err != nil {
		return fmt.Errorf("removing links from %s: %w", gitDir, err)
	}
	if slices.Contains(nonRecursiveCommands, c.subcommand()) {
		return nil
	}
	links, err := r.Index().gitlinks(ctx, c, gitDir)
	if err != nil {
		return err
	}
	foreign := slices.DeleteFunc(links, func(path string) bool { return r.isSafeGitFile(gitDir, filepath.Join(c.Dir, path, ".git")) })
	if len(foreign) > 0 {
		return &EmbeddedRepoError{foreign}
	}
	return nil
}

// nonRecursiveCommands lists the git commands that don't inspect repositories within the work tree.
var nonRecursiveCommands = []string{"ls-files", "rev-parse", "symbolic-ref", "cat-file", "ls-tree", "rev-list", "merge-base", "for-each-ref", "check-ignore"}

// removeLinks removes everything but regular files and folders from a worktree's git directory, except HEAD, which git never
// writes through if it is a link, and modules: submodules have settings of their own, and sandboxed programs can't write there.
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

// isSafeGitFile reports whether a .git within a work tree doesn't exist, or leads to the git directory of a submodule of this repository.
func (r *Repo) isSafeGitFile(gitDir, dot string) bool {
	if _, err := os.Lstat(dot); absent(err) {
		return true
	}
	target, err := readGitFile(dot)
	if err != nil {
		return false
	}
	target, err = filepath.EvalSymlinks(target)
	return err == nil && (strings.HasPrefix(target, filepath.Join(gitDir, "modules")+"/") || strings.HasPrefix(target, filepath.Join(r.Common, "modules")+"/"))
}
