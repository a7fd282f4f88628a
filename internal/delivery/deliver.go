// Package delivery takes a verified commit to where people look at it: the branch to the remote, a pull request for it.
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

// Work is a verified commit, and where it goes.
type Work struct {
	pipeline.DeliverIn
	Path          string // of the task's folder, from the top of the repository
	StackedBranch string // on which the work began, "" when it did on its base
	PR            string // address of the pull request that was opened before, "" for none
	Source        taskdir.Source

	above string // the commit that people pushed on top of it, "" for none
	parts []Part // what is delivered before it
}

// NewWork is what is delivered of a run. What the tasks of store say is not recorded with it: it may have changed since.
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

// Delivered is what became of it, and what a preview shows besides.
type Delivered struct {
	pipeline.Delivery
	Into  string // the branch that the pull request is for
	Title string
	Body  string
	Parts []Part // what became of the work in submodules, which is delivered first
	Push  string // of a preview: what would be pushed, in words
}

// Deliverer delivers work of a repository.
type Deliverer struct {
	Repo   *git.Repo
	Forges Forges
	Issues *tracker.Access // where work comes from; nil: no issue is told of it
	Redact mask            // nil: nothing is hidden
	Dir    string          // of the task, which remembers what pull requests were opened and given
	Disk   *durable.Disk
}

func (d *Deliverer) branches() branches { return branches{d.Repo, d.Redact} }

// Deliver pushes the branch and opens a pull request, or brings the one that is open up to date. What the work has in
// submodules goes before it, to where those come from. It looks for what is there first, and may be called again after
// any end. Failures are push_failed and pr_failed, retryable when a passing cause is likely, and empty_diff when the
// base has the work already.
func (d *Deliverer) Deliver(ctx context.Context, w Work) (out Delivered, err error) {
	w = d.Redact.work(w)
	if out, err = d.branches().assess(ctx, w); err != nil {
		return out, err
	}
	first, ready, err := d.pushModules(ctx, w, &out)
	if err != nil || !ready {
		return out, err
	}
	f, err := d.Forges.Of(ctx, d.Repo, out.Remote)
	if err != nil {
		return out, err
	}
	if err := d.openModules(ctx, w, first, &out); err != nil {
		return out, d.Redact.prFailure(ctx, err)
	}
	w.parts = out.Parts
	o := git.PushOptions{Dir: checkout(ctx, d.Repo, w.Report.Worktree), Remote: out.Remote, Branch: w.Job.Branch, Commit: w.Report.Commit, Whose: w.Task}
	if w.above, err = d.branches().push(ctx, o, &out); err != nil {
		return out, d.Redact.pushFailure(ctx, w, err)
	}
	out.Pushed = true
	if !w.Job.Delivery.PR {
		out.Commands = append(out.Commands, create(f, w, out))
		return out, nil
	}
	out, err = d.open(ctx, f, w, out)
	if err != nil {
		return out, err
	}
	if err := d.link(ctx, w, first, &out); err != nil {
		return out, err
	}
	return out, d.tellIssue(ctx, w, &out)
}
