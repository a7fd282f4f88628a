package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	gitupdate "github.com/trellis-tasks/trellis/internal/git/update"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const probe flow.Act[probeIn, []string] = "probe" // returns notes on work in review that conflicts with this task's

type probeIn struct {
	Task string `json:"task"`
	Job  Job    `json:"job"`
}

// probe notes which work in review conflicts with this task's, so that whoever merges knows before.
func (r *run) probe(f flow.Flow) error {
	if r.in.Code < 4 || r.job.Delivery.Update == "" {
		return nil
	}
	notes, err := probe.Do(f, probeIn{r.in.Task, r.job})
	r.rep.note(notes)
	return err
}

// upstream finds out how the base of a task has moved on.
type upstream struct {
	place
	bases bases.Finder
	trust *trustJudge
}

// Behind says why delivered work, whose branch now ends in tip, has to be brought up to its base before it is delivered again, ""
// if it does not. With fetch, the remote is fetched from first.
func (u *upstream) Behind(ctx context.Context, in DeliverIn, tip string, fetch bool) (string, error) {
	j := in.Job
	if j.Delivery.Update == "" {
		return "", nil
	}
	if within, err := u.repo.History().IsAncestor(ctx, in.Report.Commit, tip); err != nil || !within {
		return "", err
	}
	next, _, err := u.nextBase(ctx, j, fetch)
	if err != nil || next.Commit == "" || next.Commit == j.BaseCommit {
		return "", err
	}
	if held, err := u.repo.History().IsAncestor(ctx, next.Commit, tip); err != nil || held {
		return "", err
	}
	if why, err := u.trust.distrustReason(ctx, next); err != nil || why != "" {
		return "", err
	}
	return fmt.Sprintf("%s moved on to %.12s: the branch is brought up to it first (delivery.update: %s), and checked again", next.Branch, next.Commit, j.Delivery.Update), nil
}

// updateRecord returns what an update records: the task that the new base belongs to, and what both sides did, in case they conflict.
func (u *upstream) updateRecord(ctx context.Context, tip string, next bases.Base) (string, error) {
	theirs, err := u.repo.History().Subjects(ctx, tip, next.Commit, maxSubjects)
	if err != nil {
		return "", err
	}
	ours, err := u.repo.History().Subjects(ctx, next.Commit, tip, maxSubjects)
	if err != nil {
		return "", err
	}
	commits := fmt.Sprintf("%s is at %.12s. What it has and this task had not:\n%s\nWhat this task has:\n%s", next.Branch, next.Commit, theirs, ours)
	text, err := json.Marshal(pendingUpdate{next.On, text.Cut(commits, 4<<10)})
	return string(text), err
}

// maxSubjects is how many commits of each side are listed for a conflict.
const maxSubjects = 10

// byMerge is the value of delivery.update with which a branch is merged with its base instead of rebased onto it.
const byMerge = "merge"

// fetchLimit is how long fetching from a remote may take.
const fetchLimit = time.Minute

// nextBase returns the commit that the work should be based on. If there is none, its Commit is "" and notes say why. With fetch,
// the remote is fetched from first.
func (u *upstream) nextBase(ctx context.Context, j Job, fetch bool) (next bases.Base, notes []string, err error) {
	next = bases.Base{Branch: j.BaseBranch}
	if next.Commit, notes, err = u.baseTip(ctx, j, fetch); err != nil || next.Commit == "" || j.StackedOn == "" {
		return next, notes, err
	}
	t, why := u.bases.Find(j.StackedOn)
	if why != "" {
		return bases.Base{}, append(notes, "the work stays on the branch of "+j.StackedOn+": "+why), nil
	}
	tip, err := u.repo.Refs().Branch(ctx, t.BranchName())
	if err != nil {
		return bases.Base{}, notes, err
	}
	if merged, err := u.bases.ContainsWork(ctx, t, tip, next); err != nil || merged {
		return next, notes, err
	}
	if t.Status != trellis.Review && t.Status != trellis.Completed || tip == "" {
		return bases.Base{}, append(notes, fmt.Sprintf("the work stays where it began: %s, on whose branch that was, is %s and not merged", t.ID, t.Status)), nil
	}
	return bases.Base{Branch: t.BranchName(), Commit: tip, On: j.StackedOn}, notes, nil
}

// baseTip returns the tip of the base branch: that of the remote if the branch is pushed there and contains the local one.
func (u *upstream) baseTip(ctx context.Context, j Job, fetch bool) (tip string, notes []string, err error) {
	remote := ""
	if j.Delivery.Push {
		if remote, err = u.repo.Remotes().Remote(ctx, j.BaseBranch); err != nil {
			return "", nil, err
		}
	}
	if fetch && remote != "" { // first, since the base branch may be one that follows the remote
		if err := u.repo.Remotes().Fetch(ctx, remote, fetchLimit); ctx.Err() != nil {
			return "", nil, context.Cause(ctx)
		} else if err != nil {
			notes = append(notes, fmt.Sprintf("what %s has now is not known: %v", remote, err))
		}
	}
	tip, err = u.repo.Refs().Branch(ctx, j.BaseBranch)
	if err == nil && tip == "" {
		tip, err = u.repo.Refs().Resolve(ctx, j.BaseBranch)
	}
	if errors.Is(err, git.ErrNotFound) {
		return "", append(notes, "the base branch "+j.BaseBranch+" is gone: the work stays where it began"), nil
	}
	if err != nil || remote == "" {
		return tip, notes, err
	}
	there, err := u.repo.Refs().Resolve(ctx, remote+"/"+j.BaseBranch)
	if errors.Is(err, git.ErrNotFound) {
		return tip, notes, nil
	}
	if err != nil || there == tip {
		return tip, notes, err
	}
	if ahead, err := u.repo.History().IsAncestor(ctx, tip, there); err != nil || ahead {
		return there, notes, err
	}
	return tip, notes, nil
}

// maxProbed is how many branches in review are checked.
const maxProbed = 20

// probe notes which branches in review conflict with this one. It checks the newest with the same base branch.
func (u *upstream) probe(ctx context.Context, _ flow.Call, in probeIn) (notes []string, err error) {
	list, err := u.store.List()
	if err != nil {
		return nil, err
	}
	slices.Reverse(list)
	own, err := u.repo.Refs().Branch(ctx, in.Job.Branch)
	if err != nil {
		return nil, err
	}
	looked := 0
	for _, e := range list {
		t := e.Task
		if t == nil || t.ID == in.Task || t.Status != trellis.Review || t.BaseBranch != in.Job.BaseBranch || looked == maxProbed || t.ID == in.Job.StackedOn || t.Pipeline.StackedOn == in.Task {
			continue
		}
		tip, err := u.repo.Refs().Branch(ctx, t.BranchName())
		if err == nil && tip == "" {
			continue
		}
		looked++
		var files []string
		if err == nil {
			files, err = gitupdate.New(u.repo).Conflicts(ctx, own, tip)
		}
		switch {
		case errors.Is(err, gitupdate.ErrOldGit):
			return []string{"whether it conflicts with other work in review is not known: " + err.Error()}, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			notes = append(notes, fmt.Sprintf("whether it conflicts with %s is not known: %v", t.ID, err))
		case len(files) > 0:
			if done, err := u.bases.ContainsWork(ctx, t, tip, bases.Base{Commit: in.Job.BaseCommit}); err == nil && done {
				continue // its work is in the base, but its task does not say so yet
			}
			notes = append(notes, fmt.Sprintf("will conflict with %s in %s: merge one first", t.ID, strings.Join(shortList(files), ", ")))
		}
	}
	return notes, nil
}
