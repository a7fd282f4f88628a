package pipeline

import (
	"context"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/taskdir"
)

// Drifted says what was changed since a run verified what it could not deliver: then it is not delivered as it is. "" when
// nothing was.
func (v *deliverer) Drifted(ctx context.Context, in DeliverIn) (what string, err error) {
	j := in.Job
	tip, err := v.repo.Branch(ctx, j.Branch)
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
	snap, err := v.repo.Snapshot(ctx, in.Report.Worktree, Outside(j)...)
	if err != nil {
		return "", err
	}
	if snap.Tree != in.Report.Checks.Tree {
		what = "its worktree"
	}
	return what, snap.Close()
}
