package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// ReactionResult is the result of checking open pull requests.
type ReactionResult struct {
	Begun []string // directories of tasks that have a run to execute now
	Why   []string // for each of Begun: what the run is for
	Notes []string // what to report about other tasks
	Waits bool     // some check has not finished
}

// PullRequests asks what became of delivered work, and begins runs for what is found wrong with it.
type PullRequests struct{ *Site }

// PullRequests works on s.
func (s *Site) PullRequests() PullRequests { return PullRequests{s} }

// Remote returns the delivery.Remote that asks about pull requests.
func (s PullRequests) Remote() *delivery.Remote {
	clean := &cleanup.Cleaner{Store: s.Store, Repo: s.Repo, Folder: s.Config.Worktree.Dir, Copied: s.Config.Worktree.Copy, Now: s.Clock}
	return &delivery.Remote{Cleaner: clean, Forges: &delivery.Forges{Env: s.Environ, GitLab: s.trackers()}, Disk: s.Disk}
}

// Refresh asks the remote what became of the work in review, of the task in dir or with "" of all tasks, and reacts to it.
func (s PullRequests) Refresh(ctx context.Context, dir string) (delivery.Refreshed, ReactionResult, error) {
	seen, err := s.Remote().Refresh(ctx, dir)
	if err != nil {
		return seen, ReactionResult{}, err
	}
	done, err := s.React(ctx, seen.Open)
	return seen, done, err
}

// React begins a run for each pull request that checks or reviewers find wanting, one for all that they found: the input of a
// run holds what it was begun for, which is not a reason for another run. Without delivery.react it only notes what is wrong.
func (s PullRequests) React(ctx context.Context, open []delivery.OpenPR) (out ReactionResult, err error) {
	for _, seen := range open {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if err := s.sayMergeable(seen); err != nil {
			return out, err
		}
		if out.Waits = out.Waits || seen.Status.Waits; s.hasNothingToReport(seen) || !s.isLastHolder(seen.Dir) {
			continue
		}
		begun, note, err := s.reactTo(ctx, seen, false)
		if runlock.Busy(err) {
			continue // another process works on it: try at the next check
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return out, err
		case err != nil:
			note = err.Error()
		case begun:
			out.Begun, out.Why = append(out.Begun, seen.Dir), append(out.Why, note)
			note = ""
		}
		if note != "" {
			out.Notes = append(out.Notes, filepath.Base(seen.Dir)+": "+note)
		}
	}
	return out, nil
}

// sayMergeable calls Mergeable with a task whose pull request can be merged as it is.
func (s PullRequests) sayMergeable(seen delivery.OpenPR) error {
	st := seen.Status
	if s.Mergeable == nil || seen.PR.HeadSHA == "" || st.Review != forge.Approved || st.Checks != forge.Passed || st.Waits || len(st.Wanted) > 0 {
		return nil
	}
	t, err := s.Store.Load(seen.Dir)
	if err == nil && t.Status == trellis.Review {
		s.Mergeable(t, seen.PR.HeadSHA)
	}
	return err
}

// hasNothingToReport reports whether there is nothing to do or to report about a pull request, and was nothing before.
func (s PullRequests) hasNothingToReport(seen delivery.OpenPR) bool {
	if len(seen.Status.Failed)+len(seen.Status.Wanted) > 0 {
		return false
	}
	t, err := s.Store.Load(seen.Dir)
	pull, perr := delivery.ReadPull(seen.Dir)
	h, herr := journal.Read(filepath.Join(seen.Dir, taskdir.Run))
	return errors.Join(err, perr, herr) == nil && t.Pipeline.Failure.Code == "" && pull != nil && pull.Note == "" && h.Ended
}

// reactTo begins the run for one pull request, and returns in note what the run is for, or why none is begun. asked: a person
// wants the run, whatever the settings say, also for findings that had a run before, and with as many rounds again.
func (s PullRequests) reactTo(ctx context.Context, pr delivery.OpenPR, asked bool) (begun bool, note string, err error) {
	j, err := s.open(ctx, pr.Dir, nil, nil)
	if err != nil {
		return false, "", err
	}
	defer j.Close()
	h := j.History()
	t, err := s.Store.Load(pr.Dir)
	if err != nil || t.Status != trellis.Review || h.Flow != pipeline.Flow {
		return false, "", err // its run was elsewhere, or the task went on meanwhile
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return false, "", err
	}
	if !h.Ended && p.React == nil {
		return false, "its delivery was cut off; next: trellis deliver " + trellis.ShellWord(t.ID), nil
	}
	if !h.Ended {
		return true, p.React.Detail, s.states().reopenReview(pr.Dir, p)
	}
	r := reaction{PullRequests: s, pr: pr, task: t, past: p, asked: asked, found: delivery.NewFindings(pr, p.Reactions, asked)}
	noted := delivery.ReactionState{Reacted: p.Reactions.Seen, Rounds: p.Reactions.Rounds}
	begun, note, err = r.begin(ctx, j)
	switch {
	case err != nil:
		noted.Note = err.Error()
	case begun:
		note = r.found.Detail()
		now := r.found.Reactions()
		noted = delivery.ReactionState{Note: "a run was begun for it: " + note, Reacted: now.Seen, Rounds: now.Rounds}
	default:
		noted.Note = note
	}
	return begun, note, errors.Join(err, delivery.NotePull(s.Disk, pr.Dir, noted))
}

// reaction decides what to do about the findings for one open pull request.
type reaction struct {
	PullRequests
	pr    delivery.OpenPR
	task  *taskdir.Task
	past  pipeline.Progress
	asked bool
	found *delivery.Findings
}

// nothingNew is appended to findings for which a run was begun before.
const nothingNew = ": a run was begun for that before, and there is nothing new"

// begin begins a run if there is something to react to. Otherwise it returns why not.
func (r *reaction) begin(ctx context.Context, j *journal.Run) (begun bool, note string, err error) {
	if r.found.IsEmpty() {
		return false, "", r.clearFailure()
	}
	if r.pr.Status.Waits && !r.asked || r.past.Outcome != trellis.Delivered {
		return false, "", nil // wait until all checks have finished
	}
	wrong := r.found.Detail()
	switch limit := r.Config.Limits.Rounds; {
	case len(r.found.New()) == 0:
		return false, wrong + nothingNew, nil
	case !r.Config.Delivery.React && !r.asked:
		return false, wrong + ": delivery.react is off, so nobody works on it unless you run trellis retry " + trellis.ShellWord(r.task.ID), nil
	case r.unpushed():
		return false, wrong + ": a newer commit was verified and is not pushed; next: trellis deliver " + trellis.ShellWord(r.task.ID), nil
	case r.past.Reactions.Rounds >= max(1, limit) && !r.asked:
		note = wrong + fmt.Sprintf(": %s used for its pull request (limits.rounds: %d), so it is up to you: push to its branch, or trellis retry %s grants as many again", rounds(r.past.Reactions.Rounds), limit, trellis.ShellWord(r.task.ID))
		return false, note, r.setFailure(r.task, r.found.Code(), note)
	}
	return r.run(ctx, j)
}

func (r *reaction) run(ctx context.Context, j *journal.Run) (begun bool, note string, err error) {
	f, err := r.Remote().Forge(ctx, r.task)
	if err != nil {
		return false, "", err
	}
	d, err := f.Details(ctx, r.pr.PR.URL)
	if err != nil {
		return false, "what is wrong with it could not be read: " + err.Error(), nil
	}
	wrong, asked := r.found.Detail(), r.found.Code() == trellis.ChangesRequested
	switch r.found.AddDetails(d); {
	case len(r.found.New()) > 0:
	case r.found.IsEmpty() && !asked:
		return false, "only checks fail that its base branch does not require", nil
	default:
		return false, wrong + nothingNew, nil
	}
	head, err := r.follow(ctx)
	if err != nil {
		return false, "", err
	}
	if head == "" {
		return false, r.found.Detail() + ": somebody pushed to its branch or committed on it, and the worktree can't simply follow: commit what it holds, then trellis deliver " + trellis.ShellWord(r.task.ID) + " brings both together", nil
	}
	h := j.History()
	in, err := r.TaskRunner().input(ctx, r.task, h, r.past, RunOptions{Deliver: true})
	if err != nil {
		return false, "", err
	}
	text, err := r.found.Write(ctx, f, r.Redact, r.Disk, r.pr.Dir, h.Number+1)
	if err != nil {
		return false, "", err
	}
	in.Retries, in.Revision, in.Undelivered = in.Retries+1, max(r.past.Revision, r.task.Pipeline.Revision), nil
	in.React = &pipeline.React{Code: r.found.Code(), Detail: r.found.Detail(), Text: text, Head: head, Base: r.past.Report.Base, Stacked: r.past.Report.Stacked, Agent: r.past.Agent, Session: r.past.Session}
	in.Reactions = r.found.Reactions()
	if err := beginRun(j, in); err != nil {
		return false, "", err
	}
	return true, "", r.states().reopenReview(r.pr.Dir, r.past)
}

// rounds returns n rounds as a subject with its verb.
func rounds(n int) string {
	if n == 1 {
		return "1 round was"
	}
	return fmt.Sprintf("%d rounds were", n)
}

// follow returns the commit at which the pull request is, for the run to start from, or "" if people have to decide. If
// others pushed that commit on top of ours, follow updates the worktree to it.
func (r *reaction) follow(ctx context.Context) (string, error) {
	ours, head := r.past.Report.Commit, r.pr.PR.HeadSHA
	tip, err := r.Repo.Refs().Branch(ctx, r.task.BranchName())
	if err != nil || tip == "" || head == "" {
		return "", err
	}
	if head == ours && tip != ours { // the pull request lacks the commit at tip: the run may continue only if an earlier reaction made it
		own, err := r.Repo.History().FindTrailer(ctx, head, tip, pipeline.TaskTrailer+": "+r.task.ID)
		if err != nil || own != tip {
			return "", err
		}
	}
	if head == ours || head == tip {
		return head, nil
	}
	if len(r.past.Job.Modules) > 0 {
		return "", nil // people have to say at which commits the submodules are
	}
	may := func(ctx context.Context) error { return r.guard().checkPush(ctx, tip, head) }
	there, err := r.Remote().Follow(ctx, r.task, ours, head, pipeline.NeverCommitted(r.past.Job), may)
	if err != nil || !there {
		return "", err
	}
	return head, nil
}

// clearFailure removes what was noted about a pull request that nobody finds wanting any more.
func (r *reaction) clearFailure() error {
	st, code := r.pr.Status, r.task.Pipeline.Failure.Code
	ours := r.past.React != nil || code == trellis.CIFailed || code == trellis.ChangesRequested // otherwise the failure is about something else
	if st.Waits || st.Checks == forge.Failed || !ours || r.unpushed() {
		return nil
	}
	return r.setFailure(r.task, "", "")
}

// unpushed reports whether a commit was verified that the pull request does not contain.
func (r *reaction) unpushed() bool {
	return r.past.HasUndelivered && r.past.Report.Commit != r.pr.PR.HeadSHA
}

// setFailure writes into a task in review what is wrong with it; code "" removes that.
func (s PullRequests) setFailure(t *taskdir.Task, code trellis.Code, detail string) error {
	if old := t.Pipeline.Failure; old.Code == code && old.Detail == detail {
		return nil
	}
	fail := taskdir.Failure{}
	if code != "" {
		fail = taskdir.Failure{Code: code, Detail: detail, At: s.Clock()}
	}
	return s.states().update(t.Dir, func(t *taskdir.Task, e *taskdir.Edit) {
		if t.Status == trellis.Review {
			e.Set("pipeline.failure", fail)
		}
	})
}
