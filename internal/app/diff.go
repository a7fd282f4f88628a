package app

import (
	"context"
	"fmt"
	"io"

	"github.com/trellis-tasks/trellis/internal/git/snapshot"
)

// maxDiff is the longest patch that is shown whole.
const maxDiff = 64 << 20

// Diff writes what a task changed against its base, or with stat only the files and how much of them. While the worktree
// is there, what is in it counts, committed or not; after that, the branch. began is false when nothing was done for it.
func (p *Project) Diff(ctx context.Context, dir string, stat bool, out io.Writer) (began bool, err error) {
	t, err := p.Store.Load(dir)
	if err != nil || t.Pipeline.BaseCommit == "" {
		return false, err
	}
	if worktree := p.Worktree(t); worktree != "" {
		return true, p.diffWorktree(ctx, worktree, t.Pipeline.BaseCommit, stat, out)
	}
	tip, err := p.Repo.Refs().Branch(ctx, t.Branch)
	if err != nil {
		return true, err
	}
	if tip == "" {
		return true, WithHints(fmt.Errorf("neither the worktree nor the branch %s of %s is there any more", t.Branch, t.ID), "git for-each-ref refs/trellis/backup")
	}
	return true, p.Repo.History().Diff(ctx, t.Pipeline.BaseCommit, tip, stat, out)
}

func (p *Project) diffWorktree(ctx context.Context, worktree, base string, stat bool, out io.Writer) error {
	p.Config() // by which git is wary of what is there
	s, err := snapshot.New(p.Repo).Snapshot(ctx, worktree, ".trellis/tasks", ".trellis/.runtime", ".trellis/.current-task")
	if err != nil {
		return err
	}
	defer s.Close()
	var text string
	if stat {
		text, err = s.DiffStat(ctx, base)
	} else {
		text, err = s.Diff(ctx, base, maxDiff)
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, text)
	return err
}
