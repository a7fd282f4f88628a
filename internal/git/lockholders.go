package git

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

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
