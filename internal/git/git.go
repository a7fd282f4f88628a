// Package git reads and changes git repositories and their worktrees.
//
// Refs and configuration are read with go-git, which starts no process: this takes some tens of microseconds, a git command one or
// two milliseconds. Everything else runs the git command: go-git doesn't support index locks, hooks, worktrees and several
// repository formats, and reads whole pack indexes to find one commit. A repository that uses extensions (sha256, worktreeConfig,
// reftable) is read with the git command only.
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
	// ErrNoRepository means that neither the given folder nor any folder above it is a repository.
	ErrNoRepository = errors.New("no git repository")
	// ErrBare means that the repository has no main checkout to work in.
	ErrBare = errors.New("the repository is bare, it has no checkout")
	// ErrNoCommit means that HEAD is unborn.
	ErrNoCommit = errors.New("the repository has no commit yet")
	// ErrNotInstalled means that the git command was not found.
	ErrNotInstalled = errors.New("git is not installed, or not in PATH")
	// ErrNotFound means that the ref, commit or path doesn't exist.
	ErrNotFound = errors.New("not found in the repository")
	// ErrNothing means that a commit would change nothing.
	ErrNothing = errors.New("nothing to commit")
	// ErrNoWorktree means that a folder isn't, or is no longer, a checkout of this repository.
	ErrNoWorktree = errors.New("no worktree of this repository")
)

// Repo is a repository with a main checkout: its location, and the settings for running git commands in it. Its operations are
// grouped into parts, see parts.go. The methods of a Repo and of its parts are safe for concurrent use by goroutines and by
// processes. A dir parameter is the root of the main checkout or of a linked worktree.
//
// If git fails, the error is an *Error with git's own message. If a context ends, its cause is returned.
type Repo struct {
	Main   string // root of the main checkout, absolute, without symbolic links
	Common string // its git directory, shared by all worktrees
	// Env is the environment from which git commands, and so hooks, get theirs: only variables on a fixed list and those named by
	// Allow (FOO, or FOO_*) are passed on. Nil means this process's environment.
	Env   []string
	Allow []string

	linked     bool           // opened in a linked worktree
	hardened   atomic.Bool    // see Harden
	pathExists memo[bool]     // by "commit:path"
	diffs      memo[[]Change] // by "commit:tree"
	seen       seenFiles
	sweepOnce  sync.Once // guards the removal of scratch folders that killed processes left
}

// Harden declares that sandboxed programs write to linked worktrees. From then on, links and repositories that such programs leave
// there can't lead a git command outside of the worktree; see sanitize.
func (r *Repo) Harden() { r.hardened.Store(true) }

// BareError means that a repository is bare: none of its worktrees, if it has any, is the main checkout, which holds the tasks.
type BareError struct{ GitDir string }

func (e *BareError) Error() string {
	return "opening " + e.GitDir + ": " + ErrBare.Error() + ": tasks are kept in a main checkout, which a worktree of it is not"
}

func (e *BareError) Unwrap() error { return ErrBare }

// Open returns the repository that contains dir, which may be anywhere in the main checkout or in a linked worktree. It runs no
// command. It returns ErrNoRepository, ErrBare or an error of the file system. An unborn HEAD is not an error here; see
// [Refs.Head].
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

// openAt returns the repository whose checkout has its root at dir, or nil.
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
		return openMain(dir, dot)
	}
	gitDir, err := readGitFile(dot)
	if err != nil {
		return nil, err
	}
	common, err := commonDir(gitDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s points to %s, which is gone (git worktree repair fixes a moved one)", ErrNoRepository, dot, gitDir)
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", dot, err)
	}
	if common == gitDir {
		return openMain(dir, common)
	}
	r, err := openCommon(common)
	if r != nil {
		r.linked = true
	}
	return r, err
}

// CommandPrefix returns the beginning of a git command on the main checkout as a person would type it: "git", or with -C if the repository
// was opened in a linked worktree. r may be nil.
func (r *Repo) CommandPrefix() string {
	if r == nil || !r.linked {
		return "git"
	}
	return "git -C " + trellis.ShellWord(r.Main)
}

func openMain(main, common string) (*Repo, error) {
	common, err := filepath.EvalSymlinks(common)
	if err != nil {
		return nil, fmt.Errorf("opening %s: %w", main, err)
	}
	c, err := ReadConfig(common)
	if err == nil && c.bare {
		return nil, &BareError{common}
	}
	return &Repo{Main: main, Common: common}, nil // git reports errors in the configuration best
}

// openCommon returns the repository whose common directory is given, after finding its main checkout.
func openCommon(common string) (*Repo, error) {
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

// isGitDir reports whether dir looks like a git directory, but not that of a linked worktree.
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

// maxPointer limits the size of a file that names a git directory, in bytes.
const maxPointer = 64 << 10

// readGitFile returns the git directory that a .git file points to.
func readGitFile(dot string) (string, error) {
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

// commonDir returns the directory that a git directory shares with its worktrees: itself, or the one named in its commondir file.
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

// AbsFrom returns path as an absolute path; a relative one is relative to dir.
func AbsFrom(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, path)
}

// gitDir returns the git directory of a checkout of this repository.
func (r *Repo) gitDir(dir string) (string, error) {
	if dir == r.Main {
		return r.Common, nil
	}
	admin, err := readGitFile(filepath.Join(dir, ".git"))
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

// MinVersion is the oldest supported git version. From 2.36 on, what git writes also survives a power cut.
const MinVersion = "2.34"

// Version returns the version of the git command, with an error if git is too old or missing.
func (r *Repo) Version(ctx context.Context) (string, error) {
	out, err := r.Line(ctx, Command{Args: []string{"version"}})
	if err != nil {
		return "", err
	}
	version, _, _ := strings.Cut(strings.TrimPrefix(out, "git version "), " ")
	if VersionOlder(version, MinVersion) {
		return version, fmt.Errorf("git %s is too old, %s or newer is needed", version, MinVersion)
	}
	return version, nil
}

// VersionOlder reports whether version is lower than the other by their leading numbers; a part that isn't a number counts as new enough.
func VersionOlder(version, than string) bool {
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

// cloneFile is the file with the id of a clone, in its git directory; no commit contains it and no fetch brings it.
const cloneFile = "trellis.id"

// CloneID returns a random word that identifies this clone; it is created on first use. Every other clone, on this or another
// machine, has a different one; a clone that is moved or copied keeps it. All worktrees of a clone share it.
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

// makeCloneID creates the file atomically; if another process created it first, that one stays.
func makeCloneID(common string) error {
	var word [16]byte
	_, _ = rand.Read(word[:]) // never fails
	temp := filepath.Join(common, cloneFile+"-"+hex.EncodeToString(word[:4]))
	var disk *durable.Disk
	durable.Sweep(common, time.Now()) // remove temporary files of killed processes
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
