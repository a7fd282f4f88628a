package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Values of delivery.update.
const (
	byRebase = "rebase"
	byMerge  = "merge"
)

// fetchLimit is how long it may take to ask a remote for its branches.
const fetchLimit = time.Minute

// onTheWay is what an update keeps for who goes on with it.
type onTheWay struct {
	On   string `json:"on,omitempty"`
	Said string `json:"said,omitempty"`
}

// update brings the branch, all of which is committed, up to its base. What an earlier entry began is gone on with.
func (up *updater) update(ctx context.Context, c flow.Call, in updateIn) (out Updated, err error) {
	whose := filepath.Base(up.task.dir)
	u, err := up.repo.Updating(ctx, whose)
	if err != nil {
		return out, err
	}
	var o git.UpdateOptions
	if u == nil {
		if o, out, err = up.plannedUpdate(ctx, c, in); err != nil || o.Base == "" {
			return out, err
		}
	} else {
		o.Base, o.About = u.Base, u.About
	}
	o.Dir, o.Branch, o.Whose, o.Backup = in.Job.Worktree, in.Job.Branch, whose, up.task.backupRef(c)
	before, err := up.repo.Branch(ctx, o.Branch)
	if err != nil {
		return out, err
	}
	u, err = up.repo.Update(ctx, o)
	switch conflict := (*git.ConflictError)(nil); {
	case errors.As(err, &conflict):
		return out, flow.Fail(string(trellis.Conflict), "%s went on to %.12s, and the work can't be put on that: %s; nothing was touched: `git -C %s merge %.12[2]s`, mend it there and commit, then `trellis retry %[5]s` checks that and goes on",
			in.Job.BaseBranch, o.Base, tell(conflict.Said), Typed(in.Job.Worktree), in.Task)
	case errors.Is(err, git.ErrOldGit):
		return Updated{Notes: append(out.Notes, fmt.Sprintf("%s went on, and the branch was not brought up to it: %v", in.Job.BaseBranch, err))}, nil
	case err != nil:
		return out, err
	}
	return up.updated(ctx, c, in, o, u, before, out)
}

// Typed is a path as it is typed in a shell.
func Typed(path string) string {
	if strings.ContainsAny(path, " \t\n'\"\\$&;()*?[]{}<>|`!#~") {
		return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
	}
	return path
}

// updated is what became of an update: u is what is left to do of it, nil for nothing.
func (up *updater) updated(ctx context.Context, c flow.Call, in updateIn, o git.UpdateOptions, u *git.Update, before string, out Updated) (Updated, error) {
	j := &in.Job
	j.BaseCommit = o.Base
	if err := j.takeUp(u, o.About); err != nil {
		return out, err
	}
	var way onTheWay
	if err := json.Unmarshal([]byte(o.About), &way); err != nil {
		return out, fmt.Errorf("reading what was updated: %w", err)
	}
	out.Base, out.On = o.Base, way.On
	how := "made anew on it"
	if u != nil && u.Merge {
		how = "merged with it"
	}
	out.Notes = append(out.Notes, fmt.Sprintf("%s went on to %.12s while the task was worked on: the branch, which ended in %.12s, was %s", j.BaseBranch, o.Base, before, how))
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
		if out.Made.SHA, err = up.repo.Head(ctx, j.Worktree); err != nil {
			return out, err
		}
	}
	out.Checks, err = up.verifier.changed(ctx, c, checksIn{Job: *j, Content: in.Content})
	return out, err
}

// takeUp makes a job know of an update that is under way.
func (j *Job) takeUp(u *git.Update, about string) error {
	j.Clash = nil
	if u == nil || !u.Merge && len(u.Files) == 0 {
		return nil
	}
	var way onTheWay
	if err := json.Unmarshal([]byte(about), &way); err != nil {
		return fmt.Errorf("reading what is being updated: %w", err)
	}
	j.Clash = &Clash{Files: u.Files, Said: way.Said}
	if u.Merge {
		j.Clash.Ours = u.Ours
	}
	return nil
}

// plannedUpdate finds what the branch is to come up to. Without a Base nothing is to be done with git: out says what
// holds then.
func (up *updater) plannedUpdate(ctx context.Context, c flow.Call, in updateIn) (o git.UpdateOptions, out Updated, err error) {
	j := in.Job
	next, notes, err := up.upstream.nextBase(ctx, j, true)
	if out.Notes = notes; err != nil || next.Commit == "" || next.Commit == j.BaseCommit && next.On == j.StackedOn {
		return o, out, err
	}
	if old, err := up.repo.IsAncestor(ctx, next.Commit, j.BaseCommit); err != nil || old && next.Commit != j.BaseCommit {
		return o, out, err
	}
	if why, err := up.trust.untrusted(ctx, next); err != nil || why != "" {
		out.Notes = append(out.Notes, fmt.Sprintf("%s went on to %.12s, and the branch was not brought up to it: %s", next.Branch, next.Commit, why))
		return o, out, err
	}
	if _, err := up.repo.Reattach(ctx, j.Worktree, j.Branch, j.BaseCommit, up.task.backupRef(c)+"-strayed"); err != nil {
		return o, out, err
	}
	if left, err := up.restorer.uncommitted(ctx, j); err != nil || len(left) > 0 { // what is not committed, final verify names
		return o, out, err
	}
	tip, err := up.repo.Branch(ctx, j.Branch)
	if err != nil {
		return o, out, err
	}
	if within, err := up.repo.IsAncestor(ctx, next.Commit, tip); err != nil {
		return o, out, err
	} else if within { // somebody merged it, or an earlier entry of this call did
		j.BaseCommit = next.Commit
		out.Base, out.On, out.Made.SHA = next.Commit, next.On, tip
		out.Checks, err = up.verifier.changed(ctx, flow.Call{}, checksIn{Job: j, Content: in.Content})
		return o, out, err
	}
	if err := up.modules.checkUnmoved(ctx, j, next.Commit); err != nil {
		return o, out, err
	}
	grew, err := up.repo.IsAncestor(ctx, j.BaseCommit, next.Commit)
	if err != nil {
		return o, out, err
	}
	shown := in.Seen != ""
	if !shown {
		if shown, err = up.repo.Shown(ctx, in.Task, j.BaseCommit, tip); err != nil {
			return o, out, err
		}
	}
	o = git.UpdateOptions{From: j.BaseCommit, Base: next.Commit, Called: next.Branch, Merge: j.Delivery.Update == byMerge && grew || shown}
	o.About, err = up.upstream.about(ctx, tip, next)
	return o, out, err
}

// mostSaid is how many commits of each side a conflict names.
const mostSaid = 10

// about is what is kept of an update: what it stands on, and what both sides did, should they conflict.
func (u *upstream) about(ctx context.Context, tip string, next Base) (string, error) {
	theirs, err := u.repo.Subjects(ctx, tip, next.Commit, mostSaid)
	if err != nil {
		return "", err
	}
	ours, err := u.repo.Subjects(ctx, next.Commit, tip, mostSaid)
	if err != nil {
		return "", err
	}
	said := fmt.Sprintf("%s is at %.12s. What it has and this task had not:\n%s\nWhat this task has:\n%s", next.Branch, next.Commit, theirs, ours)
	text, err := json.Marshal(onTheWay{next.On, cut(said, 4<<10)})
	return string(text), err
}

// nextBase is the commit that the work is to stand on; without one there is none to be had, and notes say why. ask: the remote
// is asked for what it has now.
func (u *upstream) nextBase(ctx context.Context, j Job, ask bool) (next Base, notes []string, err error) {
	next = Base{Branch: j.BaseBranch}
	if next.Commit, notes, err = u.baseTip(ctx, j, ask); err != nil || next.Commit == "" || j.StackedOn == "" {
		return next, notes, err
	}
	b := Bases{Repo: u.repo, Store: u.store, Known: u.merges}
	t, why := b.find(j.StackedOn)
	if why != "" {
		return Base{}, append(notes, "the work stays on the branch of "+j.StackedOn+": "+why), nil
	}
	tip, err := b.Repo.Branch(ctx, t.BranchName())
	if err != nil {
		return Base{}, notes, err
	}
	if merged, err := b.merged(ctx, t, tip, next); err != nil || merged {
		return next, notes, err
	}
	if t.Status != trellis.Review && t.Status != trellis.Completed || tip == "" {
		return Base{}, append(notes, fmt.Sprintf("the work stays where it began: %s, on whose branch that was, is %s and not merged", t.ID, t.Status)), nil
	}
	return Base{Branch: t.BranchName(), Commit: tip, On: j.StackedOn}, notes, nil
}

// baseTip is the tip of the base branch: that of the remote when the branch is pushed there, and it has all that the local
// one has.
func (u *upstream) baseTip(ctx context.Context, j Job, ask bool) (tip string, notes []string, err error) {
	remote := ""
	if j.Delivery.Push {
		if remote, err = u.repo.Remote(ctx, j.BaseBranch); err != nil {
			return "", nil, err
		}
	}
	if ask && remote != "" { // first: the base branch may be one that follows the remote
		if err := u.repo.Fetch(ctx, remote, fetchLimit); ctx.Err() != nil {
			return "", nil, context.Cause(ctx)
		} else if err != nil {
			notes = append(notes, fmt.Sprintf("what %s has now is not known: %v", remote, err))
		}
	}
	tip, err = u.repo.Branch(ctx, j.BaseBranch)
	if err == nil && tip == "" {
		tip, err = u.repo.Resolve(ctx, j.BaseBranch)
	}
	if errors.Is(err, git.ErrNotFound) {
		return "", append(notes, "the base branch "+j.BaseBranch+" is gone: the work stays where it began"), nil
	}
	if err != nil || remote == "" {
		return tip, notes, err
	}
	there, err := u.repo.Resolve(ctx, remote+"/"+j.BaseBranch)
	if errors.Is(err, git.ErrNotFound) {
		return tip, notes, nil
	}
	if err != nil || there == tip {
		return tip, notes, err
	}
	if ahead, err := u.repo.IsAncestor(ctx, tip, there); err != nil || ahead {
		return there, notes, err
	}
	return tip, notes, nil
}

// checkUnmoved is a failure when the base moved a submodule that the task works in.
func (ms *modules) checkUnmoved(ctx context.Context, j Job, next string) error {
	for _, path := range j.Modules {
		was, err := ms.repo.ModuleCommit(ctx, j.BaseCommit, path)
		if err != nil {
			return err
		}
		if now, err := ms.repo.ModuleCommit(ctx, next, path); err != nil || now != was {
			return errors.Join(err, flow.Fail(string(trellis.Conflict), "%s went on to %.12s, which has another commit of the submodule %s that this task works in; `git -C %s merge %.12[2]s`, with a commit of the submodule that has both, then `trellis retry %[5]s` checks that and goes on", j.BaseBranch, next, path, Typed(j.Worktree), filepath.Base(ms.task.dir)))
		}
	}
	return nil
}

// unmended finds the files that hold both sides still.
func (up *updater) unmended(ctx context.Context, _ flow.Call, in checksIn) (out Checks, err error) {
	j := in.Job
	sides := []string{j.BaseCommit}
	if j.Clash.Ours != "" {
		sides = append(sides, j.Clash.Ours)
	}
	if out.Stray, err = up.repo.Marked(ctx, j.Worktree, j.Clash.Files, sides...); err == nil {
		out.Tree, err = up.repo.TreeOf(ctx, j.Worktree, Outside(j)...)
	}
	out.Stray = few(out.Stray)
	return out, err
}
