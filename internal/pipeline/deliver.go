package pipeline

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/taskdir"
)

const deliver flow.Act[DeliverIn, Delivery] = "deliver"

// Delivering is what is wanted of a delivery. The zero value is the branch alone.
type Delivering struct {
	Push      bool     `json:"push,omitempty"`
	PR        bool     `json:"pr,omitempty"` // push, too
	Draft     bool     `json:"draft,omitempty"`
	Labels    []string `json:"labels,omitempty"`
	Reviewers []string `json:"reviewers,omitempty"`
	Update    string   `json:"update,omitempty"` // rebase or merge: the branch follows its base
}

// DeliverIn is a verified commit and what is known of it.
type DeliverIn struct {
	Task    string `json:"task"`
	Job     Job    `json:"job"`
	Report  Report `json:"report"`
	Mends   bool   `json:"mends,omitempty"` // what was wrong with the pull request
	Title   string `json:"-"`               // subject of the commit
	Summary string `json:"-"`               // prd.md, as it was taken in last
}

// fill adds what is too long for a record.
func (in *DeliverIn) fill(runDir string) {
	in.Title, _, _ = strings.Cut(message(commitIn{Job: in.Job, Task: in.Task}), "\n")
	if data, err := taskdir.ReadFile(filepath.Join(runDir, "inputs", in.Report.Content), taskdir.PRD); err == nil { // else it goes without
		in.Summary = string(data)
	}
}

// Delivery is what became of it. What can't be done for want of a remote or of gh is what Commands do.
type Delivery struct {
	Remote   string     `json:"remote,omitempty"`
	Pushed   bool       `json:"pushed,omitempty"`
	PRURL    string     `json:"pr_url,omitempty"`
	Number   int        `json:"number,omitempty"`
	Modules  []ModulePR `json:"modules,omitempty"`
	Commands []string   `json:"commands,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
}

// ModulePR is the pull request of what was done in a submodule.
type ModulePR struct {
	Path   string `json:"path"`
	URL    string `json:"pr_url"`
	Number int    `json:"number"`
}

// deliver pushes the branch and opens the pull request, as far as that is wanted. It is tried again while what keeps it
// from that may pass.
func (r *run) deliver(f flow.Flow) error {
	if r.in.Code < 3 || !r.job.Delivery.Push && !r.job.Delivery.PR {
		return nil
	}
	if err := r.enter(f, "deliver"); err != nil {
		return err
	}
	r.rep.Rounds = r.round
	for wait := backoff; ; wait = min(2*wait, maxBackoff) {
		done, err := deliver.Do(f, DeliverIn{Task: r.in.Task, Job: r.job, Report: r.rep.brief(), Mends: r.in.React != nil})
		fail := (*flow.Failure)(nil)
		switch {
		case err == nil:
			r.rep.Delivery = done
			r.rep.note(done.Notes)
			return nil
		case !errors.As(err, &fail) || !fail.Retryable || fail.ResumeAt.Sub(fail.At) > maxBackoff || !r.countAttempt():
			return err
		}
		if err := f.Sleep(max(wait, fail.ResumeAt.Sub(fail.At))); err != nil {
			return err
		}
	}
}

// How long it is waited before a delivery is tried again, as with calls of agents, and as long as a server asks for. When that is longer, it is
// left to people.
const (
	backoff    = 10 * time.Second
	maxBackoff = 5 * time.Minute
)

// deliverer is the effect of deliver.
type deliverer struct {
	repo   *git.Repo
	send   func(context.Context, flow.Call, DeliverIn) (Delivery, error)
	intake *intake
	task   *taskDir
}

// deliver pushes the commit and opens its pull request.
func (v *deliverer) deliver(ctx context.Context, c flow.Call, in DeliverIn) (Delivery, error) {
	in.fill(v.task.runDir)
	return v.send(ctx, c, in)
}

// Drifted says what was changed since a run verified what it could not deliver: then it is not delivered as it is. "" when
// nothing was.
func (v *deliverer) Drifted(ctx context.Context, in DeliverIn) (what string, err error) {
	j := in.Job
	tip, err := v.repo.Refs().Branch(ctx, j.Branch)
	if err != nil || tip != in.Report.Commit {
		return "its branch " + j.Branch, err
	}
	k, err := v.intake.read(&taskdir.Task{})
	if err != nil || k.hash != in.Report.Content {
		return "what is asked for", err
	}
	if _, err := os.Stat(filepath.Join(in.Report.Worktree, ".git")); in.Report.Worktree == "" || err != nil {
		return "", nil // it is made anew of the branch
	}
	snap, err := snapshot.New(v.repo).Snapshot(ctx, in.Report.Worktree, Outside(j)...)
	if err != nil {
		return "", err
	}
	if snap.Tree != in.Report.Checks.Tree {
		what = "its worktree"
	}
	return what, snap.Close()
}

// Deliverable is the commit of a task's last run, to be delivered with push and pull request. False: there is none.
func Deliverable(runDir string, cfg *config.Config, task string, p Progress) (DeliverIn, bool) {
	if p.Report == nil || p.Report.Commit == "" {
		return DeliverIn{}, false
	}
	in := DeliverIn{Task: task, Job: p.Job, Report: *p.Report}
	in.Job.Delivery = delivering(cfg, true)
	in.fill(runDir)
	return in, true
}

func pushedTo(d Delivery) string {
	if !d.Pushed {
		return ""
	}
	return d.Remote
}
