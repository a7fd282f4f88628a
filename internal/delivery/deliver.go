// Package delivery publishes a verified commit: it pushes the branch to the remote and opens a pull request for it.
package delivery

import (
	"context"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Work is a verified commit and where it is to be delivered.
type Work struct {
	pipeline.DeliverIn
	Path          string // of the task's folder, relative to the top of the repository
	StackedBranch string // branch that the work is stacked on, "" if it began on its base
	PR            string // address of the pull request opened by an earlier delivery, "" if there is none
	Source        taskdir.Source

	pushedOnTop string           // commit that people pushed on top of the work, "" if there is none
	parts       []ModuleDelivery // work in submodules, delivered before this
}

// NewWork returns the work that a run delivers. What it reads from store is not recorded in the journal, since it may have changed.
func NewWork(store taskdir.Store, in pipeline.DeliverIn) Work {
	dir := filepath.Join(store.Tasks(), in.Task)
	w := Work{DeliverIn: in, Path: filepath.ToSlash(store.Rel(dir))}
	if t, err := store.Load(dir); err == nil {
		w.PR, w.Source = t.PRURL, t.Source
	}
	if dir, err := store.Find(in.Report.Stacked); in.Report.Stacked != "" && err == nil {
		if on, err := store.Load(dir); err == nil {
			w.StackedBranch = on.BranchName()
		}
	}
	return w
}

// Delivered is the result of a delivery, with the additional details that a preview shows.
type Delivered struct {
	pipeline.Delivery
	Into  string // the branch that the pull request is for
	Title string
	Body  string
	Parts []ModuleDelivery // results of the work in submodules, which is delivered first
	Push  string           // only in a preview: describes what would be pushed
}

// Deliverer delivers the work of one repository.
type Deliverer struct {
	Repo   *git.Repo
	Forges Forges
	Issues *tracker.Access // the trackers of issues that work comes from; nil: no comment is written to an issue
	Redact mask            // nil: nothing is hidden
	Dir    string          // of the task; its delivered.json records which pull requests were opened, and their labels and reviewers
	Disk   *durable.Disk
}

func (d *Deliverer) branches() branches { return branches{d.Repo, d.Redact} }

// Deliver pushes the branch and opens a pull request, or updates the open one. What the work changed in submodules is delivered
// to their own remotes first. Deliver checks what exists already, so it may be called again however an earlier call ended. It
// fails with push_failed or pr_failed, which are retryable if the cause is likely to be temporary, or with empty_diff if the
// base contains the work already.
func (d *Deliverer) Deliver(ctx context.Context, w Work) (out Delivered, err error) {
	w = d.Redact.hideInWork(w)
	if out, err = d.branches().assess(ctx, w); err != nil {
		return out, err
	}
	first, ready, err := d.pushModules(ctx, w, &out)
	if err != nil || !ready {
		return out, err
	}
	f, err := d.Forges.ForRemote(ctx, d.Repo, out.Remote)
	if err != nil {
		return out, err
	}
	if err := d.openModules(ctx, w, first, &out); err != nil {
		return out, d.Redact.prFailure(ctx, err)
	}
	w.parts = out.Parts
	o := git.PushOptions{Dir: hookDir(ctx, d.Repo, w.Report.Worktree), Remote: out.Remote, Branch: w.Job.Branch, Commit: w.Report.Commit, Whose: w.Task}
	if w.pushedOnTop, err = d.branches().push(ctx, o, &out); err != nil {
		return out, d.Redact.pushFailure(ctx, w, err)
	}
	out.Pushed = true
	if !w.Job.Delivery.PR {
		out.Commands = append(out.Commands, createCommand(f, w, out))
		return out, nil
	}
	out, err = d.open(ctx, f, w, out)
	if err != nil {
		return out, err
	}
	if err := d.linkModules(ctx, w, first, &out); err != nil {
		return out, err
	}
	return out, d.commentOnIssue(ctx, w, &out)
}
