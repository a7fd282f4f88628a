package runner

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/runlock"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Reacted is what came of a look at open pull requests.
type Reacted struct {
	Begun []string // directories of tasks that have a run to go on with now
	Why   []string // what for, of each
	Notes []string // what is to be said of others
	Waits bool     // some check is not at its end
}

// fetchWall is the time that a remote has to answer.
const fetchWall = time.Minute

func (s *Site) Remote() *delivery.Remote {
	clean := &delivery.Cleaner{Store: s.Store, Repo: s.Repo, Folder: s.Config.Worktree.Dir, Copied: s.Config.Worktree.Copy, Now: s.Clock}
	return &delivery.Remote{Cleaner: clean, Forge: &github.Client{Dir: s.Repo.Main, Env: s.Environ}, Disk: s.Disk, Wall: fetchWall}
}

// Refresh asks the remote what became of the work in review, in dir or with "" of all, and reacts to it.
func (s *Site) Refresh(ctx context.Context, dir string) (delivery.Refreshed, Reacted, error) {
	seen, err := s.Remote().Refresh(ctx, dir)
	if err != nil {
		return seen, Reacted{}, err
	}
	done, err := s.React(ctx, seen.Open)
	return seen, done, err
}

// react begins a run for each pull request that checks or reviewers find wanting, once for all that they found: what a
// run was begun for stands in its input, and is no reason for another one. Without delivery.react it only notes what is
// wrong.
func (s *Site) React(ctx context.Context, open []delivery.Seen) (out Reacted, err error) {
	for _, seen := range open {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if err := s.sayMergeable(seen); err != nil {
			return out, err
		}
		if out.Waits = out.Waits || seen.Standing.Waits; s.quiet(seen) {
			continue
		}
		begun, note, err := s.reactTo(ctx, seen, false)
		if runlock.Busy(err) {
			continue // somebody is at work on it: another time
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

// sayMergeable shows a task whose pull request can be merged as it is.
func (s *Site) sayMergeable(seen delivery.Seen) error {
	st := seen.Standing
	if s.Mergeable == nil || seen.PR.HeadSHA == "" || st.Review != github.Approved || st.Checks != github.Passed || st.Waits || len(st.Wanted) > 0 {
		return nil
	}
	t, err := s.Store.Load(seen.Dir)
	if err == nil && t.Status == trellis.Review {
		s.Mergeable(t, seen.PR.HeadSHA)
	}
	return err
}

// quiet reports whether there is nothing to do or to say about a pull request, and was not before.
func (s *Site) quiet(seen delivery.Seen) bool {
	if len(seen.Standing.Failed)+len(seen.Standing.Wanted) > 0 {
		return false
	}
	t, err := s.Store.Load(seen.Dir)
	pull, perr := delivery.ReadPull(seen.Dir)
	h, herr := journal.Read(filepath.Join(seen.Dir, taskdir.Run))
	return errors.Join(err, perr, herr) == nil && t.Pipeline.Failure.Code == "" && pull != nil && pull.Note == "" && h.Ended
}

// reactTo begins the run for one of them, and says what for, or why there is none to begin. asked: a person wants it.
func (s *Site) reactTo(ctx context.Context, seen delivery.Seen, asked bool) (begun bool, note string, err error) {
	j, err := s.open(seen.Dir, nil, nil)
	if err != nil {
		return false, "", err
	}
	defer j.Close()
	h := j.History()
	t, err := s.Store.Load(seen.Dir)
	if err != nil || t.Status != trellis.Review || h.Flow != pipeline.Flow {
		return false, "", err // whoever brought it here did so elsewhere, or it went on meanwhile
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil {
		return false, "", err
	}
	if !h.Ended && p.React == nil {
		return false, "its delivery was cut off: trellis deliver " + t.ID, nil
	}
	if !h.Ended {
		begun, err := s.cutOff(seen.Dir, h)
		return begun, p.React.Detail, err
	}
	r := reaction{s: s, seen: seen, task: t, past: p, asked: asked}
	note, err = r.begin(ctx, j, h)
	begun = err == nil && len(r.names) > 0 && note == ""
	noted := delivery.Noted{Reacted: p.Reactions.Seen, Rounds: p.Reactions.Rounds, Note: note}
	if begun {
		note = r.detail()
		now := r.reactions()
		noted.Note, noted.Reacted, noted.Rounds = "a run was begun for it: "+note, now.Seen, now.Rounds
	}
	if err != nil {
		noted.Note = err.Error()
	}
	return begun, note, errors.Join(err, delivery.NotePull(s.Disk, seen.Dir, noted))
}

// reaction is what is made of one open pull request.
type reaction struct {
	s    *Site
	seen delivery.Seen
	task *taskdir.Task
	past pipeline.Progress
	// asked: whatever the settings say, also for what there was a run for, and with as many rounds again.
	asked bool

	checks  []github.Check
	reviews []github.Review
	remarks []github.Remark
	names   []string // of all that, where there was no reaction to it
}

// begin begins a run when there is something to react to; its names are set then. Else it says why there is none.
func (r *reaction) begin(ctx context.Context, j *journal.Run, h *journal.History) (note string, err error) {
	st := r.seen.Standing
	r.checks, r.reviews = st.Failed, slices.DeleteFunc(slices.Clone(st.Wanted), func(v github.Review) bool { return !v.Trusted })
	if len(r.checks)+len(r.reviews) == 0 {
		return "", r.well(st)
	}
	if st.Waits && !r.asked || r.past.Outcome != trellis.Delivered {
		return "", nil // until all have said what they have to say
	}
	wrong := r.detail()
	r.name()
	switch limit := r.s.Config.Limits.Rounds; {
	case len(r.names) == 0:
		return wrong + ": a run was begun for that before, and there is nothing new", nil
	case !r.s.Config.Delivery.React && !r.asked:
		return r.not(wrong + ": delivery.react is off, so nobody works on it unless you say trellis retry " + r.task.ID)
	case r.unpushed():
		return r.not(wrong + ": a newer commit was verified and is not pushed: trellis deliver " + r.task.ID)
	case r.past.Reactions.Rounds >= max(1, limit) && !r.asked:
		note, _ = r.not(wrong + fmt.Sprintf(": %s used for its pull request (limits.rounds: %d), so it is yours to look at: push to its branch, or trellis retry %s grants as many again", rounds(r.past.Reactions.Rounds), limit, r.task.ID))
		return note, r.s.leave(r.task, r.code(), note)
	}
	return r.run(ctx, j, h)
}

// not is a note for which nothing is begun.
func (r *reaction) not(note string) (string, error) {
	r.names = nil
	return note, nil
}

// run begins the run.
func (r *reaction) run(ctx context.Context, j *journal.Run, h *journal.History) (note string, err error) {
	d, err := r.s.Remote().Forge.Details(ctx, r.seen.PR.URL)
	if err != nil {
		return r.not("what is wrong with it could not be read: " + err.Error())
	}
	if r.choose(d); len(r.names) == 0 {
		return "only checks fail that its base branch does not require", nil
	}
	head, err := r.follow(ctx)
	if err != nil {
		return "", err
	}
	if head == "" {
		return r.not(r.detail() + ": somebody pushed to its branch or committed on it, and the worktree can't simply follow: commit what it holds, then trellis deliver " + r.task.ID + " brings both together")
	}
	in, err := r.s.TaskRunner().input(ctx, r.seen.Dir, h, r.past, RunOptions{Deliver: true})
	if err != nil {
		return "", err
	}
	text, err := r.tell(ctx, h.Number+1)
	if err != nil {
		return "", err
	}
	in.Retries, in.Revision, in.Undelivered = in.Retries+1, max(r.past.Revision, r.task.Pipeline.Revision), nil
	in.React = &pipeline.React{Code: r.code(), Detail: r.detail(), Text: text, Head: head, Base: r.past.Report.Base, Stacked: r.past.Report.Stacked, Agent: r.past.Agent, Session: r.past.Session}
	in.Reactions = r.reactions()
	if err := r.s.TaskRunner().beginRun(j, h, r.seen.Dir, in); err != nil {
		return "", err
	}
	return "", r.s.resume(r.seen.Dir, r.past)
}

// reactions are those that the task had, with this one.
func (r *reaction) reactions() pipeline.Reactions {
	all := pipeline.Reactions{Seen: slices.Clone(r.past.Reactions.Seen), Rounds: r.past.Reactions.Rounds}
	for _, name := range r.names {
		if !slices.Contains(all.Seen, name) {
			all.Seen = append(all.Seen, name)
		}
	}
	if r.asked {
		all.Rounds = 0
	}
	return all
}

// rounds is a number of rounds and what became of them, in words.
func rounds(n int) string {
	if n == 1 {
		return "1 round was"
	}
	return fmt.Sprintf("%d rounds were", n)
}

// follow is the commit on which the run is to go on, "" when people have to decide: that at which the pull request is.
// Where that is one which others pushed on ours, the worktree follows.
func (r *reaction) follow(ctx context.Context) (string, error) {
	ours, head := r.past.Report.Commit, r.seen.PR.HeadSHA
	tip, err := r.s.Repo.Refs().Branch(ctx, r.task.BranchName())
	if err != nil || tip == "" || head == "" {
		return "", err
	}
	if head == ours && tip != ours { // a commit that is not there: only one of an earlier reaction may be gone on with
		own, err := r.s.Repo.History().FindTrailer(ctx, head, tip, pipeline.TaskTrailer+": "+r.task.ID)
		if err != nil || own != tip {
			return "", err
		}
	}
	if head == ours || head == tip {
		return head, nil
	}
	if len(r.past.Job.Modules) > 0 {
		return "", nil // what they are at is for people to say
	}
	may := func(ctx context.Context) error { return r.s.guard().trustedPush(ctx, tip, head) }
	there, err := r.s.Remote().Follow(ctx, r.task, ours, head, pipeline.Outside(r.past.Job), may)
	if err != nil || !there {
		return "", err
	}
	return head, nil
}

// well is the end of what was noted of a pull request that nobody finds wanting any more.
func (r *reaction) well(st github.PRStatus) error {
	code := r.task.Pipeline.Failure.Code
	ours := r.past.React != nil || code == trellis.CIFailed || code == trellis.ChangesRequested // else it says something else
	if st.Waits || st.Checks == github.Failed || !ours || r.unpushed() {
		return nil
	}
	return r.s.leave(r.task, "", "")
}

// unpushed reports whether a commit was verified that the pull request does not have.
func (r *reaction) unpushed() bool {
	return r.past.Undelivered && r.past.Report.Commit != r.seen.PR.HeadSHA
}

// leave has a task in review say what is wrong with it; nothing for code "".
func (s *Site) leave(t *taskdir.Task, code trellis.Code, detail string) error {
	if old := t.Pipeline.Failure; old.Code == code && old.Detail == detail {
		return nil
	}
	fail := taskdir.Failure{}
	if code != "" {
		fail = taskdir.Failure{Code: code, Detail: detail, At: s.Clock()}
	}
	_, err := s.Store.Update(t.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status == trellis.Review {
			e.Set("pipeline.failure", fail)
		}
		return nil
	})
	return err
}

// cutOff reports whether a run was begun for a task in review by a look at its pull request, or by a delivery, that was cut
// off then. The task is in progress after it.
func (s *Site) cutOff(dir string, h *journal.History) (bool, error) {
	if h == nil || h.Flow != pipeline.Flow || h.Ended {
		return false, nil
	}
	p, err := pipeline.ReadProgress(h)
	if err != nil || p.React == nil && !p.Undelivered {
		return false, err
	}
	return true, s.resume(dir, p)
}

// resume makes a task in review one whose run, which is begun, goes on. p is what the run before wrote.
func (s *Site) resume(dir string, p pipeline.Progress) error {
	_, err := s.Store.Update(dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status != trellis.Review {
			return nil
		}
		if t.Pipeline.Revision <= p.Revision {
			e.Set("pipeline.revision", p.Revision+1)
		}
		e.Set("status", trellis.InProgress)
		e.Set("pipeline.outcome", "")
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("pipeline.resume_at", time.Time{})
		return nil
	})
	return err
}
