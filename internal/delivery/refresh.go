package delivery

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/rest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Refreshed is the result of asking remotes and forges about tasks in review.
type Refreshed struct {
	Completed []string // tasks whose work was merged, and their parents
	Cancelled []string // tasks whose pull request was closed without a merge
	Notes     []string // for people: what could not be found out, and what else they should know
	Open      []OpenPR // pull requests that are open
	Silent    bool     // a forge did not answer, or not every request
}

// OpenPR is the open pull request of a task in review.
type OpenPR struct {
	Dir    string // of the task
	PR     *forge.PR
	Status forge.PRStatus
}

// fetchTimeout is the time that a remote has to answer.
const fetchTimeout = time.Minute

// Remote finds out what became of delivered work, at git remotes and forges.
type Remote struct {
	Cleaner *cleanup.Cleaner
	Forges  *Forges // nil: only git remotes are asked
	Disk    *durable.Disk
}

// Refresh fetches the remote-tracking branches of bases, and updates tasks in review: those merged, as git proves or the pull
// request says, and those whose pull request was closed. dir is one task, "" for all. What can't be reached becomes a note.
func (r *Remote) Refresh(ctx context.Context, dir string) (out Refreshed, err error) {
	tasks, err := r.inReview(dir)
	if err != nil || len(tasks) == 0 {
		return out, err
	}
	r.fetch(ctx, tasks, &out)
	var list []cleanup.Leftover
	for _, t := range tasks {
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		l, err := r.Cleaner.LookAt(ctx, t.Dir)
		if err != nil {
			return out, err
		}
		list = append(list, l)
	}
	if out.Completed, err = r.Cleaner.Completer().CompleteMerged(ctx, list); err != nil {
		return out, err
	}
	if err = r.refreshPulls(ctx, list, &out); err == nil {
		err = r.noteUnproven(list, &out)
	}
	return out, err
}

// noteUnproven notes the tasks that are still in review although a base seems to contain their work.
func (r *Remote) noteUnproven(list []cleanup.Leftover, out *Refreshed) error {
	for _, l := range list {
		if l.Named == "" {
			continue
		}
		t, err := r.Cleaner.Store.Load(l.Dir)
		if err != nil {
			return err
		}
		if t.Status == trellis.Review {
			out.Notes = append(out.Notes, l.ID+": "+l.Why)
		}
	}
	return nil
}

func (r *Remote) inReview(dir string) (list []*taskdir.Task, err error) {
	if dir != "" {
		t, err := r.Cleaner.Store.Load(dir)
		if err != nil || t.Status != trellis.Review {
			return nil, err
		}
		return []*taskdir.Task{t}, nil
	}
	entries, err := r.Cleaner.Store.List()
	for _, e := range entries {
		if e.Task != nil && e.Task.Status == trellis.Review {
			list = append(list, e.Task)
		}
	}
	return list, err
}

// fetch fetches from each remote that a base branch follows, once.
func (r *Remote) fetch(ctx context.Context, tasks []*taskdir.Task, out *Refreshed) {
	bases, asked := map[string]bool{"": true}, map[string]bool{"": true}
	for _, t := range tasks {
		if bases[t.BaseBranch] {
			continue
		}
		bases[t.BaseBranch] = true
		name, err := r.Cleaner.Repo.Remotes().Remote(ctx, t.BaseBranch)
		if err == nil && !asked[name] {
			asked[name] = true
			err = r.Cleaner.Repo.Remotes().Fetch(ctx, name, fetchTimeout)
		}
		if err != nil {
			out.Notes = append(out.Notes, err.Error())
		}
	}
}

// remoteForge is the forge of one remote during a single refresh.
type remoteForge struct {
	Forge
	unavailable error // why it gets no more requests, nil if it does
	noted       bool
}

// refreshPulls reads the pull requests of tasks and updates these. Without a program to ask with or an account, those of a remote
// stay unknown. A forge that is busy or silent is asked again in a later refresh. An error with one task doesn't affect the others.
func (r *Remote) refreshPulls(ctx context.Context, list []cleanup.Leftover, out *Refreshed) error {
	forges := map[string]*remoteForge{}
	for _, l := range list {
		if r.Forges == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		remote, err := r.Cleaner.Repo.Remotes().Remote(ctx, l.Base)
		if err != nil || remote == "" && l.Task.PRURL == "" {
			continue
		}
		if forges[remote] == nil {
			f, err := r.Forges.ForRemote(ctx, r.Cleaner.Repo, remote)
			if err != nil {
				out.Notes = append(out.Notes, fmt.Sprintf("%s: %v", l.ID, err))
				continue
			}
			forges[remote] = &remoteForge{Forge: f}
		}
		if err := r.refreshPull(ctx, forges[remote], l, out); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			out.Notes = append(out.Notes, fmt.Sprintf("%s: %v", l.ID, err))
		}
	}
	return nil
}

// refreshPull reads the pull request of one task and updates the task.
func (r *Remote) refreshPull(ctx context.Context, remote *remoteForge, l cleanup.Leftover, out *Refreshed) error {
	pr, err := (*forge.PR)(nil), remote.unavailable
	if err == nil {
		pr, err = remote.Find(ctx, l.Task.BranchName())
	}
	switch {
	case err == nil && pr != nil:
		return r.updateTask(ctx, remote, l, pr, out)
	case err == nil || ctx.Err() != nil:
		return err
	case !forgeUnavailable(err):
		out.Silent = true
		return err
	}
	remote.unavailable = err
	if !remote.noted && (l.Task.PRURL != "" || !errors.Is(err, forge.ErrNoProgramOrToken)) {
		note := err.Error() + ": pull requests were not looked at"
		if errors.Is(err, forge.ErrNoProgramOrToken) || errors.Is(err, forge.ErrNotSignedIn) {
			note += "; next: " + remote.SignInCommand()
		}
		out.Notes, out.Silent, remote.noted = append(out.Notes, note), true, true
	}
	return nil
}

// forgeUnavailable reports whether err means that further requests to the forge are of no use now.
func forgeUnavailable(err error) bool {
	var no *rest.Error
	var of *github.Error
	return pullRequestsUnavailable(err) || errors.Is(err, rest.ErrNoAnswer) || errors.As(err, &no) && no.Busy() || errors.As(err, &of) && of.Unanswered()
}

// Forge returns the forge with the pull request of a task.
func (r *Remote) Forge(ctx context.Context, t *taskdir.Task) (Forge, error) {
	remote, err := r.Cleaner.Repo.Remotes().Remote(ctx, t.BaseBranch)
	if err != nil {
		return nil, err
	}
	return r.Forges.ForRemote(ctx, r.Cleaner.Repo, remote)
}

// updateTask updates a task by the state of pr, unless pr belongs to an earlier task whose branch had the same name.
func (r *Remote) updateTask(ctx context.Context, f Forge, l cleanup.Leftover, pr *forge.PR, out *Refreshed) error {
	if pr.URL != l.Task.PRURL && pr.HeadSHA != l.Tip && pr.HeadSHA != l.Task.Commit {
		if pr.State == forge.Open {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: pull request %s ends in another commit than its branch", l.ID, pr.URL))
		}
		return nil
	}
	if err := r.recordPull(ctx, f, l, pr, out); err != nil {
		return err
	}
	if _, held := cleanup.Holder(l.Dir); held {
		return nil // a later refresh does it
	}
	switch pr.State {
	case forge.Merged:
		done, err := r.Cleaner.Completer().Complete(l, pr.URL)
		out.Completed = append(out.Completed, done...)
		return err
	case forge.Closed:
		return r.cancel(l, pr, out)
	}
	_, err := r.Cleaner.Store.Update(l.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.PRURL == "" {
			e.Set("pr_url", pr.URL)
		}
		return nil
	})
	return err
}

// recordPull records the state of a pull request.
func (r *Remote) recordPull(ctx context.Context, f Forge, l cleanup.Leftover, pr *forge.PR, out *Refreshed) error {
	state, status, err := stateOf(ctx, f, pr)
	unknown := err != nil
	if unknown {
		out.Notes, out.Silent = append(out.Notes, fmt.Sprintf("%s: %v", l.ID, err)), true
	} else if pr.State == forge.Open {
		out.Open = append(out.Open, OpenPR{l.Dir, pr, status})
		if status.Unread != "" {
			out.Notes = append(out.Notes, l.ID+": "+status.Unread)
		}
	}
	p := Pull{PRState: state, At: r.Cleaner.Now().UTC().Format(time.RFC3339)}
	if p.Modules, err = r.modulePulls(ctx, l, out); err != nil {
		return err
	}
	if old, err := ReadPull(l.Dir); err == nil && old != nil && old.URL == p.URL {
		p.ReactionState = old.ReactionState
		if unknown { // keep what was read last
			p.PRState, p.At = old.PRState, old.At
		}
	}
	if _, err := r.Cleaner.Store.RunDir(l.Dir); err != nil {
		return err
	}
	return p.write(r.Disk, l.Dir)
}

// cancel cancels a task whose pull request was closed. Worktree and branch are kept.
func (r *Remote) cancel(l cleanup.Leftover, pr *forge.PR, out *Refreshed) error {
	cancelled := false
	_, err := r.Cleaner.Store.Update(l.Dir, func(t *taskdir.Task, e *taskdir.Edit) error {
		if cancelled = t.Status == trellis.Review; !cancelled {
			return nil
		}
		e.Set("status", trellis.Cancelled)
		e.Set("pipeline.outcome", trellis.OutcomeCancel)
		if t.PRURL == "" {
			e.Set("pr_url", pr.URL)
		}
		return nil
	})
	if cancelled && err == nil {
		out.Cancelled = append(out.Cancelled, l.ID)
	}
	return err
}

// Pulls is like Refresh, but only for tasks that have a pull request, and only by the state of that: nothing is fetched. dir is
// one task, "" for all.
func (r *Remote) Pulls(ctx context.Context, dir string) (out Refreshed, err error) {
	tasks, err := r.inReview(dir)
	if err != nil {
		return out, err
	}
	var list []cleanup.Leftover
	for _, t := range tasks {
		if t.PRURL == "" {
			continue
		}
		l := cleanup.Leftover{Dir: t.Dir, ID: t.ID, Status: trellis.Review, Base: t.BaseBranch, Branch: t.BranchName(), Task: t}
		if l.Tip, err = r.Cleaner.Repo.Refs().Branch(ctx, l.Branch); err != nil {
			return out, err
		}
		list = append(list, l)
	}
	err = r.refreshPulls(ctx, list, &out)
	return out, err
}

// Follow moves the worktree and the branch of a task from the delivered commit to head, where others pushed its pull request
// to, and reports whether they are there. They are left alone if something in the worktree is not committed, or head doesn't
// contain the delivered commit. may, which is called once head is fetched, returns an error if what was pushed must not be
// taken in, and nil if it may.
func (r *Remote) Follow(ctx context.Context, t *taskdir.Task, delivered, head string, outside []string, may func(context.Context) error) (bool, error) {
	repo := r.Cleaner.Repo
	if _, err := repo.Refs().Resolve(ctx, head); errors.Is(err, git.ErrNotFound) {
		name, err := repo.Remotes().Remote(ctx, t.BaseBranch)
		if err == nil {
			err = repo.Remotes().Fetch(ctx, name, fetchTimeout)
		}
		if _, known := repo.Refs().Resolve(ctx, head); err != nil || known != nil {
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	if err := may(ctx); err != nil {
		return false, err
	}
	if !durable.Exists(t.WorktreePath) {
		return false, nil
	}
	return snapshot.NewBackups(repo).Forward(ctx, t.WorktreePath, t.BranchName(), delivered, head, outside...)
}

// modulePulls reads the pull requests that were opened for a task in submodules. Problems with one of them only become notes, since
// no run works on it.
func (r *Remote) modulePulls(ctx context.Context, l cleanup.Leftover, out *Refreshed) ([]ModulePull, error) {
	list := []ModulePull{}
	known, err := ReadRecord(l.Dir)
	if err != nil {
		return list, err
	}
	for _, path := range slices.Sorted(maps.Keys(known.Modules)) {
		p, err := r.modulePull(ctx, l, path)
		switch {
		case ctx.Err() != nil:
			return list, context.Cause(ctx)
		case err != nil:
			out.Notes, out.Silent = append(out.Notes, fmt.Sprintf("%s: the pull request of %s was not looked at: %v", l.ID, path, err)), true
		case p != nil:
			list = append(list, *p)
			if wrong := p.problem(); wrong != "" {
				out.Notes = append(out.Notes, fmt.Sprintf("%s: the pull request of %s, which comes first, %s: %s", l.ID, path, wrong, p.URL))
			}
		}
	}
	return list, nil
}

// modulePull reads the pull request in one submodule, nil if it doesn't exist any more.
func (r *Remote) modulePull(ctx context.Context, l cleanup.Leftover, path string) (*ModulePull, error) {
	m, err := r.Cleaner.Repo.Modules().Module(ctx, l.Task.Commit, path)
	if err != nil {
		return nil, err
	}
	remote, err := m.Remotes().Remote(ctx, l.Base)
	if err != nil {
		return nil, err
	}
	f, err := r.Forges.ForRemote(ctx, m.Repo, remote)
	if err != nil {
		return nil, err
	}
	pr, err := f.Find(ctx, l.Task.BranchName())
	if err != nil || pr == nil {
		return nil, err
	}
	state, _, err := stateOf(ctx, f, pr)
	return &ModulePull{path, state}, err
}

// problem says what keeps the pull request from being merged, "" if nothing is known to.
func (p ModulePull) problem() string {
	switch {
	case p.State == "closed":
		return "was closed without a merge"
	case p.Checks == forge.Failed:
		return "has checks that fail (" + strings.Join(p.Failing, ", ") + ")"
	case p.Review == forge.ChangesWanted:
		return "is to be changed, as its reviewers say"
	}
	return ""
}
