package git

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

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

// Relink makes a worktree known again whose .git is gone, as it is when its removal was cut off, so that it can be
// looked at. It reports whether it had to.
func (r Worktrees) Relink(w Worktree) (bool, error) {
	if w.Gone || w.HalfMade() || !unlinked(w.Path) {
		return false, nil
	}
	if err := r.unlinkedSame(w); err != nil {
		return false, err
	}
	file, err := os.OpenFile(filepath.Join(w.Path, ".git"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err == nil {
		_, err = file.WriteString("gitdir: " + w.admin + "\n")
		err = errors.Join(err, file.Close())
	}
	if err != nil {
		return false, fmt.Errorf("linking worktree %s again: %w", w.Path, err)
	}
	return true, nil
}

// MovedError says that a ref is not what it was when somebody decided about it.
type MovedError struct{ Ref, Now string }

func (e *MovedError) Error() string {
	return fmt.Sprintf("%s moved to %.12s meanwhile", strings.TrimPrefix(e.Ref, BranchPrefix), e.Now)
}

// RemoveBranch deletes a local branch that is checked out nowhere and still ends in tip, with its settings; none of that
// name is no error. A *MovedError when it ends elsewhere.
func (r Refs) RemoveBranch(ctx context.Context, name, tip string) error {
	if r.isLink(name) {
		return fmt.Errorf("branch %s is only another name of one", name)
	}
	err := r.DeleteRef(ctx, BranchPrefix+name, tip)
	if err == nil {
		err = r.unconfigure(ctx, name)
	}
	if err != nil {
		return fmt.Errorf("deleting branch %s: %w", name, err)
	}
	return nil
}

// DeleteRef deletes a ref that names sha.
func (r Refs) DeleteRef(ctx context.Context, ref, sha string) error {
	own := []string{filepath.Join(r.Common, filepath.FromSlash(ref)+".lock"), filepath.Join(r.Common, "packed-refs.lock")}
	return RetryLocked(ctx, own, func() error {
		return Retry(ctx, func() error {
			now, err := r.RevParse(ctx, r.Main, ref)
			switch {
			case errors.Is(err, ErrNotFound):
				return nil
			case err != nil:
				return err
			case now != sha:
				return &MovedError{ref, now}
			}
			_, _, err = r.Run(ctx, Command{Dir: r.Main, Write: true, Once: true, Args: []string{"update-ref", "--no-deref", "-d", ref, sha}})
			return err
		})
	})
}

// unconfigure removes what the configuration says of a branch.
func (r Refs) unconfigure(ctx context.Context, branch string) error {
	pattern := "^branch\\." + regexp.QuoteMeta(branch) + "\\."
	return RetryLocked(ctx, []string{filepath.Join(r.Common, "config.lock")}, func() error {
		return Retry(ctx, func() error {
			_, none, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"config", "--local", "--name-only", "--get-regexp", pattern}, Accept: []int{1}})
			if err != nil || none == 1 {
				return err
			}
			_, _, err = r.Run(ctx, Command{Dir: r.Main, Write: true, Once: true, Args: []string{"config", "--local", "--remove-section", "branch." + branch}})
			return err
		})
	})
}

// Unsaved reports whether the repository at inner, a folder of the worktree at dir, has commits that none of its remotes
// had when it last looked, and that go with the worktree; or files, and no commit at all yet. Nothing of its configuration is run.
func (r Backups) Unsaved(ctx context.Context, dir, inner string) (bool, error) {
	inner = filepath.Join(dir, inner)
	if link, err := readLink(filepath.Join(inner, ".git")); err == nil {
		if common, err := commonDir(link); err == nil && !inside(dir, common) && !inside(filepath.Join(r.Common, "worktrees"), common) {
			return false, nil // its objects are elsewhere
		}
	}
	env := []string{"GIT_ALLOW_PROTOCOL=none", "GIT_NO_LAZY_FETCH=1"}
	unborn := false
	for _, refs := range [][]string{{"--all"}, {"HEAD"}} {
		args := slices.Concat([]string{"rev-list", "--max-count=1"}, refs, []string{"--not", "--remotes"})
		if refs[0] == "HEAD" {
			if _, err := r.Refs().RevParse(ctx, inner, "HEAD^{commit}"); errors.Is(err, ErrNotFound) {
				unborn = true
				continue
			}
		}
		out, err := r.Line(ctx, Command{Dir: inner, Args: args, Env: env})
		if err != nil || out != "" {
			return out != "", err
		}
	}
	if !unborn {
		return false, nil
	}
	return hasFiles(inner)
}

// hasFiles reports whether there is anything in the folder of a repository.
func hasFiles(inner string) (bool, error) {
	entries, err := os.ReadDir(inner)
	return slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() != ".git" }), err
}

// BackedUp reports whether a backup that [Backups.Backup] made has all that a checkout holds now. Files that are only missing
// there, because its removal was cut off, are nothing.
func (r Backups) BackedUp(ctx context.Context, backup, dir string) (held bool, err error) {
	s := &Snapshot{r: r.Repo, dir: dir}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err = s.prepare(); err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		return false, err
	}
	changed, err := r.Index().Status(ctx, dir)
	if err != nil || slices.ContainsFunc(changed, func(e Entry) bool { return e.submodule }) {
		return false, err
	}
	st, err := s.state(ctx, backup)
	if err != nil {
		return false, err
	}
	list, err := r.History().ChangesBetween(ctx, backup, st.work)
	if err != nil || slices.ContainsFunc(list, func(c Change) bool { return c.Kind != 'D' }) {
		return false, err
	}
	if st.head != "" {
		if within, err := r.History().IsAncestor(ctx, st.head, backup); err != nil || !within {
			return false, err
		}
	}
	if !st.differs() {
		return true, nil
	}
	parents, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"rev-parse", backup, backup + "^@"}})
	for sha := range strings.FieldsSeq(parents) {
		if tree, err := r.Refs().TreeAt(ctx, sha); err != nil || tree == st.staged {
			return err == nil, err
		}
	}
	return false, err
}

// BackupRefs is where Trellis keeps what it takes away, below it by task.
const BackupRefs = "refs/trellis/backup/"

// Saved is a backup.
type Saved struct {
	Ref, Commit, Subject string
	At                   time.Time // not before it was made
}

// List gives all backups, or those of one task, sorted by name.
func (r Backups) List(ctx context.Context, task string) (list []Saved, err error) {
	under := BackupRefs
	if task != "" {
		under += task + "/"
	}
	out, _, err := r.Run(ctx, Command{Dir: r.Main, Args: []string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(committeremail)%00%(contents:subject)", under}})
	if err != nil {
		return nil, fmt.Errorf("listing backups: %w", err)
	}
	for line := range strings.Lines(out) {
		const fields = 5
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\x00", fields)
		if len(f) != fields {
			return nil, fmt.Errorf("listing backups: unexpected %q", line)
		}
		seconds, _ := strconv.ParseInt(f[2], 10, 64) // none for what is no commit
		s := Saved{Ref: f[0], Commit: f[1], Subject: f[4], At: time.Unix(seconds, 0)}
		if f[3] != "<trellis@localhost>" { // a commit of the work itself, older than its backup
			s.At = r.touched(s.Ref, s.At)
		}
		list = append(list, s)
	}
	return list, nil
}

// touched is when a ref was last written, or later, where git keeps several in one file.
func (r Backups) touched(ref string, least time.Time) time.Time {
	for _, name := range []string{ref, "packed-refs", "reftable/tables.list"} {
		if st, err := os.Stat(filepath.Join(r.Common, filepath.FromSlash(name))); err == nil {
			if st.ModTime().After(least) {
				return st.ModTime()
			}
			return least
		}
	}
	return time.Now()
}

// DropBackup deletes a backup, if it still is what it was.
func (r Backups) DropBackup(ctx context.Context, s Saved) error {
	if !strings.HasPrefix(s.Ref, BackupRefs) {
		return fmt.Errorf("%s is no backup", s.Ref)
	}
	return r.Refs().DeleteRef(ctx, s.Ref, s.Commit)
}

// OnlyIn counts the commits that are in the history of a commit, and in that of no branch, remote one or tag.
func (r History) OnlyIn(ctx context.Context, commit string) (int, error) {
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"rev-list", "--count", commit, "--not", "--branches", "--remotes", "--tags"}})
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(out)
}

// Fetch brings the remote-tracking branches of a remote up to date. It is given limit. With names of branches it is these
// alone, whose commits are then here also where no remote-tracking branch follows them.
func (r Remotes) Fetch(ctx context.Context, remote string, limit time.Duration, branches ...string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	args := []string{"fetch", "--quiet", "--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--end-of-options", remote}
	for _, name := range branches {
		args = append(args, BranchPrefix+name)
	}
	fetch := func() error {
		_, _, err := r.Run(ctx, Command{Dir: r.Main, Write: true, Once: true, Env: r.signIn(), Args: args})
		return err
	}
	err := RetryLocked(ctx, nil, fetch)
	for try := 1; try < 10 && overtaken(err); try++ {
		err = RetryLocked(ctx, nil, fetch)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %v", limit)
	}
	if err != nil {
		return fmt.Errorf("fetching from %s: %w", remote, err)
	}
	return nil
}

// overtaken reports whether another fetch moved a branch at the same moment.
func overtaken(err error) bool {
	var e *Error
	return errors.As(err, &e) && strings.Contains(e.Stderr, "cannot lock ref") && (strings.Contains(e.Stderr, "but expected") || strings.Contains(e.Stderr, "already exists"))
}

// At reports whether path is the worktree's, by whatever links it leads there.
func (w Worktree) At(path string) bool { return w.Path == clean(path) }

// In reports whether the worktree lies below folder.
func (w Worktree) In(folder string) bool {
	return inside(filepath.Dir(clean(filepath.Join(folder, "x"))), w.Path)
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}
