package cli

import (
	"fmt"
	"os"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/tui"
)

func uiCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:  "ui",
		Usage: "show and control tasks in a full-screen terminal interface",
		Description: command.Manual(`On the left are the tasks by status, on the right the pages of the selected one: now, plan, diff, log, report, proofs.
? shows all keys: n plans, r reviews, a approves, x rejects, s starts, S stops, R retries, c cancels, d delivers, e
edits, o opens a shell in the worktree, q quits. Destructive keys ask first. It runs nothing itself: tasks continue
when it ends. NO_COLOR turns colours off.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitInterrupted}, "trellis ui"),
		Action: func(c *cli.Context) error { return runUI(a, c) },
	}
}

func runUI(a *command.Console, c *cli.Context) error {
	if err := a.RequirePerson("use the terminal UI"); err != nil {
		return err
	}
	in, isFile := a.Stdin.(*os.File)
	if !isFile || !command.IsTerminal(in) || !command.IsTerminal(a.Stdout) || a.Getenv("TERM") == "dumb" {
		return app.WithHints(app.Usagef("this is not a terminal to show the tasks on"), "trellis list")
	}
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	t := tui.Terminal{In: in, Out: command.RawOutput(a.Stdout).(*os.File), Colour: a.Colour(a.Stdout),
		Save: func() (func(), error) { return command.SaveTerminal(in) }}
	return tui.Run(c.Context, p, t, self, a.Dir, a.Now)
}
