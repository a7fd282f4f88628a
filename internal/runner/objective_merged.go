package runner

import (
	"context"
	"strings"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// SurveyWorks returns the tasks of objectives in their current state. It first completes those in review that were merged, as
// far as the git repository here knows. With dry, it returns the same and writes nothing.
func (s Objectives) SurveyWorks(ctx context.Context, dry bool) (*roadmap.StepTasks, error) {
	works, err := roadmap.ReadStepTasks(s.Store, false)
	if err != nil {
		return nil, err
	}
	bases := map[string]string{}
	for _, t := range works.InReview() {
		tips, err := s.tips(ctx, t, bases)
		if err != nil {
			return nil, err
		}
		if last, _ := s.shared().reviewed.Load(t.Dir); last == tips {
			continue
		}
		merged, err := s.completeMerged(ctx, t, dry)
		if err != nil {
			return nil, err
		}
		if !merged {
			s.shared().reviewed.Store(t.Dir, tips)
		}
	}
	return works, nil
}

// tips returns the commits at which the branch of a task and its bases are, here and as last seen on the remotes.
func (s Objectives) tips(ctx context.Context, t *taskdir.Task, bases map[string]string) (string, error) {
	tip, err := s.Repo.Refs().Branch(ctx, t.BranchName())
	if err != nil {
		return "", err
	}
	at, known := bases[t.BaseBranch]
	if !known {
		remotes, err := s.Repo.Remotes().Remotes(ctx, t.BaseBranch)
		if err != nil {
			return "", err
		}
		for _, name := range append(remotes, t.BaseBranch) {
			sha, err := s.Repo.Refs().Find(ctx, name)
			if err != nil {
				return "", err
			}
			at += " " + sha
		}
		bases[t.BaseBranch] = at
	}
	return strings.Join([]string{tip, t.Commit, t.Pipeline.BaseCommit, t.BaseBranch, at}, " "), nil
}

// completeMerged completes a task in review whose work is in its base, updates t, and reports whether the work is there. A
// task on which somebody works is completed another time.
func (s Objectives) completeMerged(ctx context.Context, t *taskdir.Task, dry bool) (merged bool, err error) {
	clean := s.PullRequests().Remote().Cleaner
	left, err := clean.LookAt(ctx, t.Dir)
	if err != nil || left.Proof == "" {
		return false, err
	}
	list := []cleanup.Leftover{left}
	if dry {
		list[0].Status = trellis.Completed
	} else if _, err := clean.Completer().CompleteMerged(ctx, list); err != nil {
		return true, err
	}
	if list[0].Status == trellis.Completed {
		t.Status, t.Pipeline.Outcome = trellis.Completed, trellis.Merged
	}
	return true, nil
}
