package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Deliver pushes the branch of a task in review and opens its pull request, whatever is configured; a task whose
// delivery failed gets another run, which goes on there. Errors that callers tell apart are those of Start.
func (s *Site) Deliver(ctx context.Context, dir string) (Result, error) {
	t, in, err := s.deliverable(dir)
	if err == nil {
		err = s.guard().trustedRun(ctx, dir)
	}
	if err != nil {
		return Result{Dir: dir}, err
	}
	if t.Status == trellis.InProgress {
		return s.Starter().Start(ctx, dir, RunOptions{})
	}
	if t.Status == trellis.Failed {
		if err := s.gathered(ctx, dir, in); err != nil {
			return Result{Dir: dir}, err
		}
		if err := s.Orders().Retry(ctx, dir, false, RunOptions{Deliver: true}); err != nil {
			return Result{Dir: dir}, err
		}
		return s.Starter().Start(ctx, dir, RunOptions{})
	}
	if done, err := s.caughtUp(ctx, dir, in); err != nil {
		return Result{Dir: dir}, err
	} else if !done {
		return s.Starter().Start(ctx, dir, RunOptions{})
	}
	lock, err := runlock.Take(dir, s.Clock())
	if err != nil {
		return Result{Dir: dir}, err
	}
	defer lock.Unlock()
	return s.deliverNow(ctx, dir, in)
}

// deliverNow delivers what a run left in review, and says so in task.json and report.md.
func (s *Site) deliverNow(ctx context.Context, dir string, in pipeline.DeliverIn) (Result, error) {
	done, err := s.deliver(ctx, flow.Call{}, in)
	if err != nil {
		return Result{Dir: dir}, err
	}
	if err := s.TaskRunner().effects(dir).Report.Tell(ctx, in, done); err != nil {
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
	res := s.Starter().standing(t)
	res.Report.Delivery, res.Failure = done, nil // what is said of the task is another matter
	return res, nil
}

// PreviewDelivery is what Deliver would do. It changes nothing.
func (s *Site) PreviewDelivery(ctx context.Context, dir string) (delivery.Delivered, error) {
	t, in, err := s.deliverable(dir)
	if err != nil {
		return delivery.Delivered{}, err
	}
	if in.Job.Branch == "" { // the last run has no report yet
		return delivery.Delivered{Title: in.Title, Notes: []string{"a delivery was cut off: the next one goes on with it"}}, nil
	}
	if t.Status == trellis.Failed {
		if again, err := s.drifted(ctx, dir, in); err != nil || again != "" {
			return delivery.Delivered{Title: in.Title, Into: in.Job.BaseBranch, Notes: []string{again}}, err
		}
	}
	d, err := s.deliverer(ctx, in)
	if err != nil {
		return delivery.Delivered{}, err
	}
	behind, err := s.TaskRunner().effects(dir).Upstream.Behind(ctx, in, in.Report.Commit, false)
	if err != nil {
		return delivery.Delivered{}, err
	}
	if over := (*RefusedError)(nil); errors.As(s.over(ctx, t), &over) {
		return delivery.Delivered{Title: in.Title, URL: t.PRURL, Notes: []string{over.Why + ": `" + over.Hint + "` tells the task"}}, nil
	}
	w := s.work(in)
	if first, err := s.unverified(ctx, w); err != nil || first != "" {
		return delivery.Delivered{Title: in.Title, Into: in.Job.BaseBranch, Notes: []string{first}}, err
	}
	out, err := d.Preview(ctx, w)
	if behind != "" {
		out.Notes = append(out.Notes, behind)
	}
	return out, err
}

// unverified says what is committed on top of the work and is neither verified nor pushed, "" for nothing.
func (s *Site) unverified(ctx context.Context, w delivery.Work) (string, error) {
	tip, err := s.Repo.Refs().Branch(ctx, w.Branch)
	if err != nil || tip == "" || tip == w.Commit {
		return "", err
	}
	if within, err := s.Repo.History().IsAncestor(ctx, w.Commit, tip); err != nil || !within {
		return "", err // the preview says so
	}
	if remote, err := s.Repo.Remotes().Remote(ctx, w.Base); err == nil && remote != "" {
		tips, err := s.Repo.Remotes().RemoteBranches(ctx, remote, w.Branch)
		if err != nil || tips[w.Branch] == tip {
			return "", err
		}
	}
	who, n, err := s.Repo.History().Authors(ctx, w.Commit, tip)
	return "its branch has " + delivery.Commits(n, who) + " that nobody verified: a run checks what is there, then it is delivered", err
}

// gathered takes into the branch of a task whose delivery failed what people pushed to it, and says when it is run anew.
func (s *Site) gathered(ctx context.Context, dir string, in pipeline.DeliverIn) error {
	lock, err := runlock.Take(dir, s.Clock())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	with, err := s.strangers(ctx, in)
	if err != nil {
		return err
	}
	said, err := with.takeIn(ctx)
	if err != nil {
		return err
	}
	again, err := s.drifted(ctx, dir, in)
	for _, text := range []string{said, again} {
		if text != "" {
			s.Tell(Event{Task: in.Task, Message: in.Task + ": " + text})
		}
	}
	return err
}

// drifted says that a task whose delivery failed is run anew before it is delivered, and why; "" when it is not.
func (s *Site) drifted(ctx context.Context, dir string, in pipeline.DeliverIn) (string, error) {
	what, err := s.TaskRunner().effects(dir).Delivery.Drifted(ctx, in)
	if err != nil || what == "" {
		return "", err
	}
	return what + " was changed since it was verified: it is run anew first, with agents and checks", nil
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
	case ok && t.Status == trellis.Review && !h.Ended: // caughtUp was cut off
	case ok && t.Status == trellis.InProgress && !h.Ended && begunByDeliver(h): // or what it began
	case ok && t.Status == trellis.Failed && p.Undelivered:
	case t.Status == trellis.Failed:
		return nil, in, &RefusedError{fmt.Sprintf("%s failed before there was anything to deliver", t.ID), "trellis retry " + t.ID}
	default:
		return nil, in, &RefusedError{fmt.Sprintf("%s is %s: only a task in review can be delivered, or one whose delivery failed", t.ID, t.Status), "trellis status " + t.ID}
	}
	return t, in, nil
}

// begunByDeliver reports whether a run was begun to deliver what was verified before.
func begunByDeliver(h *journal.History) bool {
	var in pipeline.Input
	err := json.Unmarshal(h.Input, &in)
	return err == nil && in.Deliver && in.React == nil && in.Undelivered != nil
}

// staffed is able for the run of a task. Where only the delivery is left no agent is asked, so none need be there; if it
// turns out that something was changed since, the run itself says what is missing.
func (s Roles) CheckAgents(ctx context.Context, t *taskdir.Task, flag string) error {
	h, err := journal.Read(filepath.Join(t.Dir, taskdir.Run))
	if err != nil {
		h = nil // whoever runs it says so
	}
	p, err := pipeline.ReadProgress(h)
	if err == nil && slices.Contains([]string{"", "prepare", "deliver"}, p.Standing.Phase) {
		if held, err := s.TaskRunner().undelivered(ctx, t, p); err == nil && held != nil {
			return nil
		}
	}
	return s.able(ctx, pipeline.Roles(), t.Pipeline.Agent, flag)
}

// deliver is what a run does at its end.
func (s *Site) deliver(ctx context.Context, _ flow.Call, in pipeline.DeliverIn) (pipeline.Delivery, error) {
	by, err := s.deliverer(ctx, in)
	if err != nil {
		return pipeline.Delivery{}, err
	}
	d, err := by.Deliver(ctx, s.work(in))
	out := pipeline.Delivery{Remote: d.Remote, Pushed: d.Pushed, PRURL: d.URL, Number: d.Number, Commands: d.Commands, Notes: d.Notes}
	for _, p := range d.Modules {
		if p.URL != "" {
			out.Modules = append(out.Modules, pipeline.ModulePR{Path: p.Path, URL: p.URL, Number: p.Number})
		}
	}
	return out, err
}

func (s *Site) deliverer(ctx context.Context, in pipeline.DeliverIn) (*delivery.Deliverer, error) {
	want, dir := in.Job.Delivery, filepath.Join(s.Store.Tasks(), in.Task)
	mask, err := s.TaskRunner().effects(dir).Leaks.Masker(ctx, in.Job)
	if err != nil {
		return nil, fmt.Errorf("looking for secrets in what is told of %s: %w", in.Task, err)
	}
	return &delivery.Deliverer{Repo: s.Repo, Forge: &github.Client{Dir: s.Repo.Main, Env: s.Environ, Marker: runlock.Marker(dir)},
		PR: want.PR, Draft: want.Draft, Labels: want.Labels, Reviewers: want.Reviewers, Redact: mask, Record: delivery.RecordFile(dir), Disk: s.Disk}, nil
}

// work is a commit as it is delivered.
func (s *Site) work(in pipeline.DeliverIn) delivery.Work {
	j, r := in.Job, in.Report
	w := delivery.Work{Task: in.Task, Path: filepath.ToSlash(s.Store.Rel(filepath.Join(s.Store.Tasks(), in.Task))), Title: in.Title, Summary: in.Summary,
		Branch: j.Branch, Base: j.BaseBranch, BaseCommit: j.BaseCommit, Commit: r.Commit, Modules: j.Modules, Worktree: r.Worktree, StackedOn: r.Stacked,
		Executed: r.Executed, Rounds: r.Rounds, Took: pipeline.Took(r.Usage), Mends: in.Mends}
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
	w.Defining = r.Checks.Defining
	for _, c := range r.Checks.Results {
		w.Checks = append(w.Checks, delivery.Check{Command: c.Command, Code: c.Code, Seconds: c.Seconds, Known: c.Known})
	}
	return w
}
