package delivery

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Changes holds what people did to the branch of a task since its commit was verified.
type Changes struct {
	To string // commit at which the branch would end with all changes taken in, "" if there is nothing to do

	repo   *git.Repo
	in     pipeline.DeliverIn
	tip    string // tip of the local branch, "" if there is nothing to do
	remote string
	theirs string // tip of the branch at the remote if it is also the local tip, or builds on a commit verified or pushed for the task; else ""
}

// FindChanges finds what people committed on the local branch and what they pushed to the remote one. It fails with push_failed
// if the two can't be merged automatically, so that a person has to.
func FindChanges(ctx context.Context, repo *git.Repo, in pipeline.DeliverIn) (*Changes, error) {
	o := &Changes{repo: repo, in: in}
	tip, err := repo.Refs().Branch(ctx, in.Job.Branch)
	if err != nil || tip == "" || in.Report.Commit == "" {
		return o, err
	}
	if within, err := repo.History().IsAncestor(ctx, in.Report.Commit, tip); err != nil || !within {
		return o, err // the delivery reports it
	}
	o.tip, o.To = tip, tip
	if err := o.readRemoteTip(ctx); err != nil || o.theirs == "" {
		return o, err
	}
	message := fmt.Sprintf("Merge branch '%s' of %s", in.Job.Branch, o.remote)
	if o.To, err = update.New(repo).Joined(ctx, tip, o.theirs, message); err != nil {
		return o, o.mergeFailure(ctx, err)
	}
	if o.HasUnverified() && len(in.Job.Modules) > 0 && o.To != o.theirs {
		return o, o.mergeFailure(ctx, errors.New("the task works in a submodule"))
	}
	return o, nil
}

// readRemoteTip reads the tip of the branch at the remote. If the remote doesn't answer, the later push reports that.
func (o *Changes) readRemoteTip(ctx context.Context) (err error) {
	repo, branch := o.repo, o.in.Job.Branch
	if o.remote, err = repo.Remotes().Remote(ctx, o.in.Job.BaseBranch); err != nil || o.remote == "" {
		return err
	}
	tips, err := repo.Remotes().RemoteBranches(ctx, o.remote, branch)
	remoteTip := tips[branch]
	if err != nil || remoteTip == "" {
		return context.Cause(ctx)
	}
	if remoteTip == o.tip {
		o.theirs = remoteTip
		return nil
	}
	if _, err := repo.Refs().Resolve(ctx, remoteTip); errors.Is(err, git.ErrNotFound) {
		if err := repo.Remotes().Fetch(ctx, o.remote, fetchTimeout, branch); err != nil {
			return context.Cause(ctx)
		}
	}
	if _, err := repo.Refs().Resolve(ctx, remoteTip); err != nil {
		return context.Cause(ctx)
	}
	if old, err := repo.History().IsAncestor(ctx, remoteTip, o.tip); err != nil || old {
		return err
	}
	on, err := repo.History().IsAncestor(ctx, o.in.Report.Commit, remoteTip)
	if err == nil && !on {
		on, err = o.buildsOnPushed(ctx, remoteTip)
	}
	if on {
		o.theirs = remoteTip
	}
	return err
}

// buildsOnPushed reports whether people built on a commit that was pushed before. That commit itself is ours and may be replaced.
func (o *Changes) buildsOnPushed(ctx context.Context, remoteTip string) (bool, error) {
	ours, err := o.repo.Remotes().Pushed(ctx, o.in.Task, remoteTip)
	if err != nil || ours {
		return false, err
	}
	return o.repo.History().ContainsPushed(ctx, o.in.Task, remoteTip)
}

// mergeFailure returns the failure for changes that can't be merged automatically.
func (o *Changes) mergeFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return flow.Fail(string(trellis.PushFailed), "somebody pushed to %s of %s, and that can't be merged automatically: %v; `git -C %s merge %.12s`, fix it there and commit, then `trellis deliver %s` checks both and pushes",
		o.in.Job.Branch, o.remote, err, trellis.ShellWord(o.in.Job.Worktree), o.theirs, o.in.Task)
}

// HasUnverified reports whether the branch has, or is to get, changes that were not verified and that the remote doesn't have.
func (o *Changes) HasUnverified() bool {
	return o.tip != "" && o.To != o.in.Report.Commit && o.To != o.theirs
}

// TakeIn updates branch and worktree to contain everybody's commits, and returns a description of the unverified ones. trusted
// returns an error if what was pushed, up to theirs, must not be merged into the local branch that ends in tip, and nil if it may.
func (o *Changes) TakeIn(ctx context.Context, trusted func(ctx context.Context, tip, theirs string) error) (string, error) {
	if o.tip == "" || o.To == o.in.Report.Commit {
		return "", nil
	}
	if err := trusted(ctx, o.tip, o.theirs); err != nil {
		return "", err
	}
	said, err := o.describeCommits(ctx)
	if err != nil {
		return "", err
	}
	if err := o.fastForward(ctx); err != nil {
		return "", err
	}
	return "its branch has " + said + " that nobody verified: what is there now is checked before it is delivered", nil
}

// fastForward moves branch and worktree forward to o.To.
func (o *Changes) fastForward(ctx context.Context) error {
	if o.To == o.tip {
		return nil
	}
	dir := o.in.Job.Worktree
	if !durable.Exists(dir) {
		dir = "" // it is created again from the branch
	}
	moved, err := snapshot.NewBackups(o.repo).Forward(ctx, dir, o.in.Job.Branch, o.tip, o.To, pipeline.NeverCommitted(o.in.Job)...)
	if err == nil && !moved {
		err = o.mergeFailure(ctx, errors.New("the worktree holds what is not committed, or is not on that branch"))
	}
	return err
}

// describeCommits says how many commits there are and whose, locally and at the remote.
func (o *Changes) describeCommits(ctx context.Context) (string, error) {
	var list []string
	for _, end := range []string{o.theirs, o.tip} {
		if end == "" || end == o.tip && o.To == o.theirs {
			continue
		}
		who, n, err := o.repo.History().Authors(ctx, o.in.Report.Commit, end)
		if err != nil {
			return "", err
		}
		if n > 0 {
			list = append(list, DescribeCommits(n, who))
		}
	}
	return strings.Join(list, ", and "), nil
}

// UpdateReport updates rep to the branch's current content. If the branch ends in the remote's tip, that is the delivered commit, since
// we may not change it any more; commits that the remote lacks were never verified, so the verified tree is cleared.
func (o *Changes) UpdateReport(rep *pipeline.Report) {
	switch {
	case o.To == o.theirs && o.theirs != "":
		rep.Commit, rep.Delivery.Pushed = o.theirs, true
	case o.HasUnverified():
		rep.Checks.Tree = ""
	}
}
