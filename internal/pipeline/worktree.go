package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	gitupdate "github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const discard flow.Act[discardIn, discarded] = "discard"

type discardIn struct {
	Job Job `json:"job"`
}

type discarded struct {
	Notes []string `json:"notes,omitempty"`
}

// worktrees makes, finds and removes the worktree of a task.
type worktrees struct {
	place
	guard    *worktreeGuard
	modules  *modules
	restorer *restorer
}

// resumeUpdate makes the worktree, and resumes a base update that an earlier run began.
func (wt *worktrees) resumeUpdate(ctx context.Context, c flow.Call, in prepareIn, notes []string) ([]string, error) {
	_, missing := os.Lstat(in.Job.Worktree)
	if err := wt.makeWorktree(ctx, c, in); err != nil {
		return notes, err
	}
	whose := filepath.Base(wt.task.dir)
	u, err := gitupdate.New(wt.repo).Updating(ctx, whose)
	if err != nil || u == nil {
		return notes, err
	}
	if in.Job.Clash == nil && !u.Moving { // a person finished it by hand
		return notes, gitupdate.New(wt.repo).EndUpdate(ctx, whose)
	}
	if missing != nil {
		if err := gitupdate.New(wt.repo).Redo(ctx, whose, u); err != nil {
			return notes, err
		}
	}
	_, err = gitupdate.New(wt.repo).Update(ctx, gitupdate.Options{Dir: in.Job.Worktree, Branch: in.Job.Branch, Whose: whose, Base: u.Base, Backup: wt.task.backupRef(c)})
	return append(notes, fmt.Sprintf("the branch is on its way to %.12s: an earlier run began that", u.Base)), err
}

// workLost reports whether the worktree of an earlier run was removed with uncommitted work in it: no phase has run in the new
// worktree, and its branch has no commits.
func (wt *worktrees) workLost(ctx context.Context, in prepareIn) (bool, error) {
	if _, err := os.Stat(filepath.Join(in.Job.Worktree, filepath.FromSlash(runtimeDir), "task")); !in.Begun || err == nil || in.Job.Clash != nil {
		return false, nil
	}
	tip, err := wt.repo.Refs().Branch(ctx, in.Job.Branch)
	return tip == in.Job.BaseCommit, err
}

// untouched reports whether branch and worktree are as a run left them before any work, and the base has moved on since.
func (wt *worktrees) untouched(ctx context.Context, in prepareIn) (bool, error) {
	tip, err := wt.repo.Refs().Branch(ctx, in.Job.Branch)
	if in.Begun || err != nil || tip == "" || tip == in.Job.BaseCommit {
		return false, err
	}
	if work, err := wt.restorer.uncommitted(ctx, in.Job); err != nil || len(work) > 0 {
		return false, nil // a worktree that can't be read is reported where it is reused
	}
	return wt.repo.History().IsAncestor(ctx, tip, in.Job.BaseCommit)
}

// disposable reports whether the branch may be removed to begin again: it is this task's, or has no commits of its own. Any other
// branch was named in task.json since, and is a person's.
func (wt *worktrees) disposable(ctx context.Context, in prepareIn) (bool, error) {
	tip, err := wt.repo.Refs().Branch(ctx, in.Job.Branch)
	if in.Job.Own || err != nil || tip == "" {
		return err == nil, err
	}
	if within, err := wt.repo.History().IsAncestor(ctx, tip, in.Job.BaseCommit); err != nil || within {
		return within, err
	}
	return mayUseBranch(ctx, wt.repo, in, wt.task.id())
}

// backUpAndRemove backs up the worktree and branch that an earlier run left, and removes them. Each step checks for itself what
// exists, since there may have been a crash after the step before.
func (wt *worktrees) backUpAndRemove(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	ref := wt.task.backupRef(c)
	if err := wt.repo.Worktrees().CheckOnlyAt(ctx, j.Branch, j.Worktree); err != nil {
		return nil, wt.failure(ctx, j, err)
	}
	if err := gitupdate.New(wt.repo).EndUpdate(ctx, filepath.Base(wt.task.dir)); err != nil {
		return nil, err
	}
	failed := func(what string, err error) ([]string, error) {
		return notes, flow.Fail(string(trellis.WorktreeFailed), "%s: %v", what, err)
	}
	there, err := wt.repo.Worktrees().Resumable(ctx, j.Worktree)
	if err != nil {
		return failed("backing up the worktree", err)
	}
	if there {
		if _, err := snapshot.NewBackups(wt.repo).Backup(ctx, j.Worktree, ref, "trellis: work of "+filepath.Base(wt.task.dir)+" that was taken away"); err != nil {
			return failed("backing up the worktree", err)
		}
		notes = append(notes, "the work so far is kept as "+ref)
	}
	if err := wt.repo.Worktrees().Remove(ctx, j.Worktree); err != nil && !errors.Is(err, git.ErrNoWorktree) { // an empty folder
		return failed("removing the worktree", err)
	}
	kept, err := wt.modules.removeBranches(ctx, j, ref+"-branch")
	if notes = append(notes, kept...); err != nil {
		return failed("backing up submodules", err)
	}
	tip, err := wt.repo.Refs().Branch(ctx, j.Branch)
	if err != nil || tip == "" {
		return notes, err
	}
	if tip != j.BaseCommit {
		if _, err := snapshot.NewBackups(wt.repo).PinBranch(ctx, j.Branch, ref+"-branch"); err != nil {
			return failed("backing up the branch", err)
		}
		notes = append(notes, "the branch so far is kept as "+ref+"-branch")
	}
	if err := wt.repo.Refs().DeleteBranch(ctx, j.Branch); err != nil {
		return failed("deleting the branch", err)
	}
	return notes, nil
}

// makeWorktree makes the worktree on the task's branch, or finds the existing one.
func (wt *worktrees) makeWorktree(ctx context.Context, c flow.Call, in prepareIn) error {
	if err := os.MkdirAll(filepath.Dir(in.Job.Worktree), 0o755); err != nil {
		return flow.Fail(string(trellis.WorktreeFailed), "making the folder of worktrees: %v", err)
	}
	own, err := mayUseBranch(ctx, wt.repo, in, wt.task.id())
	if err != nil {
		return err
	}
	n := git.NewWorktree{Path: in.Job.Worktree, Branch: in.Job.Branch, Base: in.Job.BaseCommit, Adopt: own, Owner: wt.task.id(),
		Takes: func(owner string) bool { return wt.mayAdopt(c, in, owner, own) }}
	if err = wt.repo.Worktrees().Add(ctx, n); errors.As(err, new(*git.PathError)) && wt.leftBranch(ctx, in) {
		if _, err = snapshot.NewBackups(wt.repo).Reattach(ctx, in.Job.Worktree, in.Job.Branch, in.Job.BaseCommit, wt.task.backupRef(c)+"-strayed"); err == nil {
			err = wt.repo.Worktrees().Add(ctx, n)
		}
	}
	return wt.failure(ctx, in.Job, err)
}

// failure turns err into the failure of a worktree that can't be made. It returns nil if err is nil.
func (wt *worktrees) failure(ctx context.Context, j Job, err error) error {
	var taken *git.BranchError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*git.ReplacedError)):
		return wt.guard.explain(err)
	case errors.As(err, &taken):
		return wt.takenFailure(ctx, j, taken)
	}
	return flow.Fail(string(trellis.WorktreeFailed), "%v", err)
}

// takenFailure returns the failure for a branch that is in use, with the command that makes it available to the task. Another
// branch is not an option: the task has begun on this one.
func (wt *worktrees) takenFailure(ctx context.Context, j Job, e *git.BranchError) error {
	id := wt.task.id()
	if e.Owner == "" {
		e.Owner = wt.claimedBy(j.Worktree)
	}
	way := fmt.Sprintf("`git -C %s switch --detach` lets go of it", trellis.ShellWord(e.Worktree))
	switch inPlace := (git.Worktree{Path: e.Worktree}).At(j.Worktree); {
	case e.Tip != "", inPlace && e.Owner == "":
		return flow.Fail(string(trellis.WorktreeFailed), "making a worktree: %v: if it is this task's, `trellis start %s --adopt-branch`", e, id)
	case e.Gone:
		way = "if that was moved, `git worktree repair PATH` with where it is now leads there"
	case e.Owner == id:
		way = "the next run continues there"
	case wt.isTask(e.Owner):
		way = fmt.Sprintf("`trellis cleanup %s` takes that away, once it is done with", e.Owner)
	case e.Worktree == wt.repo.Main:
		base, err := wt.repo.Refs().Branch(ctx, j.BaseBranch)
		if err != nil {
			return err
		}
		if base != "" {
			way = fmt.Sprintf("`git -C %s switch %s` lets go of it", trellis.ShellWord(e.Worktree), trellis.ShellWord(j.BaseBranch))
		}
	}
	return flow.Fail(string(trellis.WorktreeFailed), "making a worktree: %v: %s; then `trellis retry %s`", e, way, id)
}

// mayAdopt reports whether this task may take a worktree that has no owner (it was made by an older Trellis, or by one that was
// interrupted before it recorded that), or whose owner no longer exists: an earlier run, or an earlier attempt of this call, was
// here, its pointer names the task, its branch has the task's commits, or a person said so. It returns false if another task names
// the worktree.
func (wt *worktrees) mayAdopt(c flow.Call, in prepareIn, owner string, ownBranch bool) bool {
	if wt.isTask(owner) || wt.claimedBy(in.Job.Worktree) != "" {
		return false
	}
	return ownBranch || in.Begun || c.Attempt > 1 || wt.namesTask(in.Job.Worktree)
}

// checkOwner returns a failure if the worktree at the task's path belongs to another task.
func (wt *worktrees) checkOwner(ctx context.Context, c flow.Call, in prepareIn) error {
	all, err := wt.repo.Worktrees().List(ctx)
	for _, w := range all {
		if !w.At(in.Job.Worktree) || w.Gone || w.HalfMade() {
			continue
		}
		if err := wt.repo.Worktrees().Check(w); err != nil {
			return wt.guard.explain(err)
		}
		if by := w.Owner(); by != wt.task.id() && !wt.mayAdopt(c, in, by, false) {
			return wt.failure(ctx, in.Job, &git.BranchError{Branch: in.Job.Branch, Taken: in.Job.Branch, Worktree: w.Path, Owner: by})
		}
	}
	return err
}

// isTask reports whether a task of that name exists or is archived. It returns true if the archive can't be read.
func (wt *worktrees) isTask(id string) bool {
	if id == "" {
		return false
	}
	if _, err := os.Lstat(filepath.Join(wt.store.Tasks(), filepath.Base(id))); err == nil {
		return true
	}
	archived, err := wt.store.Archived(id)
	return archived != "" || err != nil
}

// claimedBy returns another task whose task.json names the worktree, "" if there is none.
func (wt *worktrees) claimedBy(worktree string) string {
	entries, _ := wt.store.List() // tasks that can't be read name nothing
	for _, e := range entries {
		if e.Task != nil && e.Task.ID != wt.task.id() && e.Task.WorktreePath == worktree && e.Task.Status != trellis.Completed {
			return e.Task.ID
		}
	}
	return ""
}

// namesTask reports whether the pointer that setup.writePointer leaves in a worktree names the task.
func (wt *worktrees) namesTask(worktree string) bool {
	const long = 1 << 10
	data, err := durable.ReadBelow(worktree, currentTask, long)
	return err == nil && strings.TrimSpace(string(data)) == wt.store.Rel(wt.task.dir)
}

// leftBranch reports whether the worktree of an earlier run has left its branch, and nobody else has the branch checked out: an
// agent switched away, and the run ended before that was undone.
func (wt *worktrees) leftBranch(ctx context.Context, in prepareIn) bool {
	now, err := wt.repo.Refs().CurrentBranch(ctx, in.Job.Worktree)
	return in.Begun && err == nil && now != in.Job.Branch && wt.repo.Worktrees().CheckOnlyAt(ctx, in.Job.Branch, in.Job.Worktree) == nil
}

// discard removes the worktree and the branch of a run that changed nothing against its base. Commits or files that are there
// nevertheless (a commit that was reverted, say) are backed up.
func (wt *worktrees) discard(ctx context.Context, c flow.Call, in discardIn) (out discarded, err error) {
	tip, err := wt.repo.Refs().Branch(ctx, in.Job.Branch)
	if err != nil {
		return out, err
	}
	left, err := wt.restorer.uncommitted(ctx, in.Job)
	if err != nil {
		return out, err
	}
	if out.Notes, err = wt.ignoredFilesNote(ctx, in.Job); err != nil {
		return out, err
	}
	if tip != in.Job.BaseCommit || len(left) > 0 {
		kept, err := wt.backUpAndRemove(ctx, c, in.Job)
		out.Notes = append(kept, out.Notes...)
		return out, err
	}
	if err := wt.repo.Worktrees().Remove(ctx, in.Job.Worktree); err != nil {
		return out, flow.Fail(string(trellis.WorktreeFailed), "%v", err)
	}
	if _, err := wt.modules.removeBranches(ctx, in.Job, wt.task.backupRef(c)+"-branch"); err != nil {
		return out, err
	}
	return out, wt.repo.Refs().DeleteBranch(ctx, in.Job.Branch)
}

// ignoredFilesNote returns a note on the files that git ignores in a worktree, which no backup has, except common build output.
func (wt *worktrees) ignoredFilesNote(ctx context.Context, j Job) ([]string, error) {
	if _, err := os.Stat(j.Worktree); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	list, err := wt.repo.Index().Ignored(ctx, j.Worktree, NeverCommitted(j)...)
	list = shortList(slices.DeleteFunc(list, func(path string) bool {
		return path == runtimeDir+"/" || git.IsBuildArtifact(strings.TrimSuffix(path, "/"))
	}))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return []string{"git ignores these files, which went with the worktree: " + strings.Join(list, ", ")}, nil
}

// mayUseBranch reports whether an existing branch may be used: it has a commit of this task, or a person said so. A branch
// without commits, or one that is checked out in its own worktree, needs no permission.
func mayUseBranch(ctx context.Context, repo *git.Repo, in prepareIn, task string) (bool, error) {
	tip, err := repo.Refs().Branch(ctx, in.Job.Branch)
	if in.Adopt || err != nil || tip == "" {
		return in.Adopt, err
	}
	made, err := repo.History().FindTrailer(ctx, in.Job.BaseCommit, tip, TaskTrailer+": "+task)
	return made != "", err
}
