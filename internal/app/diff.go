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

// maxDiff is the longest patch that is shown whole.
const maxDiff = 64 << 20

// Changes are what a task changed, without the texts.
type Changes struct {
	Base  string // the commit at which it began; "": nothing was done for it
	Head  string // the commit at which its branch is
	Files []git.Change
}

// Diff writes what a task changed against its base, or with stat only the files and how much of them. While the worktree
// is there, what is in it counts, committed or not; after that, the branch, or the commit that was delivered. began is false when nothing was done for it.
func (p *Project) Diff(ctx context.Context, dir string, stat bool, out io.Writer) (began bool, err error) {
	t, err := p.Store.Load(dir)
	if err != nil || t.Pipeline.BaseCommit == "" {
		return false, err
	}
	base := t.Pipeline.BaseCommit
	if worktree := p.Worktree(t); worktree != "" {
		return true, inWorktree(ctx, p, worktree, func(s *snapshot.Snapshot) error {
			text, err := diffText(ctx, s, base, stat)
			if err == nil && len(text) >= maxDiff { // its middle was left out
				err = WithHints(Usagef("the patch of %s has more than %d MB", t.ID, maxDiff>>20), "trellis diff "+trellis.ShellWord(t.ID)+" --stat", "git -C "+trellis.ShellWord(worktree)+" diff "+base)
			}
			if err == nil {
				_, err = io.WriteString(out, text)
			}
			return err
		})
	}
	end, err := tip(ctx, p, t)
	if err != nil {
		return true, err
	}
	return true, p.Repo.History().Diff(ctx, base, end, stat, out)
}

// Changes tells which files a task changed, of the worktree or the branch as Diff does.
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
		return c, inWorktree(ctx, p, worktree, func(s *snapshot.Snapshot) (err error) {
			c.Files, err = s.Changes(ctx, c.Base)
			return err
		})
	}
	if c.Head, err = tip(ctx, p, t); err == nil {
		c.Files, err = p.Repo.History().ChangesBetween(ctx, c.Base, c.Head)
	}
	return c, err
}

// tip is where the branch of a task ends, or ended, that has no worktree any more. One that git can't read is no reason to leave out what is in it.
func tip(ctx context.Context, p *Project, t *taskdir.Task) (string, error) {
	if t.WorktreePath != "" {
		if err := p.Repo.Worktrees().Unlinked(ctx, git.AbsFrom(p.Root, t.WorktreePath)); err != nil {
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

func inWorktree(ctx context.Context, p *Project, worktree string, do func(*snapshot.Snapshot) error) error {
	p.Config() // by which git is wary of what is there
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

// Pager is the program that the person's git settings name for what is long, "" for none.
func Pager(ctx context.Context, p *Project) (string, error) {
	return git.UserSetting(ctx, p.Repo, "core.pager")
}
