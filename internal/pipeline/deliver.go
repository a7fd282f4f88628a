package pipeline

import (
	"errors"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

type (
	// Delivering is what is wanted of a delivery. The zero value is the branch alone.
	Delivering struct {
		Push      bool     `json:"push,omitempty"`
		PR        bool     `json:"pr,omitempty"` // push, too
		Draft     bool     `json:"draft,omitempty"`
		Labels    []string `json:"labels,omitempty"`
		Reviewers []string `json:"reviewers,omitempty"`
		Update    string   `json:"update,omitempty"` // rebase or merge: the branch follows its base
	}
	// DeliverIn is a verified commit and what is known of it.
	DeliverIn struct {
		Task    string `json:"task"`
		Job     Job    `json:"job"`
		Report  Report `json:"report"`
		Mends   bool   `json:"mends,omitempty"` // what was wrong with the pull request
		Title   string `json:"-"`               // subject of the commit
		Summary string `json:"-"`               // prd.md, as it was taken in last
	}
	// Delivery is what became of it. What can't be done for want of a remote or of gh is what Commands do.
	Delivery struct {
		Remote   string     `json:"remote,omitempty"`
		Pushed   bool       `json:"pushed,omitempty"`
		PRURL    string     `json:"pr_url,omitempty"`
		Number   int        `json:"number,omitempty"`
		Modules  []ModulePR `json:"modules,omitempty"`
		Commands []string   `json:"commands,omitempty"`
		Notes    []string   `json:"notes,omitempty"`
	}
	// ModulePR is the pull request of what was done in a submodule.
	ModulePR struct {
		Path   string `json:"path"`
		URL    string `json:"pr_url"`
		Number int    `json:"number"`
	}
)

// How long it is waited before a delivery is tried again, as with calls of agents.
const (
	backoff    = 10 * time.Second
	maxBackoff = 5 * time.Minute
)

// verified takes up what an earlier run verified and could not deliver, unless something was changed since.
func (r *run) verified(f flow.Flow) (bool, error) {
	was := r.in.Undelivered
	if was == nil {
		return false, nil
	}
	f = f.In("verified")
	content, err := r.observe(f, "deliver")
	if err != nil || content.Hash != was.Content {
		return false, err
	}
	now, err := changed.Do(f, checksIn{Job: r.job})
	if err != nil || now.Tree != was.Checks.Tree {
		return false, err
	}
	rep := *was
	rep.Usage, rep.Attempts, rep.Worktree, rep.Delivery = r.rep.Usage, r.rep.Attempts, r.rep.Worktree, Delivery{}
	r.rep, r.round = rep, rep.Rounds
	return true, nil
}

// handOver pushes the branch and opens the pull request, as far as that is wanted. It is tried again while what keeps it
// from that may pass.
func (r *run) handOver(f flow.Flow) error {
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
			r.note(done.Notes)
			return nil
		case !errors.As(err, &fail) || !fail.Retryable || !r.again():
			return err
		}
		if err := f.Sleep(wait); err != nil {
			return err
		}
	}
}

// undelivered reports whether a run ended with a verified commit that could not be delivered.
func undelivered(in concludeIn) bool {
	if in.Failure == nil || in.Report.Commit == "" {
		return false
	}
	code := trellis.Code(in.Failure.Code)
	return code == trellis.PushFailed || code == trellis.PRFailed
}
