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

// ObjectStores are the folders of objects that a checkout reads and writes.
type ObjectStores struct {
	repo  *Repo
	hooks Hooks
}

const (
	ownStores = "trellis" // in the common directory: folders of those who may not write its objects, by worktree
	realStore = "trellis" // in such a folder of objects: where the repository's are shown
)

// ownObjects are the folders that are shown to who works in a worktree in the place of the repository's objects, and of those
// of LFS: its own, in which git add can write. The repository's are an alternate of them, not to be written: git, and any
// other program that reads objects, finds them in the usual way, in this repository alone. Nothing is ever taken out
// of such a folder: what counts are the files of the worktree.
func (r ObjectStores) ownObjects(admin string) ([]Mount, error) {
	r.sweepOwn()
	if err := r.openOwn(admin); err != nil {
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
	if err := r.tellAlternates(own); err != nil {
		return nil, err
	}
	lfs := filepath.Join(r.repo.Common, "lfs") // which finds what the repository has beside the alternate
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

// openOwn gives back the rights to the own folders of a worktree that a program took away there.
func (r ObjectStores) openOwn(admin string) error {
	for _, kind := range []string{"objects", "lfs"} {
		own := r.ownStore(kind, admin)
		if st, err := os.Lstat(own); err != nil || !st.IsDir() || st.Mode().Perm()&0o700 == 0o700 {
			continue
		}
		if err := openFolders(own); err != nil {
			return fmt.Errorf("opening a folder of objects: %w", err)
		}
	}
	return nil
}

// openFolders gives the rights to a folder and all below it to its owner.
func openFolders(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.IsDir() {
			err = os.Chmod(path, 0o700)
		}
		return err
	})
}

// alternatesFile names, below a folder of objects, others that git looks in as well.
const alternatesFile = "info/alternates"

// alternates are the lines in which the repository names folders that it takes objects from.
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

// tellAlternates says in an own folder of objects where those of the repository are shown, and those that it borrows itself: git
// follows no relative path from one alternate to the next.
func (r ObjectStores) tellAlternates(own string) error {
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

// dropOwn removes what programs kept in their own folders for a worktree.
func (r ObjectStores) dropOwn(admin string) error {
	if err := errors.Join(removeOwn(r.ownStore("objects", admin)), removeOwn(r.ownStore("lfs", admin))); err != nil {
		return fmt.Errorf("removing the objects of a worktree: %w", err)
	}
	return nil
}

// removeOwn removes a folder, also one to which a program took away the rights.
func removeOwn(dir string) error {
	err := os.RemoveAll(dir)
	if errors.Is(err, fs.ErrPermission) {
		err = errors.Join(openFolders(dir), os.RemoveAll(dir))
	}
	return err
}

// sweepOwn removes the folders of worktrees that somebody else removed. One that can't be removed is tried again.
func (r ObjectStores) sweepOwn() {
	list, _ := os.ReadDir(filepath.Join(r.repo.Common, ownStores, "objects")) // not there: none
	for _, e := range list {
		admin := filepath.Join(r.repo.Common, "worktrees", e.Name())
		if _, err := os.Lstat(admin); errors.Is(err, fs.ErrNotExist) {
			_ = r.dropOwn(admin)
		}
	}
}

// ownLoose are the names of the objects that were added in the sandbox of a worktree.
func (r ObjectStores) ownLoose(gitDir string) map[string]bool {
	names := map[string]bool{}
	store := r.ownStore("objects", gitDir)
	for _, folder := range looseFolders(store) {
		list, _ := os.ReadDir(filepath.Join(store, folder)) // what can't be read was not added by git
		for _, e := range list {
			names[folder+e.Name()] = true
		}
	}
	return names
}

// emptyOwn removes them.
func (r ObjectStores) emptyOwn(gitDir string) error {
	store := r.ownStore("objects", gitDir)
	for _, folder := range looseFolders(store) {
		if err := removeOwn(filepath.Join(store, folder)); err != nil {
			return err
		}
	}
	return nil
}

// looseFolders are the folders of loose objects in a store.
func looseFolders(store string) (names []string) {
	list, _ := os.ReadDir(store) // not there: none
	for _, e := range list {
		if _, err := hex.DecodeString(e.Name()); err == nil && len(e.Name()) == 2 {
			names = append(names, e.Name())
		}
	}
	return names
}

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
	admin, err := r.repo.gitDir(dir)
	if err != nil {
		return Store{}, err
	}
	var s Store
	configured, err := r.hooks.configuredPaths(dir, admin)
	if err != nil {
		return s, err
	}
	fixed := append(configured, filepath.Join(dir, ".git"), filepath.Join(r.repo.Common, "objects"), filepath.Join(r.repo.Common, "lfs"))
	if admin == r.repo.Common { // its index stands beside the settings
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

// QuoteAlternate writes a path so that it may hold the separator of the list.
func QuoteAlternate(path string) string {
	if !strings.ContainsAny(path, ":\"\n") {
		return path
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(path) + `"`
}
