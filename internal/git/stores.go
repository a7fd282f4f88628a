package git

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// ObjectStores manages the folders of objects that a checkout reads and writes.
type ObjectStores struct{ repo *Repo }

const (
	ownStores = "trellis" // in the common directory: object folders of sandboxed worktrees, which may not write its objects
	realStore = "trellis" // in such an object folder: where the repository is mounted
)

// prepareMounts returns the mounts that give programs in a worktree an object folder of its own, in which git add can write, instead
// of the repository's, and the same for Git LFS. The repository's objects are a read-only alternate of that folder: git, and any
// other program that reads objects, finds them in the usual way, in this repository only. Nothing is ever taken out of such a
// folder: only the files of the worktree count.
func (r ObjectStores) prepareMounts(admin string) ([]Mount, error) {
	r.sweepOwnStores()
	if err := r.restorePermissions(admin); err != nil {
		return nil, err
	}
	objects, own := filepath.Join(r.repo.Common, "objects"), r.ownStore("objects", admin)
	for _, dir := range []string{"info", realStore} {
		if err := os.MkdirAll(filepath.Join(own, dir), 0o700); err != nil {
			return nil, fmt.Errorf("making a folder of objects: %w", err)
		}
	}
	list := []Mount{
		{From: own, To: objects, Write: true},
		{From: filepath.Join(own, "info"), To: filepath.Join(objects, "info")},
		{From: r.repo.Common, To: filepath.Join(objects, realStore)},
	}
	if err := r.writeAlternates(own); err != nil {
		return nil, err
	}
	lfs := filepath.Join(r.repo.Common, "lfs") // Git LFS finds the repository's files next to the alternate
	if _, err := os.Stat(lfs); err != nil {
		return list, nil
	}
	if err := os.MkdirAll(r.ownStore("lfs", admin), 0o700); err != nil {
		return nil, fmt.Errorf("making a folder of objects: %w", err)
	}
	return append(list, Mount{From: r.ownStore("lfs", admin), To: lfs, Write: true}), nil
}

func (r ObjectStores) ownStore(kind, admin string) string {
	return filepath.Join(r.repo.Common, ownStores, kind, filepath.Base(admin))
}

// restorePermissions restores the permissions of a worktree's own object folders that a program removed.
func (r ObjectStores) restorePermissions(admin string) error {
	for _, kind := range []string{"objects", "lfs"} {
		own := r.ownStore(kind, admin)
		if st, err := os.Lstat(own); err != nil || !st.IsDir() || st.Mode().Perm()&0o700 == 0o700 {
			continue
		}
		if err := grantOwnerAccess(own); err != nil {
			return fmt.Errorf("opening a folder of objects: %w", err)
		}
	}
	return nil
}

// grantOwnerAccess gives the owner all permissions for a folder and all folders below it.
func grantOwnerAccess(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
}

// alternatesFile lists, below a folder of objects, further folders in which git looks for objects.
const alternatesFile = "info/alternates"

// alternates returns the lines of the repository's alternates file, which name folders that it takes objects from.
func (r ObjectStores) alternates() (lines []string, err error) {
	data, err := durable.Read(filepath.Join(r.repo.Common, "objects", alternatesFile), maxPointer)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading which folders git takes objects from: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

// writeAlternates writes the alternates file of a worktree's own object folder: where the repository's objects are mounted, and the
// alternates of these that are relative paths, which git does not follow from one alternate to the next.
func (r ObjectStores) writeAlternates(own string) error {
	objects := filepath.Join(r.repo.Common, "objects")
	lines := QuoteAlternate(filepath.Join(objects, realStore, "objects")) + "\n"
	borrowed, err := r.alternates()
	if err != nil {
		return err
	}
	for _, line := range borrowed {
		if line[0] != '"' && !filepath.IsAbs(line) {
			lines += QuoteAlternate(filepath.Join(objects, line)) + "\n"
		}
	}
	if now, err := durable.ReadBelow(own, alternatesFile, maxPointer); err == nil && string(now) == lines {
		return nil
	}
	var disk *durable.Disk
	return disk.WriteFile(filepath.Join(own, alternatesFile), []byte(lines), 0o600)
}

// removeOwnStores removes the own object folders of a worktree.
func (r ObjectStores) removeOwnStores(admin string) error {
	if err := errors.Join(forceRemoveAll(r.ownStore("objects", admin)), forceRemoveAll(r.ownStore("lfs", admin))); err != nil {
		return fmt.Errorf("removing the objects of a worktree: %w", err)
	}
	return nil
}

// forceRemoveAll removes a folder, also if a program removed its permissions.
func forceRemoveAll(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) {
		err = errors.Join(grantOwnerAccess(dir), os.RemoveAll(dir))
	}
	return err
}

// sweepOwnStores removes the own object folders of worktrees that no longer exist. A failed removal is tried again the next time.
func (r ObjectStores) sweepOwnStores() {
	list, _ := os.ReadDir(filepath.Join(r.repo.Common, ownStores, "objects")) // an error means that there are none
	for _, e := range list {
		admin := filepath.Join(r.repo.Common, "worktrees", e.Name())
		if _, err := os.Lstat(admin); errors.Is(err, fs.ErrNotExist) {
			_ = r.removeOwnStores(admin)
		}
	}
}

// ownLoose returns the names of the objects that were added in the sandbox of a worktree.
func (r ObjectStores) ownLoose(gitDir string) map[string]bool {
	names := map[string]bool{}
	store := r.ownStore("objects", gitDir)
	for _, folder := range looseFolders(store) {
		list, _ := os.ReadDir(filepath.Join(store, folder)) // git did not write to a folder that can't be read
		for _, e := range list {
			names[folder+e.Name()] = true
		}
	}
	return names
}

// removeOwnObjects removes the objects that were added in the sandbox of a worktree.
func (r ObjectStores) removeOwnObjects(gitDir string) error {
	store := r.ownStore("objects", gitDir)
	for _, folder := range looseFolders(store) {
		if err := forceRemoveAll(filepath.Join(store, folder)); err != nil {
			return err
		}
	}
	return nil
}

// looseFolders returns the names of the folders of loose objects in a store.
func looseFolders(store string) (names []string) {
	list, _ := os.ReadDir(store) // an error means that there are none
	for _, e := range list {
		if _, err := hex.DecodeString(e.Name()); err == nil && len(e.Name()) == 2 {
			names = append(names, e.Name())
		}
	}
	return names
}

// Store describes the data that git keeps of a checkout outside of its files, for a sandbox that may write nothing else.
type Store struct {
	Write []string // of a worktree: its git directory, with the index
	// Fixed are the paths in Write and in the checkout that must not be written, since they lead git to other folders and to
	// programs: pointers, settings, hooks. Whoever writes them makes the next git command run programs. They include the object
	// folders of the repository and of Git LFS: git does not hash again what it reads from them.
	Fixed []string
	// Mounts are folders to mount in place of others, in this order.
	Mounts []Mount
}

// Mount is a folder that is mounted in place of another.
type Mount struct {
	From, To string
	Write    bool
}

// Store returns the Store of a checkout without running git, and creates what is missing of Fixed that git would read. All paths
// exist, without symbolic links, except those where something is mounted. If dir isn't a checkout it returns ErrNoWorktree.
func (r ObjectStores) Store(dir string) (Store, error) {
	admin, err := r.repo.gitDir(dir)
	if err != nil {
		return Store{}, err
	}
	var s Store
	configured, err := r.repo.Hooks().ensureConfiguredPaths(dir, admin)
	if err != nil {
		return s, err
	}
	fixed := append(configured, filepath.Join(dir, ".git"), filepath.Join(r.repo.Common, "objects"), filepath.Join(r.repo.Common, "lfs"))
	if admin == r.repo.Common { // its index is next to the settings
		s.Fixed = existingPaths(fixed...)
		return s, nil
	}
	s.Write = existingPaths(admin)
	if err := r.createSettingsFiles(admin); err != nil {
		return s, err
	}
	for _, name := range []string{"HEAD", "commondir", "gitdir", worktreeSettings, ownerFile, "modules"} {
		fixed = append(fixed, filepath.Join(admin, name))
	}
	pointers, err := submoduleGitFiles(filepath.Join(admin, "modules"))
	s.Fixed = existingPaths(append(fixed, pointers...)...)
	if err == nil {
		s.Mounts, err = r.prepareMounts(admin)
	}
	return s, err
}

// worktreeSettings is the file of a worktree's own settings.
const worktreeSettings = "config.worktree"

// createSettingsFiles creates the files that git would read if somebody else created them, empty: the folder of submodules, and the file of the
// worktree's own settings, even where git doesn't read it yet.
func (r ObjectStores) createSettingsFiles(admin string) error {
	if err := os.MkdirAll(filepath.Join(admin, "modules"), 0o755); err != nil {
		return fmt.Errorf("making sure of a worktree's submodules: %w", err)
	}
	f, err := durable.OpenOwn(filepath.Join(admin, worktreeSettings), os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("making sure of a worktree's settings: %w", err)
	}
	return f.Close()
}

// submoduleGitFiles returns the .git files of the submodules whose git directories are below root.
func submoduleGitFiles(root string) (files []string, err error) {
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
		inner, err := submoduleGitFiles(filepath.Join(path, "modules"))
		if err != nil {
			return err
		}
		files = append(files, inner...)
		return fs.SkipDir
	})
	return files, err
}

// existingPaths returns those of the paths that exist, with symbolic links resolved.
func existingPaths(paths ...string) (real []string) {
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

// QuoteAlternate quotes a path for a list of alternates, if it contains the separator of the list.
func QuoteAlternate(path string) string {
	if !strings.ContainsAny(path, ":\"\n") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}
