package cli

import (
	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/runner"
)

func startCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "start",
		Usage:     "run one task, or go on with it",
		ArgsUsage: "TASKDIR",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "detach", Usage: "run in the background"},
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent for all phases"},
			&cli.BoolFlag{Name: "adopt-branch", Usage: "use the task's branch although it exists and is not the task's"},
			command.SharedFlag(),
			command.JSONFlag(),
		},
		Description: command.Manual(`Takes a task from where it stands to a checked commit on its branch: worktree, implement, rounds of
check and debug until the project's own checks pass, acceptance, commit, report.md. A run that was cut
off goes on where it was. With a live watcher the task is handed over and followed; Ctrl-C then only
stops following. Without one, Ctrl-C ends the agents and leaves the run resumable.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitRejected, command.ExitWaiting, command.ExitNotFound, command.ExitLocked, command.ExitNoAgent, command.ExitTimeout, command.ExitInterrupted, command.ExitTerminated},
			"trellis start 02-03-paging", "trellis start paging --detach"),
		Action: func(c *cli.Context) error {
			if c.Bool("detach") {
				return startDetached(a, c)
			}
			return a.Guarded(func() error { return runStart(a, c) })
		},
	}
}

func runStart(a *command.Console, c *cli.Context) error {
	p, dir, err := a.TaskArgument(c)
	if err != nil {
		return err
	}
	s, err := a.Site(c, p)
	if err != nil {
		return err
	}
	outcome.SayUncommitted(c.Context, a, p)
	show := a.Show(s, c.Bool("json"))
	p.News.Work(s)
	res, err := s.Starter().Start(c.Context, dir, runner.RunOptions{Agent: c.String("agent"), Adopt: c.Bool("adopt-branch")})
	show.Close()
	if err != nil {
		return outcome.RunError(a, p, dir, err)
	}
	return outcome.EndRun(a, p, res, c.Bool("json"))
}
