package cli

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/git/snapshot"
	"github.com/trellis-tasks/trellis/internal/terminal"
)

func diffCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "show what a task changed against its base",
		ArgsUsage: "TASKDIR",
		Flags:     []cli.Flag{&cli.BoolFlag{Name: "stat", Usage: "only the files and how much of them"}},
		Description: command.Manual(`While the worktree is there, what is in it counts, committed or not; after that, the branch.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitNotFound}, "trellis diff 02-01-auth", "trellis diff --stat 02-01-auth"),
		Action: a.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			return runDiff(c.Context, a, p, dir, c.Bool("stat"))
		}),
	}
}

func runDiff(ctx context.Context, a *command.Console, p *app.Project, dir string, stat bool) error {
	t, err := p.Store.Load(dir)
	if err != nil {
		return err
	}
	if t.Pipeline.BaseCommit == "" {
		a.Say("%s has not begun: nothing was changed for it", t.ID)
		return nil
	}
	if worktree := p.Worktree(t); worktree != "" {
		return diffWorktree(ctx, a, p, worktree, t.Pipeline.BaseCommit, stat)
	}
	tip, err := p.Repo.Refs().Branch(ctx, t.Branch)
	if err != nil {
		return err
	}
	if tip == "" {
		return app.WithHints(fmt.Errorf("neither the worktree nor the branch %s of %s is there any more", t.Branch, t.ID), "git for-each-ref refs/trellis/backup")
	}
	return writeDiff(a, func(out io.Writer) error { return p.Repo.History().Diff(ctx, t.Pipeline.BaseCommit, tip, stat, out) })
}

// maxDiff is the longest patch that is shown whole.
const maxDiff = 64 << 20

func diffWorktree(ctx context.Context, a *command.Console, p *app.Project, worktree, base string, stat bool) error {
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
	return writeDiff(a, func(out io.Writer) error {
		_, err := io.WriteString(out, text)
		return err
	})
}

// writeDiff has something written to standard output: to a terminal as it can show it, else to the byte, as git apply needs it.
func writeDiff(a *command.Console, write func(io.Writer) error) error {
	if !command.IsTerminal(a.Stdout) {
		return write(a.Stdout)
	}
	safe := &terminal.SafeWriter{W: a.Stdout}
	return errors.Join(write(safe), safe.Close())
}
