package delivery

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Pull is a pull request as it was when somebody last looked. Its JSON is a contract with scripts.
type Pull struct {
	Number  int      `json:"number"`
	URL     string   `json:"url"`
	State   string   `json:"state"` // draft, open, merged or closed
	Checks  string   `json:"checks"`
	Failing []string `json:"failing"` // names of the checks that failed
	Review  string   `json:"review"`
	At      string   `json:"at"` // when it was looked at; RFC 3339, UTC
	// Modules are the pull requests of submodules, which are to be merged before.
	Modules []ModulePull `json:"submodules"`
	Noted
}

// ModulePull is the pull request of a submodule as it was then.
type ModulePull struct {
	Path    string   `json:"path"`
	Number  int      `json:"number"`
	URL     string   `json:"url"`
	State   string   `json:"state"`
	Checks  string   `json:"checks"`
	Failing []string `json:"failing"`
	Review  string   `json:"review"`
}

// Refreshed is what a look at the remote came to.
type Refreshed struct {
	Completed []string // tasks whose work was merged, and their parents
	Cancelled []string // tasks whose pull request was closed without a merge
	Notes     []string // what could not be found out
	Open      []Seen   // pull requests that are open
	Silent    bool     // gh did not answer, or not to all
}

// Seen is the open pull request of a task in review, and how it stands.
type Seen struct {
	Dir      string // of the task
	PR       *github.PR
	Standing github.PRStatus
}

// Remote asks where the work of tasks is meant to go.
type Remote struct {
	Cleaner *Cleaner
	Forge   *github.Client // nil: git alone is asked
	Disk    *durable.Disk
	Wall    time.Duration // of one fetch
}

// Refresh brings the remote-tracking branches of bases up to date, and the tasks in review to where their work is: merged,
// by git's proof or as their pull request says, or closed. dir is one task, "" all. What can't be reached is a note.
func (r *Remote) Refresh(ctx context.Context, dir string) (out Refreshed, err error) {
	tasks, err := r.inReview(dir)
	if err != nil || len(tasks) == 0 {
		return out, err
	}
	r.fetch(ctx, tasks, &out)
	var list []Leftover
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
	if out.Completed, err = r.Cleaner.Settle(ctx, list); err != nil {
		return out, err
	}
	if err = r.pulls(ctx, list, &out); err == nil {
		err = r.unproven(list, &out)
	}
	return out, err
}

// unproven names the tasks that are in review still, though a base seems to have their work.
func (r *Remote) unproven(list []Leftover, out *Refreshed) error {
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

// fetch asks each remote that a base branch follows, once.
func (r *Remote) fetch(ctx context.Context, tasks []*taskdir.Task, out *Refreshed) {
	bases, asked := map[string]bool{}, map[string]bool{}
	for _, t := range tasks {
		if t.BaseBranch == "" || bases[t.BaseBranch] {
			continue
		}
		bases[t.BaseBranch] = true
		name, err := r.Cleaner.Repo.Remotes().Remote(ctx, t.BaseBranch)
		if err == nil && name != "" && !asked[name] {
			asked[name] = true
			err = r.Cleaner.Repo.Remotes().Fetch(ctx, name, r.Wall)
		}
		if err != nil {
			out.Notes = append(out.Notes, err.Error())
		}
	}
}

// pulls looks at the pull requests of tasks. Without a program to ask, or an account, nothing is known of them.
func (r *Remote) pulls(ctx context.Context, list []Leftover, out *Refreshed) error {
	for _, l := range list {
		if r.Forge == nil || ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if remote, err := r.Cleaner.Repo.Remotes().Remote(ctx, l.Base); err != nil || remote == "" && l.task.PRURL == "" {
			continue
		}
		pr, err := r.Forge.Find(ctx, l.task.BranchName())
		switch {
		case errors.Is(err, github.ErrNoProgram) && l.task.PRURL == "":
			return nil
		case errors.Is(err, github.ErrNoProgram), errors.Is(err, github.ErrNotSignedIn):
			out.Notes, out.Silent = append(out.Notes, err.Error()+": pull requests were not looked at"), true
			return nil
		case err != nil:
			out.Notes, out.Silent = append(out.Notes, fmt.Sprintf("%s: %v", l.ID, err)), true
		case pr != nil:
			if err := r.take(ctx, l, pr, out); err != nil {
				return err
			}
		}
	}
	return nil
}

// take brings a task to where its pull request is. One of an earlier task, whose branch had the same name, is not its.
func (r *Remote) take(ctx context.Context, l Leftover, pr *github.PR, out *Refreshed) error {
	if pr.URL != l.task.PRURL && pr.HeadSHA != l.Tip && pr.HeadSHA != l.task.Commit {
		if pr.State == github.Open {
			out.Notes = append(out.Notes, fmt.Sprintf("%s: pull request %s ends in another commit than its branch", l.ID, pr.URL))
		}
		return nil
	}
	if err := r.keep(ctx, l, pr, out); err != nil {
		return err
	}
	if _, held := holder(l.Dir); held {
		return nil // another time
	}
	switch pr.State {
	case github.Merged:
		done, err := r.Cleaner.complete(l.Dir, pr.URL)
		if err != nil || !done {
			return err
		}
		l.Status = trellis.Completed
		parents, err := r.Cleaner.settle(l)
		out.Completed = append(append(out.Completed, l.ID), parents...)
		return err
	case github.Closed:
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

// keep writes down how a pull request stands.
func (r *Remote) keep(ctx context.Context, l Leftover, pr *github.PR, out *Refreshed) (err error) {
	p := Pull{Number: pr.Number, URL: pr.URL, State: state(pr), Failing: []string{}, At: r.Cleaner.now().UTC().Format(time.RFC3339)}
	if pr.State == github.Open {
		s, err := r.Forge.Status(ctx, pr.Number)
		if err != nil {
			out.Notes, out.Silent = append(out.Notes, fmt.Sprintf("%s: %v", l.ID, err)), true
		} else {
			out.Open = append(out.Open, Seen{l.Dir, pr, s})
		}
		p.Checks, p.Review, p.Failing = s.Checks, s.Review, append(p.Failing, s.Failing...)
	}
	if p.Modules, err = r.modules(ctx, l, out); err != nil {
		return err
	}
	if old, err := ReadPull(l.Dir); err == nil && old != nil && old.URL == p.URL {
		p.Noted = old.Noted
	}
	if _, err := r.Cleaner.Store.RunDir(l.Dir); err != nil {
		return err
	}
	return p.write(r.Disk, l.Dir)
}

// state is that of a pull request, as Pull has it.
func state(pr *github.PR) string {
	if pr.State == github.Open && pr.Draft {
		return "draft"
	}
	return map[string]string{github.Open: "open", github.Merged: "merged", github.Closed: "closed"}[pr.State]
}

// cancel calls a task off whose pull request was closed. Worktree and branch stay.
func (r *Remote) cancel(l Leftover, pr *github.PR, out *Refreshed) error {
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
