package git

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/patience"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// lockContended reports whether git failed because another process holds a lock.
func lockContended(err error) bool {
	var e *Error
	return errors.Is(err, errLocked) || errors.As(err, &e) && (strings.Contains(e.Stderr, ".lock") || strings.Contains(e.Stderr, "packed-refs.new")) &&
		(strings.Contains(e.Stderr, "File exists") || strings.Contains(e.Stderr, "could not lock"))
}

const (
	maxLockWait  = 10 * time.Second       // longest time to wait for locks of others
	maxLockPause = 250 * time.Millisecond // longest pause between two attempts
	staleAfter   = 3 * time.Second        // age at which a lock that no running process can hold counts as left by a killed one
)

// RetryLocked calls do again while it fails because other processes hold git's locks, for at most maxLockWait. A lock in own is
// removed as left by a killed process if it stays for longer than staleAfter, no process has it open, and it is older than every
// git process at work in a checkout of the repository.
func RetryLocked(ctx context.Context, own []string, do func() error) error {
	end := time.Now().Add(maxLockWait)
	standing := map[string]lockFile{}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, maxLockPause) {
		err := do()
		if !lockContended(err) || time.Now().After(end) { // a RetryLocked around this one gives up too
			return err
		}
		for _, path := range own {
			standing[path] = standing[path].removeStale(path)
		}
		if err := patience.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// lockFile is a lock as it was found: its modification time, the time since when it is known (the clock of the file system may be
// wrong), and the processes that may hold it because they have been running ever since.
type lockFile struct {
	made, since time.Time
	holders     map[int]bool
}

// removeStale removes the lock if it is the same as staleAfter ago and no process that may have created it is left.
func (l lockFile) removeStale(path string) lockFile {
	st, err := os.Lstat(path)
	switch {
	case err != nil:
		return lockFile{}
	case !st.ModTime().Equal(l.made):
		return lockFile{st.ModTime(), time.Now(), lockHolders(path)}
	case time.Since(l.since) <= staleAfter:
		return l
	}
	now := lockHolders(path)
	maps.DeleteFunc(l.holders, func(pid int, _ bool) bool { return !now[pid] })
	if len(l.holders) == 0 && !isOpen(path) {
		os.Remove(path) // if that fails, git reports the error
	}
	return l
}

// ownLocks returns the locks in a linked worktree that only its owner takes.
func (r *Repo) ownLocks(gitDir, branch string) []string {
	if gitDir == r.Common {
		return nil
	}
	own := []string{filepath.Join(gitDir, "index.lock"), filepath.Join(gitDir, "HEAD.lock")}
	if branch != "" {
		own = append(own, r.branchLock(branch))
	}
	return own
}

func (r *Repo) branchLock(branch string) string {
	return filepath.Join(r.Common, "refs", "heads", filepath.FromSlash(branch)+".lock")
}

var errLocked = errors.New("git holds a lock in the worktree")

// Unlock removes the locks of a linked worktree that a killed git process left, since they would block everybody else there. It
// waits for locks that a process holds, for at most maxLockWait, and then returns nil.
func (r *Repo) Unlock(ctx context.Context, dir string) error {
	gitDir, err := r.gitDir(dir)
	if err != nil {
		return err
	}
	own := r.ownLocks(gitDir, "")
	err = RetryLocked(ctx, own, func() error {
		if slices.ContainsFunc(own, func(path string) bool { _, err := os.Lstat(path); return err == nil }) {
			return errLocked
		}
		return nil
	})
	if errors.Is(err, errLocked) {
		return nil
	}
	return err
}

// lockHolders returns the processes that may hold a lock of a repository: the git processes that work in one of its checkouts,
// except daemons, which hold no lock for long. Where the system doesn't tell working directories, all git processes count.
func lockHolders(lock string) map[int]bool {
	pids, err := os.ReadDir("/proc")
	if _, tells := os.Stat("/proc/self/cwd"); err != nil || tells != nil {
		return gitProcesses()
	}
	folders, found := checkouts(lock), map[int]bool{}
	for _, e := range pids {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !isGitProcess("/proc/"+e.Name()) {
			continue
		}
		at, err := os.Readlink("/proc/" + e.Name() + "/cwd")
		if err == nil && slices.ContainsFunc(folders, func(dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }) {
			found[pid] = true
		}
	}
	return found
}

// checkouts returns the folders of a repository in which git works, given the path of a lock in its common directory.
func checkouts(lock string) []string {
	common := filepath.Dir(lock)
	for !isGitDir(common) && common != filepath.Dir(common) {
		common = filepath.Dir(common)
	}
	list := []string{common, filepath.Dir(common)}
	links, _ := filepath.Glob(filepath.Join(common, "worktrees", "*", "gitdir")) // the pattern is valid
	for _, link := range links {
		if to, err := os.ReadFile(link); err == nil {
			list = append(list, filepath.Dir(AbsFrom(filepath.Dir(link), strings.TrimSpace(string(to)))))
		}
	}
	return list
}

func isGitProcess(dir string) bool {
	name, err := os.ReadFile(dir + "/comm")
	if err != nil || !strings.HasPrefix(string(name), "git") {
		return false
	}
	args, err := os.ReadFile(dir + "/cmdline")
	return err == nil && !bytes.Contains(args, []byte("daemon"))
}

// gitProcesses returns all git processes, as listed by ps.
func gitProcesses() map[int]bool {
	out, _ := exec.Command("ps", "-axo", "pid=,args=").Output() // on an error only the lock's age counts
	found := map[int]bool{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasPrefix(filepath.Base(f[1]), "git") || strings.Contains(line, "daemon") {
			continue
		}
		if pid, err := strconv.Atoi(f[0]); err == nil {
			found[pid] = true
		}
	}
	return found
}

// isOpen reports whether some process has a file open; false where the system doesn't tell.
func isOpen(path string) bool {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is valid
	return slices.ContainsFunc(fds, func(fd string) bool {
		at, err := os.Readlink(fd)
		return err == nil && at == path
	})
}

// withLock calls do while it holds the repository's lock, which only one Trellis process at a time can hold.
func (r *Repo) withLock(ctx context.Context, do func() error) error {
	self := proc.Self()
	common, err := filepath.EvalSymlinks(r.Common) // .git may be a link, and locks are opened without following links
	if err != nil {
		return err
	}
	lock, err := durable.WaitLock(ctx, filepath.Join(common, "trellis.lock"), durable.Holder{PID: self.PID, Start: self.Start})
	if err != nil {
		return err
	}
	return errors.Join(do(), lock.Unlock())
}

// retryDelay is the pause before git is called again.
const retryDelay = 50 * time.Millisecond

// Retry calls do again if git failed in it; do has to check first whether its effect is there already. What makes a call fail (no
// memory, no free process, a kill) is mostly over at the second try. Timeouts are not retried, since they would happen again;
// contended locks are left to RetryLocked. Where other processes create and remove worktrees it takes up to ten tries.
func Retry(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		var failed *Error
		if !errors.As(err, &failed) || failed.Code == proc.CodeTimeout || lockContended(err) || errors.As(err, new(*HookError)) {
			return err
		}
		if try == 10 || try > 1 && !isWorktreeRace(failed) {
			return err
		}
		if err := patience.Sleep(ctx, retryDelay); err != nil {
			return err
		}
	}
}

// isWorktreeRace reports whether git failed at a worktree that another process was creating or removing at that moment: many git
// commands read all worktrees, and some prune those that look unfinished.
func isWorktreeRace(e *Error) bool { return strings.Contains(e.Stderr, "worktrees/") }

// prepareRetry prepares a call to be repeated. It removes the lock of a private index, which no other process uses.
func prepareRetry(c Command) error {
	for _, v := range c.Env {
		if index, ok := strings.CutPrefix(v, "GIT_INDEX_FILE="); ok {
			_ = os.Remove(index + ".lock") // mostly there is none
		}
	}
	if in, ok := c.Stdin.(io.Seeker); ok {
		_, err := in.Seek(0, io.SeekStart)
		return err
	}
	return nil
}

// IsGitFailure reports whether an error means that git could not do something, or that the repository or a worktree is not in the
// required state: something that a person repairs there.
func IsGitFailure(err error) bool {
	for _, is := range []error{ErrNoRepository, ErrBare, ErrNoCommit, ErrNotFound, ErrNothing, ErrNoWorktree} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*Error)) || errors.As(err, new(*HookError)) || errors.As(err, new(*EmbeddedRepoError)) ||
		errors.As(err, new(*IdentityError)) || errors.As(err, new(*BranchError)) || errors.As(err, new(*PathError)) || errors.As(err, new(*ReplacedError)) ||
		errors.As(err, new(*DamagedError)) || errors.As(err, new(*AlternatesError))
}
