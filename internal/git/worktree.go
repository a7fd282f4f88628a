package git

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Worktree is a linked worktree of the repository.
type Worktree struct {
	Path   string
	Branch string // "" when its HEAD is detached
	Gone   bool   // registered, but its folder doesn't exist

	admin string // its folder in the common directory of the repository
}

// PathError means that a worktree can't be created at a path.
type PathError struct{ Path, Reason string }

func (e *PathError) Error() string { return e.Path + " " + e.Reason }

// NewWorktree describes a worktree to create.
type NewWorktree struct {
	Path   string // absolute
	Branch string // created at Base unless it exists
	Base   string // a commit
	Adopt  bool   // use Branch also if it exists and has commits that Base lacks
	Owner  string // the task that the worktree is for
	// Takes reports whether Owner may use an existing worktree that was created for owner, "" if none was recorded. Nil: it may
	// not.
	Takes func(owner string) bool
}

// resolvedPath returns path with the symbolic links in its parent folders resolved, as git records it.
func resolvedPath(path string) string {
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

// creationGrace is longer than git takes to record the location of a new worktree.
const creationGrace = time.Minute

// isAbandonedAdmin reports whether a worktree's folder in the common directory records no location and no process is about to write one: it
// has been locked by its creator for longer than creationGrace, or holds at most an index lock that a killed process left.
func isAbandonedAdmin(admin string) bool {
	if link, _ := os.ReadFile(filepath.Join(admin, "gitdir")); len(link) > 0 {
		return false
	}
	if halfMade(admin) {
		return isOld(filepath.Join(admin, "locked"))
	}
	const lock = "index.lock"
	list, err := os.ReadDir(admin)
	if err != nil || len(list) > 1 || len(list) == 1 && list[0].Name() != lock || !isOld(admin) {
		return false
	}
	return len(list) == 0 || isOld(filepath.Join(admin, lock)) && !isOpen(filepath.Join(admin, lock))
}

func isOld(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && time.Since(st.ModTime()) > creationGrace
}

// checkVacant returns nil if a worktree can be created at path: it doesn't exist or is an empty folder.
func (r Worktrees) checkVacant(path string) error {
	list, err := os.ReadDir(path)
	if lost := r.CheckLost(path); lost != nil {
		return lost
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &PathError{path, "is there already and is not a folder: " + moveAsideHint(path)}
	case len(list) > 0:
		return &PathError{path, "is there already and is not a worktree of this repository: " + moveAsideHint(path)}
	}
	return nil
}

// CheckLost returns a *PathError, with the command that keeps its files, if path was a worktree of this repository that git no longer
// knows. Git may still have a folder for it in the common directory: the worktree or the repository was moved without git.
func (r Worktrees) CheckLost(path string) error {
	link, err := readGitFile(filepath.Join(path, ".git"))
	if err != nil {
		return nil
	}
	admin := filepath.Join(r.repo.Common, "worktrees", filepath.Base(link))
	data, err := durable.ReadBelow(admin, "gitdir", maxPointer)
	if err != nil {
		if link != admin {
			return nil
		}
		return &PathError{path, "was a worktree, and git has lost its folder of it: " + moveAsideHint(path)}
	}
	if _, err = os.Lstat(AbsFrom(admin, strings.TrimSpace(string(data)))); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &PathError{path, "is a worktree that git lost the way to: `git worktree repair " + trellis.ShellWord(path) + "` leads there again"}
}

// moveAsideHint returns a hint with the command that makes room at path. No branch name contains a ~, so no worktree has the new name.
func moveAsideHint(path string) string {
	return "`mv " + trellis.ShellWord(path) + " " + trellis.ShellWord(path+"~kept") + "` keeps what is there"
}

// halfMade reports whether git was killed while it created the worktree: git keeps a worktree locked until it is complete.
func halfMade(admin string) bool {
	reason, err := os.ReadFile(filepath.Join(admin, "locked"))
	return err == nil && strings.TrimSpace(string(reason)) == "initializing"
}

// removeHalfMade removes a half-made worktree: all its files come from the commit.
func removeHalfMade(w *Worktree) error {
	dot := filepath.Join(w.Path, ".git")
	link, err := readGitFile(dot)
	switch {
	case err == nil && link == w.admin:
		err = os.RemoveAll(w.Path)
	case err != nil && isEmpty(dot): // created but not yet written, which git does before all other files
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

// lacksGitFile reports whether the .git file of a worktree is gone, by which git knows it. It returns false if path is a link.
func lacksGitFile(path string) bool {
	st, err := os.Lstat(path)
	if err != nil || !st.IsDir() {
		return false
	}
	_, err = os.Lstat(filepath.Join(path, ".git"))
	return errors.Is(err, fs.ErrNotExist)
}

// Locked reports whether somebody told git to leave the worktree alone (git worktree lock), and why.
func (w Worktree) Locked() (reason string, locked bool) {
	data, err := os.ReadFile(filepath.Join(w.admin, "locked"))
	switch {
	case errors.Is(err, fs.ErrNotExist), halfMade(w.admin):
		return "", false
	case err != nil: // git treats it as locked too
		return err.Error(), true
	}
	return strings.TrimSpace(string(data)), true
}

// HalfMade reports whether git was killed while it made the worktree: nobody worked in it.
func (w Worktree) HalfMade() bool { return halfMade(w.admin) }

// At reports whether path is the worktree's path, links in its parent folders resolved.
func (w Worktree) At(path string) bool { return w.Path == resolvedPath(path) }

// In reports whether the worktree lies below folder.
func (w Worktree) In(folder string) bool {
	return inside(filepath.Dir(resolvedPath(filepath.Join(folder, "x"))), w.Path)
}

// Owner returns the task that the worktree was created for, "" if none is recorded.
func (w Worktree) Owner() string {
	o, _ := readOwner(w.admin) // an unreadable file counts as none
	return o.Task
}
