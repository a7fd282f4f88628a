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

// vacant is nil when a worktree can be made at path: nothing or an empty folder is there.
func (r Worktrees) vacant(path string) error {
	list, err := os.ReadDir(path)
	if lost := r.Lost(path); lost != nil {
		return lost
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return &PathError{path, "is there already and is not a folder: " + away(path)}
	case len(list) > 0:
		return &PathError{path, "is there already and is not a worktree of this repository: " + away(path)}
	}
	return nil
}

// Lost is a *PathError when path was a worktree of this repository that git does not know, with the command that keeps what is in it.
// Git may have its folder of it still: it was moved, or the repository was, without git.
func (r Worktrees) Lost(path string) error {
	link, err := readLink(filepath.Join(path, ".git"))
	if err != nil {
		return nil
	}
	admin := filepath.Join(r.repo.Common, "worktrees", filepath.Base(link))
	data, err := durable.ReadBelow(admin, "gitdir", maxPointer)
	if err != nil {
		if link != admin {
			return nil
		}
		return &PathError{path, "was a worktree, and git has lost its folder of it: " + away(path)}
	}
	if _, err = os.Lstat(AbsFrom(admin, strings.TrimSpace(string(data)))); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return &PathError{path, "is a worktree that git lost the way to: `git worktree repair " + trellis.ShellWord(path) + "` leads there again"}
}

// away names the command that makes room at path. No branch can be called as what that makes, so nothing is in its place.
func away(path string) string {
	return "`mv " + trellis.ShellWord(path) + " " + trellis.ShellWord(path+"~kept") + "` keeps what is there"
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

// unlinked reports whether the file is gone by which git knows a worktree. What a link leads to is none.
func unlinked(path string) bool {
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
	case err != nil: // git takes it for locked too
		return err.Error(), true
	}
	return strings.TrimSpace(string(data)), true
}

// HalfMade reports whether git was killed while it made the worktree: nobody worked in it.
func (w Worktree) HalfMade() bool { return halfMade(w.admin) }

// At reports whether path is the worktree's, by whatever links it leads there.
func (w Worktree) At(path string) bool { return w.Path == clean(path) }

// In reports whether the worktree lies below folder.
func (w Worktree) In(folder string) bool {
	return inside(filepath.Dir(clean(filepath.Join(folder, "x"))), w.Path)
}

// Owner is the task that the worktree was made for, "" when nothing says so.
func (w Worktree) Owner() string {
	o, _ := readOwner(w.admin) // what can't be read says nothing
	return o.Task
}
