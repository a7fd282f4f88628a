package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
)

// resumeBaseUpdate makes the claim of a later run know of the base that the branch came up to since: an update that an earlier run
// began, or what a person merged by hand.
func (cl *claimer) resumeBaseUpdate(ctx context.Context, in Input, j *Job) error {
	if in.Code < 4 || in.Fresh || in.Base == "" {
		return nil
	}
	tip, err := cl.repo.Branch(ctx, j.Branch)
	if err != nil || tip == "" {
		return err
	}
	u, err := cl.repo.Updating(ctx, filepath.Base(cl.task.dir))
	if err != nil {
		return err
	}
	if u == nil {
		return cl.followHandMerge(ctx, j, tip)
	}
	if u.Merge && tip != u.Ours {
		if within, err := cl.repo.IsAncestor(ctx, u.Base, tip); err != nil || within {
			return errors.Join(err, cl.followHandMerge(ctx, j, tip))
		}
	}
	var way onTheWay
	if err := json.Unmarshal([]byte(u.About), &way); err != nil {
		return fmt.Errorf("reading what is being updated: %w", err)
	}
	j.BaseCommit, j.StackedOn = u.Base, way.On
	return j.takeUp(u, u.About)
}

// followHandMerge moves the base to the newest commit of the base branch that the branch has.
func (cl *claimer) followHandMerge(ctx context.Context, j *Job, tip string) error {
	base, err := cl.repo.Branch(ctx, j.BaseBranch)
	if err != nil || base == "" || base == j.BaseCommit || j.Delivery.Update == "" {
		return err
	}
	shared, err := cl.repo.MergeBase(ctx, base, tip)
	if err != nil || shared == "" || shared == j.BaseCommit {
		return err
	}
	if newer, err := cl.repo.IsAncestor(ctx, j.BaseCommit, shared); err != nil || !newer {
		return err
	}
	j.BaseCommit, j.StackedOn = shared, ""
	return nil
}

// resumeUpdate makes the worktree, and goes on there with an update that an earlier run began.
func (wt *worktrees) resumeUpdate(ctx context.Context, c flow.Call, in prepareIn, notes []string) ([]string, error) {
	_, missing := os.Lstat(in.Job.Worktree)
	if err := wt.makeWorktree(ctx, c, in); err != nil {
		return notes, err
	}
	whose := filepath.Base(wt.task.dir)
	u, err := wt.repo.Updating(ctx, whose)
	if err != nil || u == nil {
		return notes, err
	}
	if in.Job.Clash == nil && !u.Moving { // somebody ended it by hand
		return notes, wt.repo.EndUpdate(ctx, whose)
	}
	if missing != nil {
		if err := wt.repo.Redo(ctx, whose, u); err != nil {
			return notes, err
		}
	}
	_, err = wt.repo.Update(ctx, git.UpdateOptions{Dir: in.Job.Worktree, Branch: in.Job.Branch, Whose: whose, Base: u.Base, Backup: wt.task.backupRef(c)})
	return append(notes, fmt.Sprintf("the branch is on its way to %.12s: an earlier run began that", u.Base)), err
}

// Behind says that delivered work, which ends in tip by now, is to be brought up to its base before it is delivered again, ""
// when it is not. ask: the remote is asked for what it has now.
func (u *upstream) Behind(ctx context.Context, in DeliverIn, tip string, ask bool) (string, error) {
	j := in.Job
	if j.Delivery.Update == "" {
		return "", nil
	}
	if within, err := u.repo.IsAncestor(ctx, in.Report.Commit, tip); err != nil || !within {
		return "", err
	}
	next, _, err := u.nextBase(ctx, j, ask)
	if err != nil || next.Commit == "" || next.Commit == j.BaseCommit {
		return "", err
	}
	if held, err := u.repo.IsAncestor(ctx, next.Commit, tip); err != nil || held {
		return "", err
	}
	if why, err := u.trust.untrusted(ctx, next); err != nil || why != "" {
		return "", err
	}
	return fmt.Sprintf("%s went on to %.12s: the branch is brought up to it first (delivery.update: %s), and checked again", next.Branch, next.Commit, j.Delivery.Update), nil
}
