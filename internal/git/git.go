// Package git reads and changes git repositories and their worktrees.
//
// Refs and configuration are read through go-git, which takes no process: some tens of microseconds
// against a millisecond or two. All else goes through the git command: go-git does not know index locks,
// hooks, worktrees and several repository formats, and reads whole pack indexes to find one commit.
// A repository that uses extensions (sha256, worktreeConfig, reftable) is read by the git command alone.
package git

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

var (
	// ErrNoRepository says that no folder from the one given upwards is a repository.
	ErrNoRepository = errors.New("no git repository")
	// ErrBare says that there is a repository but no main checkout to work in.
	ErrBare = errors.New("the repository is bare, it has no checkout")
	// ErrNoCommit says that HEAD is unborn.
	ErrNoCommit = errors.New("the repository has no commit yet")
	// ErrNotInstalled says that there is no git to run.
	ErrNotInstalled = errors.New("git is not installed, or not in PATH")
	// ErrNotFound says that there is no such ref, commit or path.
	ErrNotFound = errors.New("not found in the repository")
	// ErrNothing says that a commit would change nothing.
	ErrNothing = errors.New("nothing to commit")
	// ErrNoWorktree says that a folder is no checkout of this repository, or no longer.
	ErrNoWorktree = errors.New("no worktree of this repository")
)

// Repo is a repository with a main checkout: where it is, and how a git command is run there. What can be done with
// it stands in parts.go. Its methods, and those of its parts, may be called by several goroutines, and several
// processes, at once. Those that take a dir mean the root of the main checkout or of a linked worktree.
//
// What git itself says in an error is an *Error. When a context ends, its cause is returned.
type Repo struct {
	Main   string // root of the main checkout, absolute, without symbolic links
	Common string // its git directory, which all worktrees share
	// Env is where the environment of git commands, and so of hooks, is taken from: only variables on a
	// list get through, and those that Allow names (FOO, or FOO_*). Nil is this process's environment.
	Env   []string
	Allow []string

	linked   bool           // it was opened in a linked worktree
	hardened atomic.Bool    // see Harden
	files    memo[bool]     // by commit, colon and path
	diffs    memo[[]Change] // by commit, colon and tree
	seen     seenFiles
	swept    sync.Once // of what killed processes left in the system's folder of temporary files
}

// Harden says that programs in a sandbox write in linked worktrees: from then on, what they left there leads no git
// command elsewhere.
func (r *Repo) Harden() { r.hardened.Store(true) }

// BareError says that a repository is bare: whatever worktrees it has, none of them is the main checkout, which holds the tasks.
type BareError struct{ GitDir string }

func (e *BareError) Error() string {
	return "opening " + e.GitDir + ": " + ErrBare.Error() + ": tasks are kept in a main checkout, which a worktree of it is not"
}

func (e *BareError) Unwrap() error { return ErrBare }

// Open finds the repository that dir is in, dir being anywhere in the main checkout or a linked worktree.
// It runs nothing. Errors are ErrNoRepository, ErrBare, and those of the file system. An unborn HEAD is
// no error here; [Refs.Head] tells.
func Open(dir string) (*Repo, error) {
	start, err := filepath.Abs(dir)
	if err == nil {
		start, err = filepath.EvalSymlinks(start)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for a repository: %w", err)
	}
	for at := start; ; at = filepath.Dir(at) {
		r, err := openAt(at)
		if r != nil || err != nil {
			return r, err
		}
		if at == filepath.Dir(at) {
			return nil, fmt.Errorf("%w in %s or above it", ErrNoRepository, start)
		}
	}
}

// openAt is the repository whose checkout has its root at dir, or nil.
func openAt(dir string) (*Repo, error) {
	dot := filepath.Join(dir, ".git")
	st, err := os.Stat(dot)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if filepath.Base(dir) != ".git" && isGitDir(dir) {
			return nil, &BareError{dir}
		}
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking for a repository: %w", err)
	case st.IsDir():
		if !isGitDir(dot) {
			return nil, nil
		}
		return withMain(dir, dot)
	}
	gitDir, err := readLink(dot)
	if err != nil {
		return nil, err
	}
	common, err := commonDir(gitDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s points to %s, which is gone (git worktree repair mends a moved one)", ErrNoRepository, dot, gitDir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dot, err)
	}
	if common == gitDir {
		return withMain(dir, common)
	}
	r, err := fromCommon(common)
	if r != nil {
		r.linked = true
	}
	return r, err
}

// Typed is how a person begins a git command about the main checkout, of a repository that may be nil: in a linked worktree git has
// to be led there.
func (r *Repo) Typed() string {
	if r == nil || !r.linked {
		return "git"
	}
	return "git -C " + trellis.ShellWord(r.Main)
}

func withMain(main, common string) (*Repo, error) {
	common, err := filepath.EvalSymlinks(common)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", main, err)
	}
	c, err := ReadConfig(common)
	if err == nil && c.bare {
		return nil, &BareError{common}
	}
	return &Repo{Main: main, Common: common}, nil // what is wrong with the configuration, git tells best
}

// fromCommon finds the main checkout from the directory that worktrees share.
func fromCommon(common string) (*Repo, error) {
	c, err := ReadConfig(common)
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", filepath.Join(common, "config"), err)
	case c.bare:
		return nil, &BareError{common}
	case c.worktree != "":
		main, err := filepath.EvalSymlinks(AbsFrom(common, c.worktree))
		if err != nil {
			return nil, fmt.Errorf("looking for the main checkout: %w", err)
		}
		return &Repo{Main: main, Common: common}, nil
	case filepath.Base(common) == ".git":
		return &Repo{Main: filepath.Dir(common), Common: common}, nil
	}
	return nil, fmt.Errorf("opening %s: %w here; call trellis from the main checkout", common, ErrBare)
}

// isGitDir reports whether dir looks like a git directory that is nobody's worktree.
func isGitDir(dir string) bool {
	if _, err := os.Lstat(filepath.Join(dir, "HEAD")); err != nil {
		return false
	}
	for _, sub := range []string{"objects", "refs"} {
		if st, err := os.Stat(filepath.Join(dir, sub)); err != nil || !st.IsDir() {
			return false
		}
	}
	return true
}

// maxPointer is more than a file has that names a git directory.
const maxPointer = 64 << 10

// readLink is the git directory that a .git file points to.
func readLink(dot string) (string, error) {
	data, err := durable.Read(dot, maxPointer)
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", dot, err)
	}
	target, ok := strings.CutPrefix(string(data), "gitdir: ")
	if target = strings.TrimRight(target, "\r\n"); !ok || target == "" {
		return "", fmt.Errorf("reading %s: %w: it does not begin with gitdir:", dot, ErrNoRepository)
	}
	return AbsFrom(filepath.Dir(dot), target), nil
}

// commonDir is the directory that a git directory shares with its worktrees: its own, or the one it names.
func commonDir(gitDir string) (string, error) {
	data, err := os.ReadFile(filepath.Join(gitDir, "commondir"))
	if errors.Is(err, fs.ErrNotExist) {
		if !isGitDir(gitDir) {
			return "", err
		}
		return gitDir, nil
	}
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(AbsFrom(gitDir, strings.TrimRight(string(data), "\r\n")))
}

// AbsFrom is path as seen from dir.
func AbsFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// gitDir is the git directory of a checkout of this repository.
func (r *Repo) gitDir(dir string) (string, error) {
	if dir == r.Main {
		return r.Common, nil
	}
	admin, err := readLink(filepath.Join(dir, ".git"))
	if err != nil {
		if real, linkErr := filepath.EvalSymlinks(dir); linkErr == nil && real == r.Main {
			return r.Common, nil
		}
		return "", fmt.Errorf("%s is %w: %w", dir, ErrNoWorktree, err)
	}
	if common, err := commonDir(admin); err != nil || common != r.Common || filepath.Base(filepath.Dir(admin)) != "worktrees" {
		return "", fmt.Errorf("%s is %w: its .git points to %s", dir, ErrNoWorktree, admin)
	}
	return filepath.EvalSymlinks(admin)
}

// MinVersion is the oldest git that will do. From 2.36 on, what is written also survives a power cut.
const MinVersion = "2.34"

// Version is the version of the git command, with an error when it is too old or missing.
func (r *Repo) Version(ctx context.Context) (string, error) {
	out, err := r.Line(ctx, Command{Args: []string{"version"}})
	if err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(out, "git version "), " ")
	if Older(version, MinVersion) {
		return version, fmt.Errorf("git %s is too old, %s or newer is needed", version, MinVersion)
	}
	return version, nil
}

// Older compares the numbers at the beginning of two versions; what is no number is new enough.
func Older(version, than string) bool {
	a, b := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(a), len(b)) {
		x, errX := strconv.Atoi(a[i])
		y, errY := strconv.Atoi(b[i])
		if errX != nil || errY != nil {
			return false
		}
		if x != y {
			return x < y
		}
	}
	return false
}

// cloneFile names a clone, in git's own folder, which no commit writes and no fetch brings.
const cloneFile = "trellis.id"

// CloneID is a random word for this clone, made when it is first asked for. Another clone, here or on another machine, has
// another; a clone that is moved or copied keeps it. Its worktrees share it.
func (r *Repo) CloneID() (string, error) {
	id, err := cloneID(r.Common)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeCloneID(r.Common); err == nil {
			id, err = cloneID(r.Common)
		}
	}
	if err != nil {
		return "", fmt.Errorf("finding out which clone this is: %w", err)
	}
	return id, nil
}

func cloneID(common string) (string, error) {
	data, err := durable.ReadBelow(common, cloneFile, maxPointer)
	return strings.TrimSpace(string(data)), err
}

// makeCloneID has the file appear whole; that of another process, which was first, stays.
func makeCloneID(common string) error {
	var word [16]byte
	_, _ = rand.Read(word[:]) // never fails
	temp := filepath.Join(common, cloneFile+"-"+hex.EncodeToString(word[:4]))
	var disk *durable.Disk
	durable.Sweep(common, time.Now()) // what a process that was killed here left
	if err := disk.WriteFile(temp, []byte(hex.EncodeToString(word[:])+"\n"), 0o600); err != nil {
		return err
	}
	if err := disk.Rename(temp, filepath.Join(common, cloneFile)); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Remove(temp)
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}
