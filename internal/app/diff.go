package app

import (
	"context"
	"fmt"
	"io"

	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// maxDiff is the size limit for the patch of a worktree, in bytes.
const maxDiff = 64 << 20

// Changes lists the files that a task changed, without their contents.
type Changes struct {
	Base  string // the commit at which the task began; "": no work was done for it
	Head  string // the tip of its branch
	Files []git.Change
}

// Diff writes what a task changed against its base, or with stat only the files and how many lines. Until it is gone the
// worktree counts, committed or not; then the branch, or the delivered commit. began is false if no work was done.
func (p *Project) Diff(ctx context.Context, dir string, stat bool, out io.Writer) (began bool, err error) {
	t, err := p.Store.Load(dir)
	if err != nil || t.Pipeline.BaseCommit == "" {
		return false, err
	}
	base := t.Pipeline.BaseCommit
	if worktree := p.Worktree(t); worktree != "" {
		return true, withSnapshot(ctx, p, worktree, func(s *snapshot.Snapshot) error {
			text, err := diffText(ctx, s, base, stat)
			if err == nil && len(text) >= maxDiff { // Diff left out its middle
				err = WithHints(Usagef("the patch of %s has more than %d MB", t.ID, maxDiff>>20), "trellis diff "+trellis.ShellWord(t.ID)+" --stat", "git -C "+trellis.ShellWord(worktree)+" diff "+base)
			}
			if err == nil {
				_, err = io.WriteString(out, text)
			}
			return err
		})
	}
	end, err := lastCommit(ctx, p, t)
	if err != nil {
		return true, err
	}
	return true, p.Repo.History().Diff(ctx, base, end, stat, out)
}

// Changes returns the files that a task changed, from the worktree or the branch as Diff does.
func (p *Project) Changes(ctx context.Context, dir string) (c Changes, err error) {
	t, err := p.Store.Load(dir)
	if err != nil || t.Pipeline.BaseCommit == "" {
		return c, err
	}
	c.Base = t.Pipeline.BaseCommit
	if worktree := p.Worktree(t); worktree != "" {
		if c.Head, err = p.Repo.Refs().Head(ctx, worktree); err != nil {
			return c, err
		}
		return c, withSnapshot(ctx, p, worktree, func(s *snapshot.Snapshot) (err error) {
			c.Files, err = s.Changes(ctx, c.Base)
			return err
		})
	}
	if c.Head, err = lastCommit(ctx, p, t); err == nil {
		c.Files, err = p.Repo.History().ChangesBetween(ctx, c.Base, c.Head)
	}
	return c, err
}

// lastCommit returns the last commit of a task without a worktree. A worktree that git can't read any more is an error.
func lastCommit(ctx context.Context, p *Project, t *taskdir.Task) (string, error) {
	if t.WorktreePath != "" {
		if err := p.Repo.Worktrees().CheckGitFile(ctx, t.WorktreePath); err != nil {
			return "", err
		}
	}
	if t.Pipeline.Outcome == trellis.NoChangeNeeded {
		return t.Pipeline.BaseCommit, nil
	}
	tip, err := p.Repo.Refs().Branch(ctx, t.Branch)
	if err == nil && tip == "" {
		tip, err = p.Repo.Refs().Find(ctx, t.Commit)
	}
	if err == nil && tip == "" {
		err = WithHints(fmt.Errorf("neither the worktree nor the branch %s of %s is there any more", t.Branch, t.ID), "git for-each-ref refs/trellis/backup")
	}
	return tip, err
}

func withSnapshot(ctx context.Context, p *Project, worktree string, do func(*snapshot.Snapshot) error) error {
	p.Config() // hardens git against what the worktree contains
	s, err := snapshot.New(p.Repo).Snapshot(ctx, worktree, ".trellis/tasks", ".trellis/.runtime", ".trellis/.current-task")
	if err != nil {
		return err
	}
	defer s.Close()
	return do(s)
}

func diffText(ctx context.Context, s *snapshot.Snapshot, base string, stat bool) (string, error) {
	if stat {
		return s.DiffStat(ctx, base)
	}
	return s.Diff(ctx, base, maxDiff)
}

// Pager returns the program that the person's git settings name for paging long output, "" for none.
func Pager(ctx context.Context, p *Project) (string, error) {
	return git.UserSetting(ctx, p.Repo, "core.pager")
}
