package runner

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// strangers is what people did to the branch of a task since its commit was verified.
type strangers struct {
	s      *Site
	in     pipeline.DeliverIn
	tip    string // where the branch ends here, "" when there is nothing to be done about it
	remote string
	theirs string // where it ends at the remote, when that is what was delivered or people put it on that; else ""
	to     string // where it would end with both
}

// strangers finds what people committed on the branch here, and what they pushed to it. What can't be brought together, and is
// therefore for a person, is push_failed.
func (s *Site) strangers(ctx context.Context, in pipeline.DeliverIn) (*strangers, error) {
	o := &strangers{s: s, in: in}
	tip, err := s.Repo.Refs().Branch(ctx, in.Job.Branch)
	if err != nil || tip == "" || in.Report.Commit == "" {
		return o, err
	}
	if within, err := s.Repo.History().IsAncestor(ctx, in.Report.Commit, tip); err != nil || !within {
		return o, err // the delivery says so
	}
	o.tip, o.to = tip, tip
	if err := o.ask(ctx); err != nil || o.theirs == "" {
		return o, err
	}
	message := fmt.Sprintf("Merge branch '%s' of %s", in.Job.Branch, o.remote)
	if o.to, err = s.Repo.Updater().Joined(ctx, tip, o.theirs, message); err != nil {
		return o, o.refuse(ctx, err)
	}
	if o.moved() && len(in.Job.Modules) > 0 && o.to != o.theirs {
		return o, o.refuse(ctx, errors.New("the task works in a submodule"))
	}
	return o, nil
}

// ask looks at the branch of the remote. One that can't be asked is left for the push to find out.
func (o *strangers) ask(ctx context.Context) (err error) {
	repo, branch := o.s.Repo, o.in.Job.Branch
	if o.remote, err = repo.Remotes().Remote(ctx, o.in.Job.BaseBranch); err != nil || o.remote == "" {
		return err
	}
	tips, err := repo.Remotes().RemoteBranches(ctx, o.remote, branch)
	there := tips[branch]
	if err != nil || there == "" {
		return unlessEnded(ctx)
	}
	if there == o.tip {
		o.theirs = there
		return nil
	}
	if _, err := repo.Refs().Resolve(ctx, there); errors.Is(err, git.ErrNotFound) {
		if err := repo.Remotes().Fetch(ctx, o.remote, fetchWall, branch); err != nil {
			return unlessEnded(ctx)
		}
	}
	if _, err := repo.Refs().Resolve(ctx, there); err != nil {
		return unlessEnded(ctx)
	}
	if old, err := repo.History().IsAncestor(ctx, there, o.tip); err != nil || old {
		return err
	}
	on, err := repo.History().IsAncestor(ctx, o.in.Report.Commit, there)
	if err == nil && !on {
		on, err = o.onPushed(ctx, there)
	}
	if on {
		o.theirs = there
	}
	return err
}

// unlessEnded is why the caller is to end, nil when it is not to.
func unlessEnded(ctx context.Context) error { return context.Cause(ctx) }

// onPushed reports whether people put a commit on one that was pushed before. That one itself is ours to replace.
func (o *strangers) onPushed(ctx context.Context, there string) (bool, error) {
	ours, err := o.s.Repo.Remotes().Pushed(ctx, o.in.Task, there)
	if err != nil || ours {
		return false, err
	}
	return o.s.Repo.History().Builds(ctx, o.in.Task, there)
}

// refuse is the failure of what can't be brought together.
func (o *strangers) refuse(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return flow.Fail(string(trellis.PushFailed), "somebody pushed to %s of %s, and that can't be merged by itself: %v; `git -C %s merge %.12s`, mend it there and commit, then `trellis deliver %s` checks both and pushes",
		o.in.Job.Branch, o.remote, err, pipeline.Typed(o.in.Job.Worktree), o.theirs, o.in.Task)
}

// over says that the pull request of a task in review was merged or closed, and nobody told the task yet: work on it would
// be for nothing. It is nil when it is open, and when nobody can tell.
func (s *Site) over(ctx context.Context, t *taskdir.Task) error {
	if t.Status != trellis.Review || t.PRURL == "" {
		return nil
	}
	pr, err := s.Remote().Forge.Find(ctx, t.BranchName())
	if err != nil || pr == nil || pr.URL != t.PRURL || pr.State == github.Open {
		return unlessEnded(ctx)
	}
	return &RefusedError{fmt.Sprintf("the pull request of %s was %s: %s", t.ID, strings.ToLower(pr.State), pr.URL), "trellis status --refresh " + t.ID}
}

// moved reports whether the branch holds, or is to hold, something that was not verified and that the remote has not.
func (o *strangers) moved() bool {
	return o.tip != "" && o.to != o.in.Report.Commit && o.to != o.theirs
}

// takeIn brings branch and worktree to where they hold the work of all, and says what that is.
func (o *strangers) takeIn(ctx context.Context) (string, error) {
	if o.tip == "" || o.to == o.in.Report.Commit {
		return "", nil
	}
	if err := o.s.guard().trustedPush(ctx, o.tip, o.theirs); err != nil {
		return "", err
	}
	said, err := o.said(ctx)
	if err != nil {
		return "", err
	}
	if err := o.follow(ctx); err != nil {
		return "", err
	}
	return "its branch has " + said + " that nobody verified: what is there now is checked before it is delivered", nil
}

// follow takes branch and worktree to where they have it all.
func (o *strangers) follow(ctx context.Context) error {
	if o.to == o.tip {
		return nil
	}
	dir := o.in.Job.Worktree
	if _, err := os.Lstat(dir); err != nil {
		dir = "" // it is made anew of the branch
	}
	there, err := o.s.Repo.Backups().Forward(ctx, dir, o.in.Job.Branch, o.tip, o.to, pipeline.Outside(o.in.Job)...)
	if err == nil && !there {
		err = o.refuse(ctx, errors.New("the worktree holds what is not committed, or is not on that branch"))
	}
	return err
}

// said tells whose commits there are, here and at the remote.
func (o *strangers) said(ctx context.Context) (string, error) {
	var list []string
	for _, end := range []string{o.theirs, o.tip} {
		if end == "" || end == o.tip && o.to == o.theirs {
			continue
		}
		who, n, err := o.s.Repo.History().Authors(ctx, o.in.Report.Commit, end)
		if err != nil {
			return "", err
		}
		if n > 0 {
			list = append(list, delivery.Commits(n, who))
		}
	}
	return strings.Join(list, ", and "), nil
}

// hold makes a report be of what the branch has now. What the remote has is no longer ours to change; what it has not was
// never verified.
func (o *strangers) hold(rep *pipeline.Report) {
	switch {
	case o.to == o.theirs && o.theirs != "":
		rep.Commit, rep.Delivery.Pushed = o.theirs, true
	case o.moved():
		rep.Checks.Tree = ""
	}
}
