package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// Worktree is a checkout of the repository besides the main one.
type Worktree struct {
	Path   string
	Branch string // "" when its HEAD is detached
	Gone   bool   // registered, but its folder is not there

	admin string // its folder in the common directory
}

// PathError says why a worktree can't be made at a path.
type PathError struct{ Path, Reason string }

func (e *PathError) Error() string { return e.Path + " " + e.Reason }

// NewWorktree is a worktree that is wanted.
type NewWorktree struct {
	Path   string // absolute
	Branch string // that is new, and begins at Base
	Base   string // a commit
	Adopt  bool   // the branch is used also when it is there, and holds what Base has not
	Owner  string // the task that it is for
	// Takes reports whether one that is there is Owner's although it was made for another, "" when nobody wrote down for
	// whom. Nil: it never is.
	Takes func(owner string) bool
}

// Add makes a worktree with a new branch. Worktrees of one repository are made one after the other. It is done
// at once where all is as it should be, and what a cut-off call left half-made is put right: a branch without a worktree,
// a worktree without its folder, a folder that is not filled.
//
// A branch that is there already is used when it holds nothing that the base has not, or when that was adopted;
// else, and when it is checked out elsewhere, the error is a *BranchError. So it is when a worktree is there that was not
// made for the owner. A path where something else stands is a *PathError; nothing there is touched. A failing
// post-checkout hook is a *HookError; the worktree is there then.
func (r Worktrees) Add(ctx context.Context, n NewWorktree) error {
	err := CheckBranchName(n.Branch)
	if err == nil {
		n.Path = clean(n.Path)
		err = r.exclusively(ctx, func() error {
			return Retry(ctx, func() error { return r.addWorktree(ctx, n) })
		})
	}
	if err != nil {
		return fmt.Errorf("making a worktree for %s: %w", n.Branch, err)
	}
	return nil
}

// clean is path with the symbolic links in front of its last part resolved, as git writes it down.
func clean(path string) string {
	path = filepath.Clean(path)
	for dir, rest := filepath.Dir(path), filepath.Base(path); ; dir, rest = filepath.Dir(dir), filepath.Join(filepath.Base(dir), rest) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return path
		}
	}
}

// exclusively does something that only one process of Trellis may do at a time in a repository.
func (r Worktrees) exclusively(ctx context.Context, do func() error) error {
	self := proc.Self()
	common, err := filepath.EvalSymlinks(r.Common) // .git may be a link, and locks follow none
	if err != nil {
		return err
	}
	lock, err := durable.WaitLock(ctx, filepath.Join(common, "trellis.lock"), durable.Holder{PID: self.PID, Start: self.Start})
	if err != nil {
		return err
	}
	return errors.Join(do(), lock.Unlock())
}

func (r Worktrees) addWorktree(ctx context.Context, n NewWorktree) error {
	r.tidy()
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	done, err := r.clear(ctx, all, n)
	if done || err != nil {
		return err
	}
	main, err := r.Refs().branchOf(ctx, r.Common)
	if err != nil {
		return err
	}
	for _, w := range append(all, Worktree{Path: r.Main, Branch: main}) {
		if w.Branch == n.Branch && w.Path != n.Path {
			return &BranchError{Branch: n.Branch, Taken: n.Branch, Worktree: w.Path, Owner: w.Owner(), gone: w.Gone}
		}
	}
	args, err := r.branchArgs(ctx, n)
	if err != nil {
		return err
	}
	err = RetryLocked(ctx, []string{r.branchLock(n.Branch)}, func() error {
		_, _, err := r.Run(ctx, Command{Dir: r.Main, Args: append([]string{"worktree", "add", "--quiet"}, args...), Write: true, Once: true})
		return err
	})
	return r.made(ctx, n, err)
}

// tidy removes what git left when it was killed before it wrote where a worktree would be. Nothing names it, and git keeps it until
// somebody types git worktree prune.
func (r Worktrees) tidy() {
	folder := filepath.Join(r.Common, "worktrees")
	list, _ := os.ReadDir(folder) // not there: none
	for _, e := range list {
		if admin := filepath.Join(folder, e.Name()); e.IsDir() && unnamed(admin) {
			os.RemoveAll(admin)
		}
	}
}

// inTheMaking is longer than git takes to write where a worktree is.
const inTheMaking = time.Minute

// unnamed reports whether the folder of a worktree says of no place, and nobody is about to write that: it is locked by who made it,
// or there is nothing in it but the lock of an index that the end of its maker came before.
func unnamed(admin string) bool {
	if link, _ := os.ReadFile(filepath.Join(admin, "gitdir")); len(link) > 0 {
		return false
	}
	if halfMade(admin) {
		return old(filepath.Join(admin, "locked"))
	}
	const lock = "index.lock"
	list, err := os.ReadDir(admin)
	if err != nil || len(list) > 1 || len(list) == 1 && list[0].Name() != lock || !old(admin) {
		return false
	}
	return len(list) == 0 || old(filepath.Join(admin, lock)) && !isOpen(filepath.Join(admin, lock))
}

func old(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && time.Since(st.ModTime()) > inTheMaking
}

// clear makes room for a worktree. It reports true when it is there already, and its owner's.
func (r Worktrees) clear(ctx context.Context, all []Worktree, n NewWorktree) (done bool, err error) {
	path := n.Path
	var here *Worktree
	for i := range all {
		if all[i].Path == path {
			here = &all[i]
		}
	}
	switch {
	case here == nil:
		return false, vacant(path)
	case halfMade(here.admin):
		return false, discard(here)
	case here.Gone:
		return false, r.unregister(ctx, path)
	}
	if err := r.relink(*here); err != nil {
		return false, err
	}
	if _, err := (WorktreeID{Path: path, Admin: here.admin, Common: r.Common}).linked(); err != nil {
		return false, err
	}
	if here.Branch != n.Branch {
		return false, &PathError{path, fmt.Sprintf("is a worktree already, with %q checked out", here.Branch)}
	}
	if by := here.Owner(); by != n.Owner && (n.Takes == nil || !n.Takes(by)) {
		return false, &BranchError{Branch: n.Branch, Taken: n.Branch, Worktree: path, Owner: by}
	}
	return true, r.claimFor(n.Owner, path, here.admin)
}

// vacant is nil when a worktree can be made at path: nothing or an empty folder is there.
func vacant(path string) error {
	list, err := os.ReadDir(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &PathError{path, "is there already and is no folder"}
	case len(list) > 0:
		return &PathError{path, "is there already and is no worktree; move it away"}
	}
	return nil
}

// halfMade reports whether git was killed while it made the worktree: until it is done, it keeps it locked.
func halfMade(admin string) bool {
	reason, err := os.ReadFile(filepath.Join(admin, "locked"))
	return err == nil && strings.TrimSpace(string(reason)) == "initializing"
}

// discard removes a half-made worktree: what is in it comes from the commit.
func discard(w *Worktree) error {
	dot := filepath.Join(w.Path, ".git")
	link, err := readLink(dot)
	switch {
	case err == nil && link == w.admin:
		err = os.RemoveAll(w.Path)
	case err != nil && isEmpty(dot): // made, but not written yet; it is the first in its folder
		err = os.Remove(dot)
	default:
		err = nil
	}
	return errors.Join(err, os.RemoveAll(w.admin))
}

func isEmpty(file string) bool {
	st, err := os.Lstat(file)
	return err == nil && st.Mode().IsRegular() && st.Size() == 0
}

// branchArgs are the arguments of git worktree add: for a new branch, or for one that is there.
func (r Worktrees) branchArgs(ctx context.Context, n NewWorktree) ([]string, error) {
	path, branch, base := n.Path, n.Branch, n.Base
	tip, err := r.Refs().Branch(ctx, branch)
	switch {
	case err != nil:
		return nil, err
	case tip == "":
		return []string{"--no-track", "-b", branch, "--", path, base}, nil
	case n.Adopt || tip == base:
		return []string{"--", path, branch}, nil
	}
	within, err := r.History().IsAncestor(ctx, tip, base)
	if err != nil {
		return nil, err
	}
	if !within {
		return nil, &BranchError{Branch: branch, Taken: branch, Tip: tip}
	}
	return []string{"--no-track", "-B", branch, "--", path, base}, nil
}

// made notes whose worktree it is, once git has made it; also when a hook, which runs then, failed.
func (r Worktrees) made(ctx context.Context, n NewWorktree, err error) error {
	if err = r.orHook(ctx, n, err); err != nil && !errors.As(err, new(*HookError)) {
		return err
	}
	if damaged := r.Trees().verifyHead(ctx, n.Path); damaged != nil {
		return damaged
	}
	admin, dirErr := r.gitDir(n.Path)
	if dirErr == nil {
		dirErr = r.claimFor(n.Owner, n.Path, admin)
	}
	return errors.Join(err, dirErr)
}

// orHook tells the failure of a hook, which runs when the worktree is made, from one to make it.
func (r Worktrees) orHook(ctx context.Context, n NewWorktree, err error) error {
	var failed *Error
	if !errors.As(err, &failed) || len(r.Hooks().hooks(ctx, r.Main, "post-checkout")) == 0 {
		return err
	}
	all, listErr := r.List(ctx)
	if listErr != nil {
		return err
	}
	for _, w := range all {
		if w.Path == n.Path && !w.Gone && w.Branch == n.Branch && !halfMade(w.admin) {
			return &HookError{"post-checkout", failed.Stderr}
		}
	}
	return err
}

// Remove removes the worktree at path with all that is in it; it is no error when there is none.
// Save it first, with [Backups.Backup]. The branch stays.
func (r Worktrees) Remove(ctx context.Context, path string) error {
	path = clean(path)
	err := r.Modules().removeInner(ctx, path)
	if err == nil {
		err = r.exclusively(ctx, func() error {
			return Retry(ctx, func() error { return r.removeWorktree(ctx, path) })
		})
	}
	if err != nil {
		return fmt.Errorf("removing worktree %s: %w", path, err)
	}
	return nil
}

func (r Worktrees) removeWorktree(ctx context.Context, path string) error {
	r.tidy()
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.Path != path {
			continue
		}
		if err := r.takeAway(ctx, w); err != nil {
			return err
		}
		r.seen.forget(w.Path, w.admin)
		return r.ObjectStores().dropOwn(w.admin)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is %w", path, ErrNoWorktree)
	}
	return nil
}

func (r Worktrees) takeAway(ctx context.Context, w Worktree) error {
	switch {
	case halfMade(w.admin):
		return discard(&w)
	case !w.Gone && unlinked(w.Path):
		if err := r.unlinkedSame(w); err != nil {
			return err
		}
		return errors.Join(os.RemoveAll(w.Path), os.RemoveAll(w.admin))
	case w.Gone:
		return r.unregister(ctx, w.Path)
	}
	if err := errors.Join(checkWorktree(ctx, w.Path), r.Check(w)); err != nil {
		return err
	}
	return r.unregister(ctx, w.Path)
}

// relink writes the file by which git knows a worktree when that is gone: an agent removed it, or a git that was killed
// while it removed the worktree.
func (r Worktrees) relink(w Worktree) error {
	if !unlinked(w.Path) {
		return nil
	}
	if err := r.unlinkedSame(w); err != nil {
		return err
	}
	if err := durable.WriteOwn(filepath.Join(w.Path, ".git"), []byte("gitdir: "+w.admin+"\n"), 0o644); err != nil {
		return fmt.Errorf("mending worktree %s: %w", w.Path, err)
	}
	return nil
}

// unlinked reports whether the file is gone by which git knows a worktree. What a link leads to is none.
func unlinked(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() {
		return false
	}
	_, err = os.Lstat(filepath.Join(path, ".git"))
	return errors.Is(err, fs.ErrNotExist)
}

// unlinkedSame is a *SwappedError when a worktree without that file is another folder than the one that was made.
func (r Worktrees) unlinkedSame(w Worktree) error {
	o, err := readOwner(w.admin)
	if err != nil || o.Folder == (FileID{}) {
		return err
	}
	common, err := idOf(r.Common)
	if err != nil || common != o.Repository {
		return err
	}
	if now, err := idOf(w.Path); err != nil || now != o.Folder {
		return &SwappedError{w.Path, "another folder is in its place"}
	}
	return nil
}

func (r Worktrees) unregister(ctx context.Context, path string) error {
	_, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"worktree", "remove", "--force", "--", path}, Write: true, Once: true})
	return err
}

// List gives the linked worktrees, in the order of their names in the common directory.
func (r Worktrees) List(ctx context.Context) ([]Worktree, error) {
	folder := filepath.Join(r.Common, "worktrees")
	list, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing worktrees: %w", err)
	}
	c, err := ReadConfig(r.Common)
	plain := err == nil && !c.extended
	var all []Worktree
	for _, e := range list {
		w, err := r.worktree(ctx, filepath.Join(folder, e.Name()), plain)
		if err != nil {
			return nil, fmt.Errorf("listing worktrees: %w", err)
		}
		if w != nil {
			all = append(all, *w)
		}
	}
	return all, nil
}

// worktree is the one that a folder in the common directory tells of; nil when it is being made, was never finished, or
// is removed at this moment.
func (r Worktrees) worktree(ctx context.Context, admin string, plain bool) (*Worktree, error) {
	w := &Worktree{admin: admin}
	st, err := os.Lstat(admin)
	var link []byte
	if err == nil {
		link, err = os.ReadFile(filepath.Join(admin, "gitdir"))
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(link) == 0 {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	w.Path = filepath.Dir(AbsFrom(admin, strings.TrimSuffix(string(link), "\n")))
	_, err = os.Lstat(w.Path)
	w.Gone = errors.Is(err, fs.ErrNotExist)
	w.Branch, err = r.branchIn(ctx, admin, plain)
	if now, gone := os.Lstat(admin); err != nil && (gone != nil || !os.SameFile(st, now)) {
		return nil, nil
	}
	return w, err
}

// branchIn is branchOf. In a plain repository a look at HEAD is nearly always enough, and there may be hundreds
// of worktrees.
func (r Worktrees) branchIn(ctx context.Context, gitDir string, plain bool) (string, error) {
	if plain {
		head, err := os.ReadFile(filepath.Join(gitDir, "HEAD"))
		name, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: "+BranchPrefix)
		if err == nil && ok && CheckBranchName(name) == nil && !r.Refs().isLink(name) {
			return name, nil
		}
	}
	return r.Refs().branchOf(ctx, gitDir)
}

// isLink reports whether a branch is only another name of one.
func (r Refs) isLink(branch string) bool {
	data, err := os.ReadFile(filepath.Join(r.Common, "refs", "heads", filepath.FromSlash(branch)))
	return err == nil && strings.HasPrefix(string(data), "ref:")
}
