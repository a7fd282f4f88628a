package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	gitupdate "github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const update flow.Act[updateIn, Updated] = "update"

const unresolvedConflicts flow.Act[checksIn, Checks] = "unmended" // returns as UncommittedPaths the files that still hold both sides of a conflict

// Clash is an update to a base that is in the worktree already, but not yet in the branch: files hold both sides of a conflict, or
// the merge has still to be committed.
type Clash struct {
	Ours  string   `json:"ours,omitempty"`  // tip of the branch into which the next commit merges the base; "": the branch is on the base
	Files []string `json:"files,omitempty"` // files that held both sides when the update began
	Said  string   `json:"said,omitempty"`  // the commits of both sides that changed these files
}

type updateIn struct {
	Task    string `json:"task"`
	Job     Job    `json:"job"`
	Seen    string `json:"seen,omitempty"` // a commit that others have seen, which must not be rewritten
	Content string `json:"content,omitempty"`
}

// Updated is the result of an update. Base is the base that the work is on now, "" if there was nothing to do.
type Updated struct {
	Base   string    `json:"base,omitempty"`
	On     string    `json:"on,omitempty"` // the task on whose branch Base is
	Clash  *Clash    `json:"clash,omitempty"`
	Made   Committed `json:"made,omitzero"`
	Checks Checks    `json:"checks,omitzero"` // what the work changes against Base; nothing was run
	Notes  []string  `json:"notes,omitempty"`
}

// update brings the branch up to its base if the base has moved on. Conflicts are trouble: the files hold both sides.
func (r *run) update(f flow.Flow) (moved bool, _ *trouble, err error) {
	if r.in.Code < 4 || r.job.Delivery.Update == "" {
		return false, nil, nil
	}
	up, err := update.Do(f, updateIn{r.in.Task, r.job, r.in.seenCommit(), r.rep.Content})
	if err != nil {
		return false, nil, err
	}
	r.rep.note(up.Notes)
	if up.Base == "" {
		return false, nil, nil
	}
	r.job.BaseCommit, r.job.StackedOn, r.job.Clash = up.Base, up.On, up.Clash
	r.rep.Base, r.rep.Stacked = up.Base, up.On
	now := &r.rep.Checks
	now.Tree, now.Stat, now.Defining, now.Unchanged = up.Checks.Tree, up.Checks.Stat, up.Checks.Defining, up.Checks.Unchanged
	if up.Made.SHA != "" {
		r.rep.Commit = up.Made.SHA
	}
	if up.Clash != nil && len(up.Clash.Files) > 0 {
		return true, r.job.conflictTrouble(up.Clash.Files, now.Tree), nil
	}
	r.rep.note(up.Made.Notes)
	return true, up.Made.trouble(now.Tree), nil
}

// unresolvedConflicts returns the trouble of files that still hold both sides of a conflict, nil if there are none.
func (r *run) unresolvedConflicts(f flow.Flow) (*trouble, error) {
	if r.job.Clash == nil || len(r.job.Clash.Files) == 0 {
		return nil, nil
	}
	left, err := unresolvedConflicts.Do(f, checksIn{Job: r.job})
	if err != nil || len(left.UncommittedPaths) == 0 {
		return nil, err
	}
	return r.job.conflictTrouble(left.UncommittedPaths, left.Tree), nil
}

// conflictTrouble returns the trouble of files that hold both sides of a conflict.
func (j Job) conflictTrouble(files []string, tree string) *trouble {
	return &trouble{Code: trellis.Conflict, Detail: "the base moved on to " + text.Cut(j.BaseCommit, 12) + ", and these files hold what it and this task changed side by side: " + joinFirst(files), Tree: tree}
}

// updater is the effect of update.
type updater struct {
	place
	committer *committer
	modules   *modules
	restorer  *restorer
	trust     *trustJudge
	upstream  *upstream
	verifier  *verifier
}

// update brings the branch, all of which is committed, up to its base. It continues what an earlier attempt began.
func (up *updater) update(ctx context.Context, c flow.Call, in updateIn) (out Updated, err error) {
	whose := filepath.Base(up.task.dir)
	u, err := gitupdate.New(up.repo).Updating(ctx, whose)
	if err != nil {
		return out, err
	}
	var o gitupdate.Options
	if u == nil {
		if o, out, err = up.plannedUpdate(ctx, c, in); err != nil || o.Base == "" {
			return out, err
		}
	} else {
		o.Base, o.About = u.Base, u.About
	}
	o.Dir, o.Branch, o.Whose, o.Backup = in.Job.Worktree, in.Job.Branch, whose, up.task.backupRef(c)
	before, err := up.repo.Refs().Branch(ctx, o.Branch)
	if err != nil {
		return out, err
	}
	u, err = gitupdate.New(up.repo).Update(ctx, o)
	switch conflict := (*gitupdate.ConflictError)(nil); {
	case errors.As(err, &conflict):
		return out, flow.Fail(string(trellis.Conflict), "%s moved on to %.12s, and the work can't be put on that: %s; nothing was touched: `git -C %s merge %.12[2]s`, fix it there and commit, then `trellis retry %[5]s` checks that and continues",
			in.Job.BaseBranch, o.Base, joinFirst(conflict.Said), trellis.ShellWord(in.Job.Worktree), in.Task)
	case errors.Is(err, gitupdate.ErrOldGit):
		return Updated{Notes: append(out.Notes, fmt.Sprintf("%s moved on, and the branch was not brought up to it: %v", in.Job.BaseBranch, err))}, nil
	case err != nil:
		return out, err
	}
	return up.finishUpdate(ctx, c, in, o, u, before, out)
}

// finishUpdate commits a merge without conflicts, and returns the result. u is what is left of the update, nil for nothing.
func (up *updater) finishUpdate(ctx context.Context, c flow.Call, in updateIn, o gitupdate.Options, u *gitupdate.Update, before string, out Updated) (Updated, error) {
	var recorded pendingUpdate
	if err := json.Unmarshal([]byte(o.About), &recorded); err != nil {
		return out, fmt.Errorf("reading what was updated: %w", err)
	}
	j := &in.Job
	j.BaseCommit = o.Base
	j.setClash(u, recorded)
	out.Base, out.On = o.Base, recorded.On
	how := "rebased on it"
	if u != nil && u.Merge {
		how = "merged with it"
	}
	out.Notes = append(out.Notes, fmt.Sprintf("%s moved on to %.12s while the task was worked on: the branch, which ended in %.12s, was %s", j.BaseBranch, o.Base, before, how))
	var err error
	if u != nil && len(u.Files) == 0 {
		if out.Made, err = up.committer.commit(ctx, c, commitIn{Job: *j, Task: in.Task, Seen: in.Seen}); err != nil {
			return out, err
		}
		if out.Made.SHA != "" {
			j.Clash = nil
		}
	}
	out.Clash = j.Clash
	if u == nil {
		if out.Made.SHA, err = up.repo.Refs().Head(ctx, j.Worktree); err != nil {
			return out, err
		}
	}
	out.Checks, err = up.verifier.changed(ctx, c, checksIn{Job: *j, Content: in.Content})
	return out, err
}

// pendingUpdate is what an update records for whoever continues it.
type pendingUpdate struct {
	On   string `json:"on,omitempty"`
	Said string `json:"said,omitempty"`
}

// setClash sets the Clash of a job to that of an update that is under way.
func (j *Job) setClash(u *gitupdate.Update, recorded pendingUpdate) {
	j.Clash = nil
	if u == nil || !u.Merge && len(u.Files) == 0 {
		return
	}
	j.Clash = &Clash{Files: u.Files, Said: recorded.Said}
	if u.Merge {
		j.Clash.Ours = u.Ours
	}
}

// plannedUpdate finds the base that the branch has to be brought up to. If o has no Base there is nothing for git to do, and out
// is the result.
func (up *updater) plannedUpdate(ctx context.Context, c flow.Call, in updateIn) (o gitupdate.Options, out Updated, err error) {
	j := in.Job
	next, notes, err := up.upstream.nextBase(ctx, j, true)
	if out.Notes = notes; err != nil || next.Commit == "" || next.Commit == j.BaseCommit && next.On == j.StackedOn {
		return o, out, err
	}
	if old, err := up.repo.History().IsAncestor(ctx, next.Commit, j.BaseCommit); err != nil || old && next.Commit != j.BaseCommit {
		return o, out, err
	}
	if why, err := up.trust.distrustReason(ctx, next); err != nil || why != "" {
		out.Notes = append(out.Notes, fmt.Sprintf("%s moved on to %.12s, and the branch was not brought up to it: %s", next.Branch, next.Commit, why))
		return o, out, err
	}
	if _, err := snapshot.NewBackups(up.repo).Reattach(ctx, j.Worktree, j.Branch, j.BaseCommit, up.task.backupRef(c)+"-strayed"); err != nil {
		return o, out, err
	}
	if left, err := up.restorer.uncommitted(ctx, j); err != nil || len(left) > 0 { // final verify reports uncommitted files
		return o, out, err
	}
	tip, err := up.repo.Refs().Branch(ctx, j.Branch)
	if err != nil {
		return o, out, err
	}
	if within, err := up.repo.History().IsAncestor(ctx, next.Commit, tip); err != nil {
		return o, out, err
	} else if within { // a person merged it, or an earlier attempt of this call did
		j.BaseCommit = next.Commit
		out.Base, out.On, out.Made.SHA = next.Commit, next.On, tip
		out.Checks, err = up.verifier.changed(ctx, flow.Call{}, checksIn{Job: j, Content: in.Content})
		return o, out, err
	}
	if err := up.modules.checkUnmoved(ctx, j, next.Commit); err != nil {
		return o, out, err
	}
	grew, err := up.repo.History().IsAncestor(ctx, j.BaseCommit, next.Commit)
	if err != nil {
		return o, out, err
	}
	shown := in.Seen != ""
	if !shown {
		if shown, err = up.repo.Remotes().HasPushedCommit(ctx, in.Task, j.BaseCommit, tip); err != nil {
			return o, out, err
		}
	}
	o = gitupdate.Options{From: j.BaseCommit, Base: next.Commit, Called: next.Branch, Merge: j.Delivery.Update == byMerge && grew || shown}
	o.About, err = up.upstream.updateRecord(ctx, tip, next)
	return o, out, err
}

// unresolvedConflicts finds the files that still hold both sides of a conflict.
func (up *updater) unresolvedConflicts(ctx context.Context, _ flow.Call, in checksIn) (out Checks, err error) {
	j := in.Job
	sides := []string{j.BaseCommit}
	if j.Clash.Ours != "" {
		sides = append(sides, j.Clash.Ours)
	}
	if out.UncommittedPaths, err = up.repo.History().WithConflictMarkers(ctx, j.Worktree, j.Clash.Files, sides...); err == nil {
		out.Tree, err = snapshot.New(up.repo).TreeOf(ctx, j.Worktree, NeverCommitted(j)...)
	}
	out.UncommittedPaths = shortList(out.UncommittedPaths)
	return out, err
}
