package dispatch

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/flow"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Deliver pushes the branch of a task in review and opens its pull request, whatever is configured; a task whose
// delivery failed gets another run, which goes on there. Errors that callers tell apart are those of Start.
func (s *Site) Deliver(ctx context.Context, dir string) (Result, error) {
	t, in, err := s.deliverable(dir)
	if err != nil {
		return Result{Dir: dir}, err
	}
	if t.Status == trellis.Failed {
		if err := s.Retry(ctx, dir, false, RunOptions{Deliver: true}); err != nil {
			return Result{Dir: dir}, err
		}
		return s.Start(ctx, dir, RunOptions{})
	}
	lock, err := durable.TryLock(filepath.Join(dir, taskdir.RunLock), s.holder(marker(dir)))
	if err != nil {
		return Result{Dir: dir}, err
	}
	defer lock.Unlock()
	if err := clear(lock.Previous()); err != nil {
		return Result{Dir: dir}, err
	}
	return s.deliverNow(ctx, dir, in)
}

// deliverNow delivers what a run left in review, and says so in task.json and report.md.
func (s *Site) deliverNow(ctx context.Context, dir string, in pipeline.DeliverIn) (Result, error) {
	done, err := s.deliver(ctx, flow.Call{}, in)
	if err != nil {
		return Result{Dir: dir}, err
	}
	acts, _ := s.pipelineActs(dir)
	if err := acts.Tell(ctx, in, done); err != nil {
		return Result{Dir: dir}, err
	}
	t, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if done.PRURL != "" && t.PRURL != done.PRURL {
			e.Set("pr_url", done.PRURL)
		}
		return nil
	})
	if err != nil {
		return Result{Dir: dir}, err
	}
	res := s.standing(t)
	res.Report.Delivery = done
	return res, nil
}

// PreviewDelivery is what Deliver would do. It changes nothing.
func (s *Site) PreviewDelivery(ctx context.Context, dir string) (delivery.Delivered, error) {
	_, in, err := s.deliverable(dir)
	if err != nil {
		return delivery.Delivered{}, err
	}
	return s.deliverer(in).Preview(ctx, s.work(in))
}

// deliverable is a task with work that can be delivered.
func (s *Site) deliverable(dir string) (*taskdir.Task, pipeline.DeliverIn, error) {
	var in pipeline.DeliverIn
	t, err := s.Store.Load(dir)
	if err != nil {
		return nil, in, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if errors.Is(err, journal.ErrNone) {
		return nil, in, &RefusedError{t.ID + " has no run here whose work could be delivered", "trellis status " + t.ID}
	}
	if err != nil {
		return nil, in, err
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return nil, in, err
	}
	in, ok := pipeline.Deliverable(filepath.Join(dir, taskdir.Run), s.Config, t.ID, p)
	switch {
	case ok && t.Status == trellis.Review && p.Outcome == trellis.Delivered:
	case ok && t.Status == trellis.Failed && p.Undelivered:
	case t.Status == trellis.Failed:
		return nil, in, &RefusedError{fmt.Sprintf("%s failed before there was anything to deliver", t.ID), "trellis retry " + t.ID}
	default:
		return nil, in, &RefusedError{fmt.Sprintf("%s is %s: only a task in review can be delivered, or one whose delivery failed", t.ID, t.Status), "trellis status " + t.ID}
	}
	return t, in, nil
}

// staffed is able for the run of a task. Where only the delivery is left no agent is asked, so none need be there; if it
// turns out that something was changed since, the run itself says what is missing.
func (s *Site) staffed(ctx context.Context, t *taskdir.Task, flag string) error {
	h, err := journal.Read(filepath.Join(t.Dir, taskdir.Run))
	if err != nil {
		h = nil // whoever runs it says so
	}
	p, err := pipeline.ReadProgress(h)
	if err == nil && slices.Contains([]string{"", "prepare", "deliver"}, p.Standing.Phase) {
		if held, err := s.undelivered(ctx, t, p); err == nil && held != nil {
			return nil
		}
	}
	return s.able(ctx, pipeline.Roles(), t.Pipeline.Agent, flag)
}

// deliver is what a run does at its end.
func (s *Site) deliver(ctx context.Context, _ flow.Call, in pipeline.DeliverIn) (pipeline.Delivery, error) {
	d, err := s.deliverer(in).Deliver(ctx, s.work(in))
	return pipeline.Delivery{Remote: d.Remote, Pushed: d.Pushed, PRURL: d.URL, Number: d.Number, Commands: d.Commands, Notes: d.Notes}, err
}

func (s *Site) deliverer(in pipeline.DeliverIn) *delivery.Deliverer {
	want := in.Job.Delivery
	return &delivery.Deliverer{Repo: s.Repo, Forge: &forge.Forge{Dir: s.Repo.Main, Env: s.Environ, Marker: marker(filepath.Join(s.Store.Tasks(), in.Task))},
		PR: want.PR, Draft: want.Draft, Labels: want.Labels, Reviewers: want.Reviewers, Redact: s.Redact}
}

// work is a commit as it is delivered.
func (s *Site) work(in pipeline.DeliverIn) delivery.Work {
	j, r := in.Job, in.Report
	w := delivery.Work{Task: in.Task, Path: filepath.ToSlash(s.Store.Rel(filepath.Join(s.Store.Tasks(), in.Task))), Title: in.Title, Summary: in.Summary,
		Branch: j.Branch, Base: j.BaseBranch, BaseCommit: j.BaseCommit, Commit: r.Commit, Modules: j.Modules, Worktree: r.Worktree, StackedOn: r.Stacked,
		Executed: r.Executed, Rounds: r.Rounds, Took: pipeline.Took(r.Usage)}
	if t, err := s.Store.Load(filepath.Join(s.Store.Tasks(), in.Task)); err == nil {
		w.PR = t.PRURL
	}
	if dir, err := s.Store.Find(w.StackedOn); w.StackedOn != "" && err == nil {
		if on, err := s.Store.Load(dir); err == nil {
			w.StackedBranch = on.BranchName()
		}
	}
	for _, c := range r.Criteria {
		level := "must"
		if c.Should {
			level = "should"
		}
		w.Criteria = append(w.Criteria, delivery.Criterion{ID: c.ID, Text: c.Text, Level: level, Verdict: c.Verdict, Evidence: c.Evidence})
	}
	for _, c := range r.Checks.Results {
		w.Checks = append(w.Checks, delivery.Check{Command: c.Command, Code: c.Code, Seconds: c.Seconds, Known: c.Known})
	}
	return w
}
