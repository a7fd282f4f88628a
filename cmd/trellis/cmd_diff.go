package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/trellis-tasks/trellis/taskdir"
	"github.com/urfave/cli/v2"
)

// diffCommand is `trellis diff`.
func (a *app) diffCommand() *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "show what a task changed against its base",
		ArgsUsage: "TASKDIR",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "stat", Usage: "only the files and how much of them"}},
		Description: manual(`While the worktree is there, what is in it counts, committed or not; after that, the branch.`,
			[]int{exitDone, exitFailed, exitUsage, exitNotFound}, "trellis diff 02-01-auth", "trellis diff --stat 02-01-auth"),
		Action: func(c *cli.Context) error {
			p, dir, err := a.taskArgument(c, 1)
			if err != nil {
				return err
			}
			return a.diff(c.Context, p, dir, c.Bool("stat"))
		},
	}
}

func (a *app) diff(ctx context.Context, p *project, dir string, stat bool) error {
	t, err := p.Store.Load(dir)
	if err != nil {
		return err
	}
	if t.Pipeline.BaseCommit == "" {
		a.say("%s has not begun: nothing was changed for it", t.ID)
		return nil
	}
	if worktree := worktreeOf(p, t); worktree != "" {
		return a.diffWorktree(ctx, p, worktree, t.Pipeline.BaseCommit, stat)
	}
	tip, err := p.Repo.Branch(ctx, t.Branch)
	if err != nil {
		return err
	}
	if tip == "" {
		return hint(fmt.Errorf("neither the worktree nor the branch %s of %s is there any more", t.Branch, t.ID), "git for-each-ref refs/trellis/backup")
	}
	return p.Repo.Diff(ctx, t.Pipeline.BaseCommit, tip, stat, a.Stdout)
}

// worktreeOf is the folder that a task's work is in, "" when it is gone.
func worktreeOf(p *project, t *taskdir.Task) string {
	dir := t.WorktreePath
	if dir == "" {
		return ""
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(p.Root, dir)
	}
	if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil {
		return ""
	}
	return dir
}

// maxDiff is the longest patch that is shown whole.
const maxDiff = 64 << 20

func (a *app) diffWorktree(ctx context.Context, p *project, worktree, base string, stat bool) error {
	p.config() // by which git is wary of what is there
	s, err := p.Repo.Snapshot(ctx, worktree, ".trellis/tasks", ".trellis/.runtime", ".trellis/.current-task")
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
	_, err = fmt.Fprint(a.Stdout, text)
	return err
}
