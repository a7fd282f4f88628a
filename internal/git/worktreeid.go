package git

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// WorktreeID identifies a worktree that Trellis created, to detect a replacement. The zero value identifies none.
type WorktreeID struct {
	Path       string `json:"path"`
	Admin      string `json:"admin"`  // the worktree's folder in Common
	Common     string `json:"common"` // common directory of the repository
	Mark       string `json:"mark"`   // random, stored in Admin, different for each worktree
	Folder     FileID `json:"folder"`
	GitDir     FileID `json:"git_dir"`
	Repository FileID `json:"repository"` // of Common; if it changed, the other FileIDs are not compared
}

// FileID identifies a folder among those that exist at the same time.
type FileID struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
}

// ReplacedError means that a worktree is no longer the one that was created. Nothing in it is touched.
type ReplacedError struct{ Path, Reason string }

func (e *ReplacedError) Error() string {
	return fmt.Sprintf("%s is no longer the worktree that Trellis made: %s", e.Path, e.Reason)
}

// CheckUnchanged returns a *ReplacedError unless the worktree still is the one that was created: the same folder, which is not reached
// through a link, whose .git leads to the same folder in Common, which leads back. The worktree is read through one open handle.
func (m WorktreeID) CheckUnchanged() error {
	if m.Path == "" {
		return nil
	}
	folder, err := m.checkLinks()
	if err != nil {
		return err
	}
	o, err := readOwner(m.Admin)
	if err != nil || o.Mark != m.Mark {
		return &ReplacedError{m.Path, "another worktree was made in its place"}
	}
	common, err := idOf(m.Common)
	if err != nil || common != m.Repository { // the repository was copied, or inodes were renumbered: FileIDs prove nothing
		return err
	}
	admin, err := idOf(m.Admin)
	if err != nil || m.GitDir != (FileID{}) && admin != m.GitDir || m.Folder != (FileID{}) && folder != m.Folder {
		return &ReplacedError{m.Path, "another folder is in its place"}
	}
	return nil
}

// checkLinks returns the FileID of a worktree's folder. It returns a *ReplacedError unless the worktree and its folder in Common lead
// to each other, without a symbolic link on the way.
func (m WorktreeID) checkLinks() (id FileID, err error) {
	swapped := func(format string, args ...any) (FileID, error) {
		return FileID{}, &ReplacedError{m.Path, fmt.Sprintf(format, args...)}
	}
	st, err := os.Lstat(m.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return swapped("it is gone")
	case err != nil:
		return swapped("%v", err)
	case st.Mode()&fs.ModeSymlink != 0:
		to, _ := os.Readlink(m.Path) // only for the message
		return swapped("a link to %s is in its place", to)
	case !st.IsDir():
		return swapped("a file is in its place")
	}
	root, err := os.OpenRoot(m.Path)
	if err != nil {
		return swapped("%v", err)
	}
	defer root.Close()
	if now, err := root.Stat("."); err != nil || !os.SameFile(now, st) {
		return swapped("it is being changed")
	}
	dot, err := root.Lstat(".git")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return swapped("its .git is gone (`git worktree repair %s` makes it again)", trellis.ShellWord(m.Path))
	case err != nil:
		return swapped("%v", err)
	case !dot.Mode().IsRegular():
		return swapped("its .git is not a file: another repository is in its place")
	}
	if why := m.brokenLink(root); why != "" {
		return swapped("%s", why)
	}
	return fileID(st), nil
}

// brokenLink describes what is wrong with the links between an open worktree and its folder in Common, "" if nothing is.
func (m WorktreeID) brokenLink(root *os.Root) string {
	const long = 64 << 10
	text, err := readShort(root, ".git", long)
	target, ok := strings.CutPrefix(text, "gitdir: ")
	if err != nil || !ok {
		return "its .git does not lead to a repository"
	}
	switch admin, err := filepath.EvalSymlinks(AbsFrom(m.Path, target)); {
	case errors.Is(err, fs.ErrNotExist): // the repository was moved
		return fmt.Sprintf("its .git leads to %s, which is gone (`git worktree repair %s` leads it here)", target, trellis.ShellWord(m.Path))
	case err != nil || admin != m.Admin:
		return fmt.Sprintf("its .git leads to %s", target)
	}
	st, err := os.Lstat(m.Admin)
	if err != nil || !st.IsDir() {
		return "git's folder of it is gone"
	}
	back, err := durable.ReadBelow(m.Admin, "gitdir", long)
	if to := AbsFrom(m.Admin, strings.TrimSpace(string(back))); err != nil || resolvedPath(filepath.Dir(to)) != m.Path {
		return fmt.Sprintf("git's folder of it leads to %s", filepath.Dir(to))
	}
	if common, err := commonDir(m.Admin); err != nil || common != m.Common {
		return "git's folder of it leads to another repository"
	}
	return ""
}

// readShort returns the content of a file below root, without line ends at its end; a file longer than long bytes is an error.
func readShort(root *os.Root, name string, long int64) (string, error) {
	st, err := root.Lstat(name)
	if err != nil || !st.Mode().IsRegular() || st.Size() > long {
		return "", fmt.Errorf("%s is not as git makes it: %w", name, errors.Join(err, ErrNoWorktree))
	}
	data, err := durable.ReadIn(root, name, long)
	return strings.TrimRight(string(data), "\r\n"), err
}

func idOf(path string) (FileID, error) {
	st, err := os.Lstat(path)
	if err != nil {
		return FileID{}, err
	}
	return fileID(st), nil
}

func fileID(st fs.FileInfo) FileID {
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}
	}
	return FileID{uint64(sys.Dev), uint64(sys.Ino)}
}

type worktreeKey struct{}

// InWorktree returns a context in which git runs in a worktree, or below it, only if it still is the one that was created.
func InWorktree(ctx context.Context, m WorktreeID) context.Context {
	if m.Path == "" {
		return ctx
	}
	return context.WithValue(ctx, worktreeKey{}, m)
}

// CheckWorktree returns an error if the context forbids a call in dir; see [InWorktree].
func CheckWorktree(ctx context.Context, dir string) error {
	m, ok := ctx.Value(worktreeKey{}).(WorktreeID)
	if !ok || dir == "" || dir != m.Path && !inside(m.Path, dir) {
		return nil
	}
	return m.CheckUnchanged()
}

// ownerFile, in git's folder of a worktree, records the task that it was created for. Git removes it with the worktree.
const ownerFile = "trellis.json"

// owner is the content of ownerFile.
type owner struct {
	Task string `json:"task"`
	Mark string `json:"mark"` // different for each worktree: one put in its place has another mark, or none

	Folder     FileID `json:"folder,omitzero"` // of the worktree
	Repository FileID `json:"repository,omitzero"`
}

// readOwner returns the zero owner for a worktree that Trellis did not create.
func readOwner(admin string) (o owner, err error) {
	const long = 1 << 10
	data, err := durable.ReadBelow(admin, ownerFile, long)
	if errors.Is(err, fs.ErrNotExist) {
		return o, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &o)
	}
	if err != nil {
		return owner{}, fmt.Errorf("reading whose worktree %s is: %w", filepath.Base(admin), err)
	}
	return o, nil
}
