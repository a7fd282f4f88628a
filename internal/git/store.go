package git

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Store is what git keeps of a checkout outside of its files, for who may write no more than that.
type Store struct {
	Write []string // of a worktree the folder of its index
	// Fixed are the paths in Write and in the checkout that lead git to other folders and to programs: pointers,
	// settings, hooks. Whoever writes them has programs run by the next git command. The repository's objects are in it, and those
	// of LFS: git does not hash again what it reads from them.
	Fixed []string
	// Mounts are folders that are shown in the place of others, in this order.
	Mounts []Mount
}

// Mount is a folder that is shown in the place of another.
type Mount struct {
	From, To string
	Write    bool
}

// Store finds it without running anything, and makes sure that Fixed has all that git would read. All paths are there, and lead
// through no link, but those at which something is mounted. dir is the main checkout or a worktree, else ErrNoWorktree.
func (r ObjectStores) Store(dir string) (Store, error) {
	admin, err := r.gitDir(dir)
	if err != nil {
		return Store{}, err
	}
	var s Store
	led, err := r.Hooks().configuredPaths(dir, admin)
	if err != nil {
		return s, err
	}
	fixed := append(led, filepath.Join(dir, ".git"), filepath.Join(r.Common, "objects"), filepath.Join(r.Common, "lfs"))
	if admin == r.Common { // its index stands beside the settings
		s.Fixed = there(fixed...)
		return s, nil
	}
	s.Write = there(admin)
	if err := r.settle(admin); err != nil {
		return s, err
	}
	for _, name := range []string{"HEAD", "commondir", "gitdir", worktreeSettings, ownerFile, "modules"} {
		fixed = append(fixed, filepath.Join(admin, name))
	}
	pointers, err := pointersOf(filepath.Join(admin, "modules"))
	s.Fixed = there(append(fixed, pointers...)...)
	if err == nil {
		s.Mounts, err = r.ownObjects(admin)
	}
	return s, err
}

// worktreeSettings is the file of a worktree's own settings.
const worktreeSettings = "config.worktree"

// settle makes empty what git would read if somebody else made it: the folder of submodules, and a file of settings, also
// where it does not count yet.
func (r ObjectStores) settle(admin string) error {
	if err := os.MkdirAll(filepath.Join(admin, "modules"), 0o755); err != nil {
		return fmt.Errorf("making sure of a worktree's submodules: %w", err)
	}
	f, err := durable.OpenOwn(filepath.Join(admin, worktreeSettings), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("making sure of a worktree's settings: %w", err)
	}
	return f.Close()
}

// pointersOf are the .git files of the submodules whose git directories are below root.
func pointersOf(root string) (files []string, err error) {
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil || !e.IsDir() || !isGitDir(path) {
			return err
		}
		if c, err := ReadConfig(path); err == nil && c.worktree != "" {
			files = append(files, filepath.Join(AbsFrom(path, c.worktree), ".git"))
		}
		inner, err := pointersOf(filepath.Join(path, "modules"))
		if err != nil {
			return err
		}
		files = append(files, inner...)
		return fs.SkipDir
	})
	return files, err
}

// there are the paths that are there, as they are without links.
func there(paths ...string) (real []string) {
	for _, p := range paths {
		if _, err := os.Lstat(p); err != nil {
			continue
		}
		if p, err := filepath.EvalSymlinks(p); err == nil {
			real = append(real, p)
		}
	}
	return real
}
