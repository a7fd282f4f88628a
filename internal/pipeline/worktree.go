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
	"github.com/trellis-tasks/trellis/taskdir"
)

const discard flow.Act[discardIn, discarded] = "discard"

type discardIn struct {
	Job Job `json:"job"`
}

type discarded struct {
	Notes []string `json:"notes,omitempty"`
}

// worktrees makes, finds and takes away the worktree of a task.
type worktrees struct {
	repo     *git.Repo
	store    taskdir.Store
	guard    *worktreeGuard
	modules  *modules
	restorer *restorer
	task     *taskDir
}

// resumeUpdate makes the worktree, and goes on there with an update that an earlier run began.
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
	if in.Job.Clash == nil && !u.Moving { // somebody ended it by hand
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

// lost reports whether the worktree of an earlier run was taken away, with work that was not committed: in the new one
// no phase has been, and nothing is on its branch.
func (wt *worktrees) lost(ctx context.Context, in prepareIn) (bool, error) {
	if _, err := os.Stat(filepath.Join(in.Job.Worktree, filepath.FromSlash(runtimeDir), "task")); !in.Begun || err == nil || in.Job.Clash != nil {
		return false, nil
	}
	tip, err := wt.repo.Refs().Branch(ctx, in.Job.Branch)
	return tip == in.Job.BaseCommit, err
}

// untouched reports whether branch and worktree are as a run left them that ended before any work, and the base has moved on since.
func (wt *worktrees) untouched(ctx context.Context, in prepareIn) (bool, error) {
	tip, err := wt.repo.Refs().Branch(ctx, in.Job.Branch)
	if in.Begun || err != nil || tip == "" || tip == in.Job.BaseCommit {
		return false, err
	}
	if work, err := wt.restorer.uncommitted(ctx, in.Job); err != nil || len(work) > 0 {
		return false, nil // of a worktree that can't be looked into it is told where it is found again
	}
	return wt.repo.History().IsAncestor(ctx, tip, in.Job.BaseCommit)
}

// disposable reports whether the branch may be taken away to begin afresh: it is this task's, or has nothing of its own. Any other
// one was named in task.json since, and is a person's.
func (wt *worktrees) disposable(ctx context.Context, in prepareIn) (bool, error) {
	tip, err := wt.repo.Refs().Branch(ctx, in.Job.Branch)
	if in.Job.Own || err != nil || tip == "" {
		return err == nil, err
	}
	if within, err := wt.repo.History().IsAncestor(ctx, tip, in.Job.BaseCommit); err != nil || within {
		return within, err
	}
	return ownBranch(ctx, wt.repo, in, wt.task.id())
}

// backUpAndRemove backs up what an earlier run left, worktree and branch, and takes it away. Each step looks for
// itself what there is, since the one before may have been the last before a crash.
func (wt *worktrees) backUpAndRemove(ctx context.Context, c flow.Call, j Job) (notes []string, err error) {
	ref := wt.task.backupRef(c)
	if err := wt.repo.Worktrees().Only(ctx, j.Branch, j.Worktree); err != nil {
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
	kept, err := wt.modules.remove(ctx, j, ref+"-branch")
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

// makeWorktree makes the worktree on the task's branch, or finds it.
func (wt *worktrees) makeWorktree(ctx context.Context, c flow.Call, in prepareIn) error {
	if err := os.MkdirAll(filepath.Dir(in.Job.Worktree), 0o755); err != nil {
		return flow.Fail(string(trellis.WorktreeFailed), "making the folder of worktrees: %v", err)
	}
	own, err := ownBranch(ctx, wt.repo, in, wt.task.id())
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

// failure is the failure of a worktree that can't be made.
func (wt *worktrees) failure(ctx context.Context, j Job, err error) error {
	var taken *git.BranchError
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*git.SwappedError)):
		return wt.guard.explain(err)
	case errors.As(err, &taken):
		return wt.taken(ctx, j, taken)
	}
	return flow.Fail(string(trellis.WorktreeFailed), "%v", err)
}

// taken is the failure of a branch that something has already, with what gives it to the task. Another branch is no way out: the task
// has begun on this one.
func (wt *worktrees) taken(ctx context.Context, j Job, e *git.BranchError) error {
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
		way = "the next run goes on there"
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

// mayAdopt reports whether a worktree that was made for nobody (an older Trellis made it, or one that was cut off before it
// could write that down), or for a task that is no longer there, is this task's: an earlier run, or an earlier entry of
// this call, was here, its pointer names the task, its branch has the task's commits, or a person said so. It is not when
// another task names it.
func (wt *worktrees) mayAdopt(c flow.Call, in prepareIn, owner string, ownBranch bool) bool {
	if wt.isTask(owner) || wt.claimedBy(in.Job.Worktree) != "" {
		return false
	}
	return ownBranch || in.Begun || c.Attempt > 1 || wt.namesTask(in.Job.Worktree)
}

// checkOwner is a failure when the worktree at the task's place is another's.
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

// isTask reports whether there is, or was, a task of that name. One that can't be looked for may be there.
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

// claimedBy is another task whose task.json names the worktree, "" for none.
func (wt *worktrees) claimedBy(worktree string) string {
	entries, _ := wt.store.List() // what can't be read names nothing
	for _, e := range entries {
		if e.Task != nil && e.Task.ID != wt.task.id() && e.Task.WorktreePath == worktree && e.Task.Status != trellis.Completed {
			return e.Task.ID
		}
	}
	return ""
}

// namesTask reports whether the pointer that mark leaves in a worktree names the task.
func (wt *worktrees) namesTask(worktree string) bool {
	const long = 1 << 10
	data, err := durable.ReadBelow(worktree, currentTask, long)
	return err == nil && strings.TrimSpace(string(data)) == wt.store.Rel(wt.task.dir)
}

// leftBranch reports whether the worktree of an earlier run has left its branch, which nobody else has checked out: an agent
// switched away, and the run ended before that was put right.
func (wt *worktrees) leftBranch(ctx context.Context, in prepareIn) bool {
	now, err := wt.repo.Refs().CurrentBranch(ctx, in.Job.Worktree)
	return in.Begun && err == nil && now != in.Job.Branch && wt.repo.Worktrees().Only(ctx, in.Job.Branch, in.Job.Worktree) == nil
}

// discard takes away the worktree and the branch of a run that changed nothing against its base. What is not
// of the base all the same (a commit that was taken back) is kept.
func (wt *worktrees) discard(ctx context.Context, c flow.Call, in discardIn) (out discarded, err error) {
	tip, err := wt.repo.Refs().Branch(ctx, in.Job.Branch)
	if err != nil {
		return out, err
	}
	left, err := wt.restorer.uncommitted(ctx, in.Job)
	if err != nil {
		return out, err
	}
	if out.Notes, err = wt.lostWith(ctx, in.Job); err != nil {
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
	if _, err := wt.modules.remove(ctx, in.Job, wt.task.backupRef(c)+"-branch"); err != nil {
		return out, err
	}
	return out, wt.repo.Refs().DeleteBranch(ctx, in.Job.Branch)
}

// lostWith notes what git ignores in a worktree, which no backup has, but for what is called as a build makes it.
func (wt *worktrees) lostWith(ctx context.Context, j Job) ([]string, error) {
	if _, err := os.Stat(j.Worktree); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	list, err := wt.repo.Index().Ignored(ctx, j.Worktree, Outside(j)...)
	list = few(slices.DeleteFunc(list, func(path string) bool {
		return path == runtimeDir+"/" || git.IsBuildArtifact(strings.TrimSuffix(path, "/"))
	}))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	return []string{"git ignores these files, which went with the worktree: " + strings.Join(list, ", ")}, nil
}

// ownBranch reports whether a branch that is there may be used: it holds a commit of this task, or a person
// said so. One that holds nothing, or is checked out where it belongs, needs no leave.
func ownBranch(ctx context.Context, repo *git.Repo, in prepareIn, task string) (bool, error) {
	tip, err := repo.Refs().Branch(ctx, in.Job.Branch)
	if in.Adopt || err != nil || tip == "" {
		return in.Adopt, err
	}
	made, err := repo.History().FindTrailer(ctx, in.Job.BaseCommit, tip, TaskTrailer+": "+task)
	return made != "", err
}
