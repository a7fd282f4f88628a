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
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/taskdir"
)

const deliver flow.Act[DeliverIn, Delivery] = "deliver"

// DeliverySettings is what a delivery should do. The zero value only leaves the branch.
type DeliverySettings struct {
	Push      bool     `json:"push,omitempty"`
	PR        bool     `json:"pr,omitempty"` // implies Push
	Draft     bool     `json:"draft,omitempty"`
	Labels    []string `json:"labels,omitempty"`
	Reviewers []string `json:"reviewers,omitempty"`
	Update    string   `json:"update,omitempty"` // rebase or merge: how the branch follows its base
}

// DeliverIn is a verified commit and what is known about it.
type DeliverIn struct {
	Task    string `json:"task"`
	Job     Job    `json:"job"`
	Report  Report `json:"report"`
	Mends   bool   `json:"mends,omitempty"` // the delivery fixes what was wrong with the pull request
	Title   string `json:"-"`               // subject of the commit
	Summary string `json:"-"`               // prd.md, as it was last taken in
}

// fill adds what is too long for the journal.
func (in *DeliverIn) fill(runDir string) {
	in.Title, _, _ = strings.Cut(message(commitIn{Job: in.Job, Task: in.Task}), "\n")
	if data, err := taskdir.ReadFile(filepath.Join(runDir, "inputs", in.Report.Content), taskdir.PRD); err == nil { // else there is no summary
		in.Summary = string(data)
	}
}

// Delivery is the result of a delivery. Commands do what could not be done for lack of a remote or of gh.
type Delivery struct {
	Remote   string     `json:"remote,omitempty"`
	Pushed   bool       `json:"pushed,omitempty"`
	PRURL    string     `json:"pr_url,omitempty"`
	Number   int        `json:"number,omitempty"`
	Modules  []ModulePR `json:"modules,omitempty"`
	Commands []string   `json:"commands,omitempty"`
	Notes    []string   `json:"notes,omitempty"`
}

// ModulePR is the pull request of the work in a submodule.
type ModulePR struct {
	Path   string `json:"path"`
	URL    string `json:"pr_url"`
	Number int    `json:"number"`
}

// deliver pushes the branch and opens the pull request, as far as that is wanted. It is tried again while the failure may be
// temporary.
func (r *run) deliver(f flow.Flow) error {
	if r.in.Code < 3 || !r.job.Delivery.Push && !r.job.Delivery.PR {
		return nil
	}
	if err := r.enter(f, "deliver"); err != nil {
		return err
	}
	r.rep.Rounds = r.round
	for wait := backoff; ; wait = min(2*wait, maxBackoff) {
		done, err := deliver.Do(f, DeliverIn{Task: r.in.Task, Job: r.job, Report: r.rep.trimmed(), Mends: r.in.React != nil})
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

// Delays before a delivery is tried again, as with agent calls. A server may ask for a longer one. If that is longer than
// maxBackoff, the rest is left to people.
const (
	backoff    = 10 * time.Second
	maxBackoff = 5 * time.Minute
)

// deliverer is the effect of deliver.
type deliverer struct {
	place
	send   func(context.Context, flow.Call, DeliverIn) (Delivery, error)
	intake *intake
}

// deliver pushes the commit and opens its pull request.
func (v *deliverer) deliver(ctx context.Context, c flow.Call, in DeliverIn) (Delivery, error) {
	in.fill(v.task.runDir)
	return v.send(ctx, c, in)
}

// Drifted names what was changed since a run verified a commit that it could not deliver, "" if nothing was. After a change the
// commit is not delivered as it is.
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
		return "", nil // the worktree is made again from the branch
	}
	snap, err := snapshot.New(v.repo).Snapshot(ctx, in.Report.Worktree, NeverCommitted(j)...)
	if err != nil {
		return "", err
	}
	if snap.Tree != in.Report.Checks.Tree {
		what = "its worktree"
	}
	return what, snap.Close()
}

// Deliverable returns the commit of a task's last run, to be delivered with push and pull request, false if there is none.
func Deliverable(runDir string, cfg *config.Config, task string, p Progress) (DeliverIn, bool) {
	if p.Report == nil || p.Report.Commit == "" {
		return DeliverIn{}, false
	}
	in := DeliverIn{Task: task, Job: p.Job, Report: *p.Report}
	in.Job.Delivery = deliverySettings(cfg, true)
	in.fill(runDir)
	return in, true
}

func pushedTo(d Delivery) string {
	if !d.Pushed {
		return ""
	}
	return d.Remote
}
