package git

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
)

// Worktrees creates, lists, checks and removes linked worktrees.
type Worktrees struct{ repo *Repo }

// CheckOwn returns a *ReplacedError unless dir is the main checkout or a worktree in the state in which it was created.
func (r Worktrees) CheckOwn(dir string) error {
	if dir == r.repo.Main {
		return nil
	}
	_, err := r.Identify(dir)
	return err
}

// Checkout creates a worktree of a commit at path (absolute), on no branch, with the files of the commit and no others. A worktree
// of this repository that exists at path, from a call that was cut off, is replaced. No hook runs. It returns a *DamagedError if
// the files are not those of the commit. The caller removes the worktree with [Worktrees.Remove].
func (r Worktrees) Checkout(ctx context.Context, path, commit string) error {
	path = resolvedPath(path)
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
	return r.repo.withLock(ctx, func() error {
		if err := r.checkVacant(path); err != nil {
			return err
		}
		err := RetryLocked(ctx, nil, func() error {
			return r.repo.Do(ctx, Command{Dir: r.repo.Main, Write: true, Args: []string{"-c", "core.hooksPath=" + os.DevNull, "-c", "core.sparseCheckout=false",
				"worktree", "add", "--quiet", "--detach", "--", path, commit}, Once: true})
		})
		if err == nil {
			err = r.verifyHead(ctx, path)
		}
		return err
	})
}

// Identify returns the identity of the worktree at path as it is now. It returns a *ReplacedError if there is no worktree of this
// repository at path, if it only seems to be one because of a link, or if the folder isn't the one recorded when it was created.
func (r Worktrees) Identify(path string) (WorktreeID, error) {
	m := WorktreeID{Path: resolvedPath(path), Common: r.repo.Common}
	admin, err := r.repo.gitDir(m.Path)
	if err != nil || admin == r.repo.Common {
		return m, &ReplacedError{m.Path, "no worktree of this repository is there"}
	}
	m.Admin = admin
	o, err := readOwner(admin)
	if err != nil {
		return m, err
	}
	m.Mark = o.Mark
	if m.Repository, err = idOf(r.repo.Common); err != nil {
		return m, fmt.Errorf("looking at the repository: %w", err)
	}
	if m.Folder, err = m.checkLinks(); err != nil {
		return m, err
	}
	if m.Repository == o.Repository && o.Folder != (FileID{}) && m.Folder != o.Folder {
		return m, &ReplacedError{m.Path, "another folder is in its place"}
	}
	m.GitDir, err = idOf(admin)
	return m, err
}

// Check returns a *ReplacedError if an existing worktree was replaced by something else. See Identify.
func (r Worktrees) Check(w Worktree) error {
	if _, err := (WorktreeID{Path: w.Path, Admin: w.admin, Common: r.repo.Common}).checkLinks(); err != nil {
		return err
	}
	_, err := r.Identify(w.Path)
	return err
}

// claimFor records the task that the worktree was created for, unless that is recorded already.
func (r Worktrees) claimFor(task, path, admin string) error {
	if task == "" {
		return nil
	}
	folder, err := idOf(path)
	if err == nil {
		err = r.writeOwner(owner{Task: task, Folder: folder}, admin)
	}
	if err != nil {
		return fmt.Errorf("noting whose worktree %s is: %w", path, err)
	}
	return nil
}

func (r Worktrees) writeOwner(o owner, admin string) (err error) {
	if o.Repository, err = idOf(r.repo.Common); err != nil {
		return err
	}
	old, err := readOwner(admin)
	if o.Mark = old.Mark; err == nil && o.Mark != "" && o == old {
		return nil
	}
	mark := make([]byte, 8)
	rand.Read(mark) // never fails
	o.Mark = hex.EncodeToString(mark)
	data, err := json.Marshal(o)
	if err != nil {
		return err
	}
	return new(durable.Disk).WriteFile(filepath.Join(admin, ownerFile), data, 0o644)
}

// verifyHead checks that a new checkout matches its commit, and removes one that doesn't.
func (r Worktrees) verifyHead(ctx context.Context, path string) error {
	head, err := r.repo.Refs().Head(ctx, path)
	if err == nil {
		err = r.repo.Trees().verifyCheckout(ctx, path, head)
	}
	if errors.As(err, new(*DamagedError)) {
		err = errors.Join(err, r.unregister(ctx, path))
	}
	return err
}

// Add creates a worktree with a new branch. Worktrees of one repository are created one at a time. Add returns at once if the
// worktree already exists as wanted, and repairs the leftovers of a call that was cut off: a branch without a worktree, a worktree
// without its folder, a folder without its files.
//
// An existing branch is used if it has no commits that the base lacks, or if n.Adopt is set; otherwise, and if it is checked out
// elsewhere, the error is a *BranchError. So it is if the worktree exists but was created for another owner. The error is a
// *PathError if something else exists at the path, which is not touched, and a *HookError if the post-checkout hook fails; the
// worktree exists then.
func (r Worktrees) Add(ctx context.Context, n NewWorktree) error {
	err := CheckBranchName(n.Branch)
	if err == nil {
		n.Path = resolvedPath(n.Path)
		err = r.repo.withLock(ctx, func() error {
			return Retry(ctx, func() error { return r.addWorktree(ctx, n) })
		})
	}
	if err != nil {
		return fmt.Errorf("making a worktree for %s: %w", n.Branch, err)
	}
	return nil
}

func (r Worktrees) addWorktree(ctx context.Context, n NewWorktree) error {
	r.removeAbandoned()
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	done, err := r.makeRoom(ctx, all, n)
	if done || err != nil {
		return err
	}
	if err := r.checkOnlyAt(ctx, all, n.Branch, n.Path); err != nil {
		return err
	}
	args, err := r.branchArgs(ctx, n)
	if err != nil {
		return err
	}
	err = RetryLocked(ctx, []string{r.repo.branchLock(n.Branch)}, func() error {
		return r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: append([]string{"worktree", "add", "--quiet"}, args...), Write: true, Once: true})
	})
	return r.recordCreated(ctx, n, err)
}

// CheckOnlyAt returns a *BranchError if a branch is checked out anywhere else than at path, or anywhere at all if path is "".
func (r Worktrees) CheckOnlyAt(ctx context.Context, branch, path string) error {
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	return r.checkOnlyAt(ctx, all, branch, resolvedPath(path))
}

func (r Worktrees) checkOnlyAt(ctx context.Context, all []Worktree, branch, path string) error {
	main, err := r.repo.Refs().branchOf(ctx, r.repo.Common)
	if err != nil {
		return err
	}
	for _, w := range append(all, Worktree{Path: r.repo.Main, Branch: main}) {
		if w.Branch == branch && w.Path != path {
			return &BranchError{Branch: branch, Taken: branch, Worktree: w.Path, Owner: w.Owner(), Gone: w.Gone}
		}
	}
	return nil
}

// removeAbandoned removes worktree entries in the common directory that git left when it was killed before it recorded the location of the
// worktree. Nothing refers to them, and git keeps them until somebody types git worktree prune.
func (r Worktrees) removeAbandoned() {
	folder := filepath.Join(r.repo.Common, "worktrees")
	list, _ := os.ReadDir(folder) // an error means that there are none
	for _, e := range list {
		if admin := filepath.Join(folder, e.Name()); e.IsDir() && isAbandonedAdmin(admin) {
			os.RemoveAll(admin)
		}
	}
}

// makeRoom makes room for a worktree. It reports true if the worktree exists already and belongs to the owner.
func (r Worktrees) makeRoom(ctx context.Context, all []Worktree, n NewWorktree) (done bool, err error) {
	path := n.Path
	var here *Worktree
	for i := range all {
		if all[i].Path == path {
			here = &all[i]
		}
	}
	switch {
	case here == nil:
		return false, r.checkVacant(path)
	case halfMade(here.admin):
		return false, removeHalfMade(here)
	case here.Gone:
		return false, r.unregister(ctx, path)
	}
	if err := r.Relink(*here); err != nil {
		return false, err
	}
	if _, err := (WorktreeID{Path: path, Admin: here.admin, Common: r.repo.Common}).checkLinks(); err != nil {
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

// branchArgs returns the arguments of git worktree add, for a new branch or an existing one.
func (r Worktrees) branchArgs(ctx context.Context, n NewWorktree) ([]string, error) {
	path, branch, base := n.Path, n.Branch, n.Base
	tip, err := r.repo.Refs().Branch(ctx, branch)
	switch {
	case err != nil:
		return nil, err
	case tip == "":
		return []string{"--no-track", "-b", branch, "--", path, base}, nil
	case n.Adopt || tip == base:
		return []string{"--", path, branch}, nil
	}
	within, err := r.repo.History().IsAncestor(ctx, tip, base)
	if err != nil {
		return nil, err
	}
	if !within {
		return nil, &BranchError{Branch: branch, Taken: branch, Tip: tip}
	}
	return []string{"--no-track", "-B", branch, "--", path, base}, nil
}

// recordCreated records the owner of a worktree that git has created, also if the post-checkout hook failed, which runs after that.
func (r Worktrees) recordCreated(ctx context.Context, n NewWorktree, err error) error {
	if err = r.asHookError(ctx, n, err); err != nil && !errors.As(err, new(*HookError)) {
		return err
	}
	if damaged := r.verifyHead(ctx, n.Path); damaged != nil {
		return damaged
	}
	admin, dirErr := r.repo.gitDir(n.Path)
	if dirErr == nil {
		dirErr = r.claimFor(n.Owner, n.Path, admin)
	}
	return errors.Join(err, dirErr)
}

// asHookError returns a *HookError if the worktree was created and only its post-checkout hook failed, and err otherwise.
func (r Worktrees) asHookError(ctx context.Context, n NewWorktree, err error) error {
	var failed *Error
	if !errors.As(err, &failed) || len(r.repo.Hooks().installed(ctx, r.repo.Main, "post-checkout")) == 0 {
		return err
	}
	all, listErr := r.List(ctx)
	if listErr != nil {
		return err
	}
	for _, w := range all {
		if w.Path == n.Path && !w.Gone && w.Branch == n.Branch && !halfMade(w.admin) {
			return hookError("post-checkout", failed)
		}
	}
	return err
}

// Remove removes the worktree at path with everything in it; if nothing is at path, it returns nil. The branch stays. Back it up first
// with snapshot.Backups.Backup.
func (r Worktrees) Remove(ctx context.Context, path string) error {
	path = resolvedPath(path)
	err := r.repo.Modules().removeWorktrees(ctx, path)
	if err == nil {
		err = r.repo.withLock(ctx, func() error {
			return Retry(ctx, func() error { return r.removeWorktree(ctx, path) })
		})
	}
	if err != nil {
		return fmt.Errorf("removing worktree %s: %w", path, err)
	}
	return nil
}

func (r Worktrees) removeWorktree(ctx context.Context, path string) error {
	r.removeAbandoned()
	all, err := r.List(ctx)
	if err != nil {
		return err
	}
	for _, w := range all {
		if w.Path != path {
			continue
		}
		if err := r.removeRegistered(ctx, w); err != nil {
			return err
		}
		r.repo.seen.forget(w.Path, w.admin)
		return r.repo.ObjectStores().removeOwnStores(w.admin)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is %w", path, ErrNoWorktree)
	}
	return nil
}

func (r Worktrees) removeRegistered(ctx context.Context, w Worktree) error {
	switch {
	case halfMade(w.admin):
		return removeHalfMade(&w)
	case !w.Gone && lacksGitFile(w.Path):
		if err := r.checkSameFolder(w); err != nil {
			return err
		}
		return errors.Join(os.RemoveAll(w.Path), os.RemoveAll(w.admin))
	case w.Gone:
		return r.unregister(ctx, w.Path)
	}
	if err := errors.Join(CheckWorktree(ctx, w.Path), r.Check(w)); err != nil {
		return err
	}
	return r.unregister(ctx, w.Path)
}

// Relink recreates the .git file of a worktree, by which git knows it, if that is gone: removed by an agent, or by a git that was
// killed while it removed the worktree.
func (r Worktrees) Relink(w Worktree) error {
	if w.Gone || w.HalfMade() || !lacksGitFile(w.Path) {
		return nil
	}
	if err := r.checkSameFolder(w); err != nil {
		return err
	}
	if err := durable.WriteOwn(filepath.Join(w.Path, ".git"), []byte("gitdir: "+w.admin+"\n"), 0o644); err != nil {
		return fmt.Errorf("linking worktree %s again: %w", w.Path, err)
	}
	return nil
}

// checkSameFolder returns a *ReplacedError if a worktree without its .git file is not the folder that was created.
func (r Worktrees) checkSameFolder(w Worktree) error {
	o, err := readOwner(w.admin)
	if err != nil || o.Folder == (FileID{}) {
		return err
	}
	common, err := idOf(r.repo.Common)
	if err != nil || common != o.Repository {
		return err
	}
	if now, err := idOf(w.Path); err != nil || now != o.Folder {
		return &ReplacedError{w.Path, "another folder is in its place"}
	}
	return nil
}

func (r Worktrees) unregister(ctx context.Context, path string) error {
	return r.repo.Do(ctx, Command{Dir: r.repo.Main, Args: []string{"worktree", "remove", "--force", "--", path}, Write: true, Once: true})
}

// List returns the linked worktrees, sorted by the names of their folders in the common directory.
func (r Worktrees) List(ctx context.Context) ([]Worktree, error) {
	folder := filepath.Join(r.repo.Common, "worktrees")
	list, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing worktrees: %w", err)
	}
	c, err := ReadConfig(r.repo.Common)
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

// worktree returns the worktree that a folder in the common directory describes; nil if it is being created or removed at this
// moment, or was never finished.
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

// ForTask returns the worktree that was created for a task: the one on its branch, or else the one at a path, whatever an agent has
// checked out there. It returns nil if there is none.
func (r Worktrees) ForTask(ctx context.Context, task, branch, at string) (found *Worktree, err error) {
	all, err := r.List(ctx)
	for _, w := range all {
		switch {
		case w.Gone || w.HalfMade() || w.Owner() != task:
		case w.Branch == branch:
			return &w, nil
		case w.At(at):
			found = &w
		}
	}
	return found, err
}

// Resumable reports whether there is a worktree at path in which work can go on. If something else is there, it returns a
// *ReplacedError or a *PathError, which says what to do about it; a missing or empty folder is not an error.
func (r Worktrees) Resumable(ctx context.Context, path string) (bool, error) {
	all, err := r.List(ctx)
	if err != nil {
		return false, err
	}
	for _, w := range all {
		switch {
		case !w.At(path):
		case w.Gone || w.HalfMade():
			return false, nil
		case lacksGitFile(w.Path):
			err := r.checkSameFolder(w)
			return err == nil, err
		default:
			err := r.Check(w)
			return err == nil, err
		}
	}
	return false, r.checkVacant(resolvedPath(path))
}

// branchIn is branchOf, but mostly reads only HEAD in a plain repository: there may be hundreds of worktrees.
func (r Worktrees) branchIn(ctx context.Context, gitDir string, plain bool) (string, error) {
	if plain {
		head, err := os.ReadFile(filepath.Join(gitDir, "HEAD"))
		name, ok := strings.CutPrefix(strings.TrimSpace(string(head)), "ref: "+BranchPrefix)
		if err == nil && ok && CheckBranchName(name) == nil && !r.repo.Refs().isSymbolicRef(name) {
			return name, nil
		}
	}
	return r.repo.Refs().branchOf(ctx, gitDir)
}

// CheckGitFile returns a *PathError, which names the repair command, if the worktree at path has lost its .git file.
func (r Worktrees) CheckGitFile(ctx context.Context, path string) error {
	if !lacksGitFile(path) {
		return nil
	}
	all, err := r.List(ctx)
	if err == nil && slices.ContainsFunc(all, func(w Worktree) bool { return w.At(path) }) {
		err = &PathError{path, "has lost its .git file, by which git knows it: `git worktree repair` makes that again"}
	}
	return err
}

// RelinkAt recreates the .git file of a worktree that has lost it.
func (r Worktrees) RelinkAt(ctx context.Context, dir string) error {
	if !lacksGitFile(dir) {
		return nil
	}
	all, err := r.List(ctx)
	for _, w := range all {
		if err == nil && w.Path == resolvedPath(dir) {
			err = r.Relink(w)
		}
	}
	return err
}

// HasUnsavedWork reports whether the repository at inner, a folder of the worktree at dir, has something that would be lost with the
// worktree: commits that did not come from a remote and that none of its remotes had when last fetched, or files but no commit
// yet. Nothing that its configuration names is run.
func (r Worktrees) HasUnsavedWork(ctx context.Context, dir, inner string) (bool, error) {
	inner = filepath.Join(dir, inner)
	if link, err := readGitFile(filepath.Join(inner, ".git")); err == nil {
		if common, err := commonDir(link); err == nil && !inside(dir, common) && !r.isInWorktreeGitDir(common) {
			return false, nil // its objects stay, since they are stored elsewhere
		}
	}
	first := func(tips ...string) (string, error) {
		return r.repo.Line(ctx, Command{Dir: inner, Args: slices.Concat([]string{"rev-list", "--max-count=1"}, tips, []string{"--not", "--remotes", "--tags"}), Env: noFetchEnv})
	}
	if named, err := first("--exclude=refs/tags/*", "--glob=refs/*"); err != nil || named != "" {
		return named != "", err
	}
	if _, err := r.repo.Refs().RevParse(ctx, inner, "HEAD^{commit}"); errors.Is(err, ErrNotFound) {
		tagged, err := r.repo.Line(ctx, Command{Dir: inner, Args: []string{"rev-list", "--max-count=1", "--tags", "--not", "--remotes"}, Env: noFetchEnv})
		if err != nil || tagged != "" { // there is no reflog of HEAD to check
			return tagged != "", err
		}
		return hasFiles(inner)
	}
	head, err := first("HEAD")
	if err != nil {
		return false, err
	}
	return r.hasLocalCommits(ctx, inner, head)
}

// isInWorktreeGitDir reports whether dir lies in the git directory of a worktree, or of a submodule's worktree, and is removed with it.
func (r Worktrees) isInWorktreeGitDir(dir string) bool {
	for inside(r.repo.Common, dir) && dir != r.repo.Common {
		if _, err := os.Lstat(filepath.Join(dir, "commondir")); err == nil {
			return true
		}
		dir = filepath.Dir(dir)
	}
	return false
}

// hasLocalCommits reports whether commits that only tags or HEAD lead to were made here. Those of tags count as cloned unless the reflog
// of HEAD says otherwise. head, the commit of HEAD if no ref leads to it, counts as fetched if that log has its checkout and
// nothing made.
func (r Worktrees) hasLocalCommits(ctx context.Context, inner, head string) (bool, error) {
	list, _, err := r.repo.Run(ctx, Command{Dir: inner, Args: []string{"rev-list", "--tags", "HEAD", "--not", "--remotes"}, Env: noFetchEnv})
	if err != nil || list == "" {
		return false, err
	}
	log, _, err := r.repo.Run(ctx, Command{Dir: inner, Args: []string{"log", "--walk-reflogs", "--format=%H %gs", "HEAD"}, Env: noFetchEnv})
	fetched := head == ""
	for line := range strings.Lines(log) {
		commit, what, _ := strings.Cut(line, " ")
		switch brought := strings.HasPrefix(what, "checkout:") || strings.HasPrefix(what, "clone:"); {
		case brought:
			fetched = fetched || commit == head
		case strings.Contains(list, commit):
			return true, nil
		}
	}
	return !fetched, err
}

// hasFiles reports whether the folder of a repository contains anything besides .git.
func hasFiles(inner string) (bool, error) {
	entries, err := os.ReadDir(inner)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != ".git" }), err
}
