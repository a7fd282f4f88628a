package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
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
	return writeDiff(a, func(out io.Writer) error {
		began, err := p.Diff(ctx, dir, stat, out)
		if err == nil && !began {
			a.Say("%s has not begun: nothing was changed for it", filepath.Base(dir))
		}
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
