package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/git"
)

// Backups keeps files and commits that would be lost.
type Backups struct{ repo *git.Repo }

// NewBackups returns the Backups of a repository.
func NewBackups(r *git.Repo) Backups {
	return Backups{r}
}

// Backup saves all of a checkout, staged and unstaged changes and untracked files, as a commit, points ref at it, and touches
// nothing else. Of excluded paths it saves the staged content. It returns the commit, which is HEAD itself if everything is
// committed and ref is new. The former commit of ref is in the history of the new one, so that no backup is lost to another. A submodule that is
// a worktree (see [git.Module]) is saved under the same name in its own repository. If there are other repositories within the
// work tree, or changed submodules, which can't be saved, it returns an *EmbeddedRepoError; ignored files are not saved.
func (r Backups) Backup(ctx context.Context, dir, ref, message string, exclude ...string) (string, error) {
	return New(r.repo).makeBackup(ctx, dir, ref, message, (*Snapshot).checkSaveable, exclude...)
}

// saveCommit makes ref have a commit in its history, unless a branch other than except, a remote-tracking branch or a tag has it.
func (r Backups) saveCommit(ctx context.Context, sha, except, ref string) error {
	if sha == "" || ref == "" {
		return nil
	}
	args := []string{"rev-list", "--max-count=1", sha, "--not"}
	if except != "" {
		args = append(args, "--exclude="+except)
	}
	lost, err := r.repo.Line(ctx, git.Command{Dir: r.repo.Main, Args: append(args, "--branches", "--remotes", "--tags")})
	if err != nil || lost == "" {
		return err
	}
	old, err := r.repo.Refs().Find(ctx, ref)
	if err != nil {
		return err
	}
	if old == "" {
		return r.repo.Refs().MoveRef(ctx, ref, sha, "")
	}
	if within, err := r.repo.History().IsAncestor(ctx, sha, old); err != nil || within {
		return err
	}
	both := ""
	tree, err := r.repo.Refs().TreeAt(ctx, sha)
	if err == nil {
		both, err = r.repo.CommitTree(ctx, tree, "trellis: commits that were left", sha, old)
	}
	if err != nil {
		return err
	}
	return r.repo.Refs().MoveRef(ctx, ref, both, old)
}

// Discard undoes everything that is not committed at or below the paths of a checkout, relative to its root: staged, unstaged and
// untracked. It reports whether there was anything; all of the checkout is then saved as ref first, unless ref is "". If there is
// a repository within the paths, it returns an *EmbeddedRepoError and undoes nothing.
func (r Backups) Discard(ctx context.Context, dir, ref string, paths ...string) (bool, error) {
	entries, err := r.repo.Index().StatusOf(ctx, dir, pathspecOf(paths))
	if err != nil {
		return false, err
	}
	if slices.ContainsFunc(entries, func(e git.Entry) bool { return concerns(paths, e.Path) }) {
		if err := errors.Join(r.checkNoRepositories(ctx, dir, paths), New(r.repo).saveBeforeUndo(ctx, dir, ref)); err != nil {
			return false, err
		}
	}
	root, err := os.OpenRoot(dir) // a link that an agent made can't lead out of it
	if err != nil {
		return false, fmt.Errorf("discarding changes: %w", err)
	}
	defer root.Close()
	if err := git.CheckWorktree(ctx, dir); err != nil {
		return false, err
	}
	var tracked []string
	found := false
	for _, e := range entries {
		inside, own := overlap(paths, e.Path)
		for _, p := range own { // within an untracked folder: git lists only the folder
			gone, err := remove(root, p)
			if found = found || gone; err != nil {
				return found, err
			}
		}
		if !inside {
			continue
		}
		found = true
		if !e.Untracked() && e.Code[0] != 'A' {
			tracked = append(tracked, e.Path)
			continue
		}
		if err := r.removeAdded(ctx, root, e); err != nil {
			return true, err
		}
	}
	if len(tracked) == 0 {
		return found, nil
	}
	return true, r.repo.Do(ctx, git.Command{Dir: dir, Write: true, Args: []string{"checkout", "-q", "HEAD", "--pathspec-from-file=-", "--pathspec-file-nul"},
		Stdin: strings.NewReader(strings.Join(tracked, "\x00") + "\x00"), Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
}

// pathspecOf returns a pathspec for everything at or below the paths; nil, for all files, if they are too many for an argument list.
func pathspecOf(paths []string) (list []string) {
	const most = 500
	if len(paths) > most {
		return nil
	}
	for _, p := range paths {
		list = append(list, git.Literal(p))
	}
	return list
}

// removeAdded removes a path that HEAD does not have.
func (r Backups) removeAdded(ctx context.Context, root *os.Root, e git.Entry) error {
	if !e.Untracked() {
		err := r.repo.Do(ctx, git.Command{Dir: root.Name(), Write: true, Args: []string{"rm", "-q", "-f", "--cached", "--ignore-unmatch", "--", e.Path}, Env: []string{"GIT_LITERAL_PATHSPECS=1"}})
		if err != nil {
			return err
		}
	}
	_, err := remove(root, e.Path)
	return err
}

// remove deletes a path with everything below it, and reports whether it existed.
func remove(root *os.Root, path string) (bool, error) {
	path = strings.TrimSuffix(path, "/")
	if _, err := root.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := root.RemoveAll(path); err != nil {
		return true, fmt.Errorf("discarding %s: %w", path, err)
	}
	return true, nil
}

// checkNoRepositories returns an *EmbeddedRepoError if there are repositories at or below the paths: their content is not saved.
func (r Backups) checkNoRepositories(ctx context.Context, dir string, paths []string) error {
	all, err := r.repo.Index().EmbeddedRepos(ctx, dir, nil, nil)
	if err != nil {
		return err
	}
	within := slices.DeleteFunc(all, func(p string) bool { return !concerns(paths, filepath.ToSlash(p)) })
	if len(within) > 0 {
		return &git.EmbeddedRepoError{Paths: within}
	}
	return nil
}

// concerns reports whether path is at or below one of the paths, or a folder that has one.
func concerns(paths []string, path string) bool {
	inside, own := overlap(paths, path)
	return inside || len(own) > 0
}

// overlap reports whether path is one of the paths or below one, and which of them are below it.
func overlap(paths []string, path string) (inside bool, own []string) {
	name, folder := strings.CutSuffix(path, "/")
	for _, p := range paths {
		if name == p || strings.HasPrefix(name, p+"/") {
			inside = true
		} else if folder && strings.HasPrefix(p, path) {
			own = append(own, p)
		}
	}
	return inside, own
}

// BackupFolder saves a folder of the main checkout as it is, committed or not, ignored or not, as a commit, and points ref at it.
// It leaves out the paths except, relative to the folder. The former commit of ref is in the history of the new one.
func (r Backups) BackupFolder(ctx context.Context, folder, ref, message string, except ...string) (sha string, err error) {
	s := &Snapshot{r: New(r.repo), dir: r.repo.Main}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err = s.prepare(ctx, true); err == nil { // with an empty index, for the folder alone
		sha, err = s.saveFolder(ctx, folder, ref, message, except)
	}
	if err != nil {
		return "", fmt.Errorf("saving %s as %s: %w", folder, ref, err)
	}
	return sha, nil
}

// ExportFolder writes the files of a backup at and below folder, a path within the repository, to the folder into, anywhere.
func (r Backups) ExportFolder(ctx context.Context, commit, folder, into string) (err error) {
	s := &Snapshot{r: New(r.repo), dir: r.repo.Main}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err = s.prepare(ctx, true); err == nil {
		err = s.exportFolder(ctx, commit, folder, into)
	}
	if err != nil {
		return fmt.Errorf("getting %s from %s: %w", folder, commit, err)
	}
	return nil
}

func (s *Snapshot) exportFolder(ctx context.Context, commit, folder, into string) error {
	run := func(stdin string, args ...string) (string, error) {
		out, _, err := s.r.repo.Run(ctx, git.Command{Dir: s.dir, Env: s.env, Args: args, Write: true, Stdin: strings.NewReader(stdin)})
		return out, err
	}
	if _, err := run("", "read-tree", commit); err != nil {
		return err
	}
	files, err := run("", "ls-files", "-z", "--", git.Literal(folder))
	if err != nil {
		return err
	}
	if files == "" {
		return git.ErrNotFound
	}
	_, err = run(files, "checkout-index", "-q", "--prefix="+into+"/", "-z", "--stdin")
	return err
}

// RestoreInto writes the files of a backup to the work tree of the checkout at dir and removes other files that git tracks there.
// The index stays as it is: changes that were staged when the backup was made are not staged again.
func (r Backups) RestoreInto(ctx context.Context, dir, commit string) error {
	err := r.repo.Do(ctx, git.Command{Dir: dir, Write: true, Args: []string{"restore", "--source=" + commit, "--worktree", "--no-overlay", "--", "."}})
	if err != nil {
		return fmt.Errorf("unpacking %s into %s: %w", commit, dir, err)
	}
	return nil
}

// Forward moves a branch, and the checkout at dir, which is on it, from a commit to a descendant, and reports whether they are
// there. They are left alone if the branch is elsewhere, the checkout is not on it, or has uncommitted changes outside of exclude.
// It may be called again after it was cut off. Without a dir it moves the branch alone, unless some checkout is on it.
func (r Backups) Forward(ctx context.Context, dir, branch, from, to string, exclude ...string) (bool, error) {
	if dir != "" {
		if err := r.repo.Worktrees().CheckOwn(dir); err != nil {
			return false, err
		}
		if now, err := r.repo.Refs().CurrentBranch(ctx, dir); err != nil || now != branch {
			return false, err
		}
	}
	tip, err := r.repo.Refs().Branch(ctx, branch)
	if err != nil || tip != from {
		return err == nil && tip == to, err
	}
	if within, err := r.repo.History().IsAncestor(ctx, from, to); err != nil || !within {
		return false, err
	}
	var ready bool
	if dir == "" {
		ready, err = r.isNotCheckedOut(ctx, branch)
	} else {
		ready, err = r.forwardFiles(ctx, dir, from, to, exclude)
	}
	if err != nil || !ready {
		return false, err
	}
	if err := r.repo.Refs().MoveRef(ctx, git.BranchPrefix+branch, to, from); err != nil {
		return false, fmt.Errorf("moving %s to %.12s: %w", branch, to, err)
	}
	return true, nil
}

// isNotCheckedOut reports whether no checkout is on a branch.
func (r Backups) isNotCheckedOut(ctx context.Context, branch string) (bool, error) {
	here, err := r.repo.Refs().CurrentBranch(ctx, r.repo.Main)
	if err != nil || here == branch {
		return false, err
	}
	list, err := r.repo.Worktrees().List(ctx)
	return !slices.ContainsFunc(list, func(w git.Worktree) bool { return w.Branch == branch && !w.Gone }), err
}

// forwardFiles moves the files of a checkout from a commit to a descendant, and reports whether they are there.
func (r Backups) forwardFiles(ctx context.Context, dir, from, to string, exclude []string) (bool, error) {
	if err := r.repo.Do(ctx, git.Command{Dir: dir, Write: true, Args: []string{"update-index", "-q", "--refresh"}, Accept: []int{1}}); err != nil {
		return false, err
	}
	_, differs, err := r.repo.Run(ctx, git.Command{Dir: dir, Args: []string{"diff-index", "--quiet", to, "--"}, Accept: []int{1}})
	if err != nil || differs == 0 {
		return err == nil, err
	}
	if list, err := r.repo.Index().Status(ctx, dir, exclude...); err != nil || slices.ContainsFunc(list, func(e git.Entry) bool { return !containsExcluded(e, exclude) }) {
		return false, err
	}
	if err := r.repo.Do(ctx, git.Command{Dir: dir, Write: true, Once: true, Args: []string{"read-tree", "-m", "-u", from, to}}); err != nil {
		return false, fmt.Errorf("taking %s to %.12s: %w", dir, to, err)
	}
	return true, nil
}

// Covers reports whether a backup made by [Backups.Backup] has everything that a checkout holds now. Files that are only missing in
// the checkout, because its removal was cut off, don't matter.
func (r Backups) Covers(ctx context.Context, backup, dir string) (held bool, err error) {
	s := &Snapshot{r: New(r.repo), dir: dir}
	defer func() { err = errors.Join(err, s.Close()) }()
	if err = s.prepare(ctx, false); err != nil {
		return false, err
	}
	changed, err := r.repo.Index().Status(ctx, dir)
	if err != nil || slices.ContainsFunc(changed, func(e git.Entry) bool { return e.Submodule }) {
		return false, err
	}
	st, err := s.captureState(ctx, backup)
	if err != nil {
		return false, err
	}
	list, err := r.repo.History().ChangesBetween(ctx, backup, st.workTree)
	if err != nil || slices.ContainsFunc(list, func(c git.Change) bool { return c.Kind != 'D' }) {
		return false, err
	}
	if st.head != "" {
		if within, err := r.repo.History().IsAncestor(ctx, st.head, backup); err != nil || !within {
			return false, err
		}
	}
	if !st.hasStagedOnly() {
		return true, nil
	}
	parents, err := r.repo.Line(ctx, git.Command{Dir: r.repo.Main, Args: []string{"rev-parse", backup, backup + "^@"}})
	for sha := range strings.FieldsSeq(parents) {
		if tree, err := r.repo.Refs().TreeAt(ctx, sha); err != nil || tree == st.indexTree {
			return err == nil, err
		}
	}
	return false, err
}

// BackupRefs is the prefix of the refs that save removed files and commits; the task follows.
const BackupRefs = "refs/trellis/backup/"

// DirectoryBackup begins the last part of the ref of a backup of a task directory.
const DirectoryBackup = "directory-"

// Backup is a backup.
type Backup struct {
	Ref, Commit, Subject string
	At                   time.Time // when it was made, or later
}

// List returns all backups, or those of one task, sorted by ref.
func (r Backups) List(ctx context.Context, task string) (list []Backup, err error) {
	under := BackupRefs
	if task != "" {
		under += task + "/"
	}
	out, _, err := r.repo.Run(ctx, git.Command{Dir: r.repo.Main, Args: []string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(committerdate:unix)%00%(committeremail)%00%(contents:subject)", under}})
	if err != nil {
		return nil, fmt.Errorf("listing backups: %w", err)
	}
	for line := range strings.Lines(out) {
		const fields = 5
		f := strings.SplitN(strings.TrimSuffix(line, "\n"), "\x00", fields)
		if len(f) != fields {
			return nil, fmt.Errorf("listing backups: unexpected %q", line)
		}
		seconds, _ := strconv.ParseInt(f[2], 10, 64) // 0 if the ref names something other than a commit
		s := Backup{Ref: f[0], Commit: f[1], Subject: f[4], At: time.Unix(seconds, 0)}
		if f[3] != "<trellis@localhost>" { // a commit of the work itself, older than its backup
			s.At = r.writeTime(s.Ref, s.At)
		}
		list = append(list, s)
	}
	return list, nil
}

// writeTime returns when a ref was last written, or a later time where git keeps several refs in one file; never before least.
func (r Backups) writeTime(ref string, least time.Time) time.Time {
	for _, name := range []string{ref, "packed-refs", "reftable/tables.list"} {
		if st, err := os.Stat(filepath.Join(r.repo.Common, filepath.FromSlash(name))); err == nil {
			if st.ModTime().After(least) {
				return st.ModTime()
			}
			return least
		}
	}
	return time.Now()
}

// DropBackup deletes a backup, unless its ref has changed.
func (r Backups) DropBackup(ctx context.Context, s Backup) error {
	if !strings.HasPrefix(s.Ref, BackupRefs) {
		return fmt.Errorf("%s is not a backup; next: trellis cleanup --backups", s.Ref)
	}
	return r.repo.Refs().DeleteRef(ctx, s.Ref, s.Commit)
}

// Reattach puts the HEAD of a checkout back on a branch that has base, if someone switched to another branch or moved the branch
// so that it lacks base. Files and index stay as they are: their differences to base are still to be committed. Commits that would
// become unreachable are saved as ref, unless ref is "". It reports whether it changed anything.
func (r Backups) Reattach(ctx context.Context, dir, branch, base, ref string) (bool, error) {
	if err := git.CheckWorktree(ctx, dir); err != nil {
		return false, err
	}
	now, err := r.repo.Refs().CurrentBranch(ctx, dir)
	if err != nil {
		return false, err
	}
	tip, err := r.repo.Refs().Branch(ctx, branch)
	if err != nil {
		return false, err
	}
	holds := tip == base
	if tip != "" && !holds {
		if holds, err = r.repo.History().IsAncestor(ctx, base, tip); err != nil {
			return false, err
		}
	}
	if now == branch && holds {
		return false, nil
	}
	if now != branch {
		head, err := r.repo.Refs().Head(ctx, dir)
		if err == nil {
			err = r.saveCommit(ctx, head, "", ref)
		}
		if err != nil && !errors.Is(err, git.ErrNoCommit) {
			return false, fmt.Errorf("saving where %s was: %w", dir, err)
		}
	}
	if !holds {
		if err := r.saveCommit(ctx, tip, branch, ref); err != nil {
			return false, err
		}
		if err := r.repo.Refs().MoveRef(ctx, "refs/heads/"+branch, base, tip); err != nil {
			return false, fmt.Errorf("putting %s back on its base: %w", branch, err)
		}
	}
	return true, r.repo.Do(ctx, git.Command{Dir: dir, Write: true, Args: []string{"symbolic-ref", "HEAD", "refs/heads/" + branch}})
}

// Rewind is Reattach, and also removes the commits after commit from the branch. It reports whether it changed anything.
func (r Backups) Rewind(ctx context.Context, dir, branch, commit, ref string) (bool, error) {
	moved, err := r.Reattach(ctx, dir, branch, commit, ref)
	if err != nil {
		return moved, err
	}
	tip, err := r.repo.Refs().Branch(ctx, branch)
	if err != nil || tip == commit {
		return moved, err
	}
	if err := r.saveCommit(ctx, tip, branch, ref); err != nil {
		return moved, err
	}
	if err := r.repo.Refs().MoveRef(ctx, "refs/heads/"+branch, commit, tip); err != nil {
		return moved, fmt.Errorf("taking commits off %s: %w", branch, err)
	}
	return true, nil
}

// PinBranch points ref at the tip of a branch, so that git keeps its commits, and returns the tip; "" if there is no such branch.
// If ref exists already, it must point at the same commit.
func (r Backups) PinBranch(ctx context.Context, branch, ref string) (string, error) {
	tip, err := r.repo.Refs().Branch(ctx, branch)
	if err != nil || tip == "" {
		return "", err
	}
	if old, err := r.repo.Refs().Resolve(ctx, ref); err == nil && old == tip {
		return tip, nil
	}
	return tip, r.repo.Refs().MoveRef(ctx, ref, tip, "")
}

// containsExcluded reports whether e is an untracked folder with an excluded path in it, which may be the only reason why git lists it.
func containsExcluded(e git.Entry, exclude []string) bool {
	return e.Untracked() && slices.ContainsFunc(exclude, func(path string) bool { return strings.HasPrefix(path, e.Path) })
}
