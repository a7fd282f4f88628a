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

// lockContended reports whether git met a lock that another process holds.
func lockContended(err error) bool {
	var e *Error
	return errors.Is(err, errLocked) || errors.As(err, &e) && (strings.Contains(e.Stderr, ".lock") || strings.Contains(e.Stderr, "packed-refs.new")) &&
		(strings.Contains(e.Stderr, "File exists") || strings.Contains(e.Stderr, "could not lock"))
}

const (
	lockPatience = 10 * time.Second       // how long locks of others are waited for
	lockGlance   = 250 * time.Millisecond // longest time between two looks
	staleAfter   = 3 * time.Second        // a lock that stands so long, and nobody is there who could hold it, is a dead process's
)

// RetryLocked does something again while other processes hold git's locks. One of own that stays for a while, that
// nobody has open, and that is older than every process of git which is at work in a checkout of the repository, was
// left by one that was killed, and is removed.
func RetryLocked(ctx context.Context, own []string, do func() error) error {
	end := time.Now().Add(lockPatience)
	standing := map[string]lockFile{}
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, lockGlance) {
		err := do()
		if !lockContended(err) || time.Now().After(end) { // who waits around a wait gives up with it
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

// lockFile is a lock as it was found, since when it is there (the clock of the file system may be wrong), and who may
// hold it: has been at work ever since.
type lockFile struct {
	made, since time.Time
	holders     map[int]bool
}

// removeStale removes the lock when it is still the one that was found long ago, and whoever made it is gone.
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
		os.Remove(path) // if that fails, git says what is wrong
	}
	return l
}

// ownLocks are the locks in a linked worktree that nobody but its owner takes.
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

// Unlock removes the locks of a linked worktree that a killed git left, which would keep everybody else there from
// working. It waits for those that somebody holds, but not for ever.
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

// lockHolders are the processes that may hold a lock of a repository: those of git that work in one of its checkouts. Daemons
// of git take none for long. Where the system does not tell in which folder a process works, all of git count.
func lockHolders(lock string) map[int]bool {
	pids, err := os.ReadDir("/proc")
	if _, tells := os.Stat("/proc/self/cwd"); err != nil || tells != nil {
		return gitProcesses()
	}
	folders, found := checkouts(lock), map[int]bool{}
	for _, e := range pids {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !isGit("/proc/"+e.Name()) {
			continue
		}
		at, err := os.Readlink("/proc/" + e.Name() + "/cwd")
		if err == nil && slices.ContainsFunc(folders, func(dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }) {
			found[pid] = true
		}
	}
	return found
}

// checkouts are the folders of a repository in which git works, by the path of a lock in its common directory.
func checkouts(lock string) []string {
	common := filepath.Dir(lock)
	for !isGitDir(common) && common != filepath.Dir(common) {
		common = filepath.Dir(common)
	}
	list := []string{common, filepath.Dir(common)}
	links, _ := filepath.Glob(filepath.Join(common, "worktrees", "*", "gitdir")) // the pattern is a good one
	for _, link := range links {
		if to, err := os.ReadFile(link); err == nil {
			list = append(list, filepath.Dir(AbsFrom(filepath.Dir(link), strings.TrimSpace(string(to)))))
		}
	}
	return list
}

func isGit(dir string) bool {
	name, err := os.ReadFile(dir + "/comm")
	if err != nil || !strings.HasPrefix(string(name), "git") {
		return false
	}
	args, err := os.ReadFile(dir + "/cmdline")
	return err == nil && !bytes.Contains(args, []byte("daemon"))
}

// gitProcesses are all processes of git, by ps.
func gitProcesses() map[int]bool {
	out, _ := exec.Command("ps", "-axo", "pid=,args=").Output() // none: then the lock's age alone tells
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

// isOpen reports whether some process has a file open. Nobody is known to where the system does not tell.
func isOpen(path string) bool {
	fds, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is a good one
	return slices.ContainsFunc(fds, func(fd string) bool {
		at, err := os.Readlink(fd)
		return err == nil && at == path
	})
}

// exclusively does something that only one process of Trellis may do at a time in a repository.
func (r *Repo) exclusively(ctx context.Context, do func() error) error {
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

// retryDelay is how long it is waited before git is called again.
const retryDelay = 50 * time.Millisecond

// Retry does something that looks for its own effect first once more when git failed at it: what keeps a call from its
// end (no memory, no process to be had, a kill) is mostly gone at the next. Locks of others have their own patience, and
// what took too long would do so again. Where others make and remove worktrees it takes more than two.
func Retry(ctx context.Context, do func() error) error {
	for try := 1; ; try++ {
		err := do()
		var failed *Error
		if !errors.As(err, &failed) || failed.Code == proc.CodeTimeout || lockContended(err) || errors.As(err, new(*HookError)) {
			return err
		}
		if try == 10 || try > 1 && !worktreeRace(failed) {
			return err
		}
		if err := patience.Sleep(ctx, retryDelay); err != nil {
			return err
		}
	}
}

// worktreeRace reports whether git met a worktree that another process was making or removing at that moment: many of its
// commands look at all there are, and others tidy up what looks unfinished.
func worktreeRace(e *Error) bool { return strings.Contains(e.Stderr, "worktrees/") }

// rewind makes a call ready to be made once more. An index of its own is nobody else's, nor is a lock on it.
func rewind(c Command) error {
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

// Failed reports whether an error tells that git could not do something, or that repository or worktree are not as they
// have to be: what a person mends there.
func Failed(err error) bool {
	for _, is := range []error{ErrNoRepository, ErrBare, ErrNoCommit, ErrNotFound, ErrNothing, ErrNoWorktree} {
		if errors.Is(err, is) {
			return true
		}
	}
	return errors.As(err, new(*Error)) || errors.As(err, new(*HookError)) || errors.As(err, new(*EmbeddedRepoError)) ||
		errors.As(err, new(*IdentityError)) || errors.As(err, new(*BranchError)) || errors.As(err, new(*PathError)) || errors.As(err, new(*SwappedError)) ||
		errors.As(err, new(*DamagedError)) || errors.As(err, new(*AlternatesError))
}
