package runner

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Deliveries pushes finished work and opens its pull request, when a person asks for that.
type Deliveries struct{ *Site }

// Deliveries works on s.
func (s *Site) Deliveries() Deliveries { return Deliveries{s} }

// Deliver pushes the branch of a task in review and opens its pull request, whatever the configuration says. A task whose
// delivery failed gets another run, which resumes there. The errors that callers tell apart are those of Start.
func (s Deliveries) Deliver(ctx context.Context, dir string) (Result, error) {
	t, in, err := s.deliverable(dir)
	if err == nil {
		err = s.guard().checkRun(ctx, dir)
	}
	if err != nil {
		return Result{Dir: dir}, err
	}
	done := false
	switch t.Status {
	case trellis.InProgress:
	case trellis.Failed:
		if err = s.takePushed(ctx, dir, in); err == nil {
			err = s.Orders().Retry(ctx, dir, false, RunOptions{Deliver: true})
		}
	default:
		done, in, err = s.bringUpToDate(ctx, dir)
	}
	switch {
	case err != nil:
		return Result{Dir: dir}, err
	case !done:
		return s.Starter().Start(ctx, dir, RunOptions{})
	}
	lock, err := runlock.Take(dir, s.Clock())
	if err != nil {
		return Result{Dir: dir}, err
	}
	defer lock.Unlock()
	now, work, err := s.deliverable(dir)
	if err == nil && (now.Status != trellis.Review || work.Report.Commit != in.Report.Commit) {
		err = &RefusedError{now.ID + " moved on meanwhile", "trellis deliver " + trellis.ShellWord(now.ID)}
	}
	if err != nil {
		return Result{Dir: dir}, err
	}
	return s.deliverNow(ctx, dir, in)
}

// deliverNow delivers what a run left in review, and records that in task.json and report.md.
func (s Deliveries) deliverNow(ctx context.Context, dir string, in pipeline.DeliverIn) (Result, error) {
	done, err := s.TaskRunner().deliver(ctx, flow.Call{}, in)
	if err != nil {
		return Result{Dir: dir}, err
	}
	if err := s.TaskRunner().effects(dir).Report.Rewrite(ctx, in, done); err != nil {
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
	res := taskState(s.Store, t)
	res.Report.Delivery, res.Failure = done, nil // a failure noted in the task is not one of this delivery
	return res, nil
}

// Preview returns what Deliver would do. It changes nothing.
func (s Deliveries) Preview(ctx context.Context, dir string) (delivery.Delivered, error) {
	t, in, err := s.deliverable(dir)
	if err != nil {
		return delivery.Delivered{}, err
	}
	said := func(url, note string) delivery.Delivered {
		return delivery.Delivered{Title: in.Title, Into: in.Job.BaseBranch, Delivery: pipeline.Delivery{PRURL: url, Notes: []string{note}}}
	}
	if in.Job.Branch == "" { // the last run has no report yet
		return said("", "a delivery was cut off: the next one continues it"), nil
	}
	if t.Status == trellis.Failed {
		if again, err := s.driftMessage(ctx, dir, in); err != nil || again != "" {
			return said("", again), err
		}
	}
	d, err := s.TaskRunner().deliverer(ctx, in)
	if err != nil {
		return delivery.Delivered{}, err
	}
	behind, err := s.TaskRunner().effects(dir).Upstream.Behind(ctx, in, in.Report.Commit, false)
	if err != nil {
		return delivery.Delivered{}, err
	}
	if refused := (*RefusedError)(nil); errors.As(s.checkStillOpen(ctx, t), &refused) {
		return said(t.PRURL, refused.Why+": `"+refused.Hint+"` updates the task"), nil
	}
	out, err := d.Preview(ctx, delivery.NewWork(s.Store, in))
	if behind != "" {
		out.Notes = append(out.Notes, behind)
	}
	return out, err
}

// takePushed updates the branch of a task whose delivery failed with what people pushed to it, and reports if the task is run again.
func (s Deliveries) takePushed(ctx context.Context, dir string, in pipeline.DeliverIn) error {
	lock, err := runlock.Take(dir, s.Clock())
	if err != nil {
		return err
	}
	defer lock.Unlock()
	with, err := delivery.FindChanges(ctx, s.Repo, in)
	if err != nil {
		return err
	}
	said, err := with.TakeIn(ctx, s.guard().checkPush)
	if err != nil {
		return err
	}
	again, err := s.driftMessage(ctx, dir, in)
	s.tell(in.Task, said, again)
	return err
}

func (s Deliveries) tell(task string, messages ...string) {
	for _, m := range messages {
		if m != "" {
			s.Tell(Event{Task: task, Message: task + ": " + m})
		}
	}
}

// driftMessage returns the message that a task whose delivery failed is run again before it is delivered, and why; "" if it is not.
func (s Deliveries) driftMessage(ctx context.Context, dir string, in pipeline.DeliverIn) (string, error) {
	what, err := s.TaskRunner().effects(dir).Delivery.Drifted(ctx, in)
	if err != nil || what == "" {
		return "", err
	}
	return what + " was changed since it was verified: it runs again first, with agents and checks", nil
}

// deliverable returns a task whose work can be delivered and the input of the delivery, or else an error.
func (s Deliveries) deliverable(dir string) (*taskdir.Task, pipeline.DeliverIn, error) {
	var in pipeline.DeliverIn
	t, err := s.Store.Load(dir)
	if err != nil {
		return nil, in, err
	}
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if errors.Is(err, journal.ErrNone) {
		return nil, in, &RefusedError{t.ID + " has no run here whose work could be delivered", "trellis status " + trellis.ShellWord(t.ID)}
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
	case ok && t.Status == trellis.Review && !h.Ended: // bringUpToDate was cut off
	case ok && t.Status == trellis.InProgress && !h.Ended && begunByDeliver(h): // the run that bringUpToDate began was cut off
	case ok && t.Status == trellis.Failed && p.HasUndelivered:
	case t.Status == trellis.Failed:
		return nil, in, &RefusedError{fmt.Sprintf("%s failed before there was anything to deliver", t.ID), "trellis retry " + trellis.ShellWord(t.ID)}
	default:
		return nil, in, &RefusedError{fmt.Sprintf("%s is %s: only a task in review can be delivered, or one whose delivery failed", t.ID, t.Status.InWords()), "trellis status " + trellis.ShellWord(t.ID)}
	}
	in.Job.BaseBranch = cmp.Or(t.BaseBranch, in.Job.BaseBranch) // a person names another one if the base branch was renamed
	return t, in, nil
}

// begunByDeliver reports whether a run was begun to deliver what an earlier run verified.
func begunByDeliver(h *journal.History) bool {
	var in pipeline.Input
	err := json.Unmarshal(h.Input, &in)
	return err == nil && in.Deliver && in.React == nil && in.Feedback == nil && in.Undelivered != nil
}

// bringUpToDate reports whether work in review can be delivered now: it is on the current tip of its base and people changed
// nothing that nobody verified, or it is to be delivered as it is anyway. Otherwise bringUpToDate begins a run that updates the
// work, has it checked and delivers it, or resumes such a run that was cut off. in is what is to be delivered, read under the
// lock: before that, the task may have continued or been cancelled.
func (s Deliveries) bringUpToDate(ctx context.Context, dir string) (done bool, in pipeline.DeliverIn, err error) {
	j, err := s.open(ctx, dir, nil, nil)
	if err != nil {
		return false, in, err
	}
	defer j.Close()
	if _, in, err = s.deliverable(dir); err == nil {
		done, err = s.bringUpToDateLocked(ctx, dir, in, j)
	}
	return done, in, err
}

// bringUpToDateLocked does what bringUpToDate does, under the lock.
func (s Deliveries) bringUpToDateLocked(ctx context.Context, dir string, in pipeline.DeliverIn, j *journal.Run) (bool, error) {
	h := j.History()
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return false, err
	}
	if !h.Ended {
		return false, s.states().reopenReview(dir, p)
	}
	t, err := s.Store.Load(dir)
	if err == nil {
		err = s.checkStillOpen(ctx, t) // otherwise a branch that was deleted with the pull request would be pushed again
	}
	if err != nil {
		return false, err
	}
	with, err := delivery.FindChanges(ctx, s.Repo, in)
	if err != nil {
		return false, err
	}
	behind, err := s.TaskRunner().effects(dir).Upstream.Behind(ctx, in, cmp.Or(with.To, in.Report.Commit), true)
	if err != nil || behind == "" && !with.HasUnverified() {
		return true, err
	}
	said, err := with.TakeIn(ctx, s.guard().checkPush) // before anything is made that could not be pushed
	if err != nil {
		return false, err
	}
	s.tell(t.ID, said, behind)
	next, err := s.TaskRunner().input(ctx, t, h, p, RunOptions{Deliver: true})
	if err != nil {
		return false, err
	}
	held := *p.Report
	held.Delivery.Pushed = held.Delivery.Pushed || t.PRURL != "" // others have seen the commit: the base is merged into it
	with.UpdateReport(&held)
	next.Undelivered, next.Revision = &held, max(p.Revision, t.Pipeline.Revision)
	next.Retries++
	if err := beginRun(j, next); err != nil {
		return false, err
	}
	return false, s.states().reopenReview(dir, p)
}

// checkStillOpen returns an error if the pull request of a task in review was merged or closed and the task does not say so yet, so
// that work on it would be in vain. It returns nil if the pull request is open, or its state can't be found out.
func (s Deliveries) checkStillOpen(ctx context.Context, t *taskdir.Task) error {
	if t.Status != trellis.Review || t.PRURL == "" {
		return nil
	}
	f, err := s.PullRequests().Remote().Forge(ctx, t)
	if err != nil {
		return context.Cause(ctx) // pushing shows what is wrong with the remote
	}
	pr, err := f.Find(ctx, t.BranchName())
	if err != nil || pr == nil || pr.URL != t.PRURL || pr.State == forge.Open {
		return context.Cause(ctx) // nil unless ctx was cancelled
	}
	return &RefusedError{fmt.Sprintf("the pull request of %s was %s: %s", t.ID, strings.ToLower(pr.State), pr.URL), "trellis status --refresh " + trellis.ShellWord(t.ID)}
}

// deliver delivers the work of a run at its end.
func (s TaskRunner) deliver(ctx context.Context, _ flow.Call, in pipeline.DeliverIn) (pipeline.Delivery, error) {
	by, err := s.deliverer(ctx, in)
	if err != nil {
		return pipeline.Delivery{}, err
	}
	d, err := by.Deliver(ctx, delivery.NewWork(s.Store, in))
	return d.Delivery, err
}

func (s TaskRunner) deliverer(ctx context.Context, in pipeline.DeliverIn) (*delivery.Deliverer, error) {
	dir := filepath.Join(s.Store.Tasks(), in.Task)
	mask, err := s.effects(dir).Leaks.Masker(ctx, in.Job)
	if err != nil {
		return nil, fmt.Errorf("looking for secrets in the report about %s: %w", in.Task, err)
	}
	issues := s.trackers()
	forges := delivery.Forges{Env: s.Environ, Marker: runlock.Marker(dir), GitLab: issues}
	return &delivery.Deliverer{Repo: s.Repo, Forges: forges, Issues: issues, Redact: mask, Dir: dir, Disk: s.Disk}, nil
}

// trackers returns the access with which issues are read and a GitLab is queried.
func (s *Site) trackers() *tracker.Access {
	return &tracker.Access{Settings: s.Config.Trackers, Env: s.Environ, Dir: s.Repo.Main}
}
