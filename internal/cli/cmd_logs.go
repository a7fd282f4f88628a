package cli

import (
	"context"
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/agents"
)

// logsCommand is `trellis logs`.
func logsCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show what was done for a task, agents' words and tools included",
		ArgsUsage: "TASKDIR|RUN",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until the run ends"},
			&cli.StringFlag{Name: "phase", Usage: "only this `PHASE`: implement, check, verify, debug, accept, evaluate, research, …"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object a line"},
		},
		Description: command.Manual(`All runs of the task from the first on. Times are those of this machine.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound, command.ExitInterrupted}, "trellis logs 02-01-auth", "trellis logs -f 02-01-auth", "trellis logs 02-01-auth --phase implement --json"),
		Action: func(c *cli.Context) error {
			if err := checkPhase(c.String("phase")); err != nil {
				return err
			}
			dir, err := logDir(a, c)
			if err != nil {
				return err
			}
			log := &status.Log{Dir: dir, Phase: c.String("phase"), Decode: agents.Decoder}
			return runLogs(c.Context, a, log, c.Bool("follow"), c.Bool("json"))
		},
	}
}

// logDir is the directory whose log is asked for: of a task, or of the run of a file.
func logDir(a *command.Console, c *cli.Context) (string, error) {
	if c.NArg() != 1 {
		return "", command.WrongArguments(c)
	}
	p, err := a.Open(c.Context)
	if err != nil {
		return "", err
	}
	if dir, err := runDir(c.Context, p, c.Args().First()); err != nil || dir != "" {
		return dir, err
	}
	return p.Find(c.Args().First())
}

// followEvery is how often a log that is followed is looked at.
const followEvery = 200 * time.Millisecond

func runLogs(ctx context.Context, a *command.Console, log *status.Log, follow, asJSON bool) error {
	printed := false
	for {
		lines, ended, err := log.Next()
		for _, l := range lines {
			if err := logLine(a, l, asJSON); err != nil {
				return err
			}
			printed = true
		}
		if err != nil {
			return err
		}
		if !follow || ended {
			break
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !printed {
		a.Say("nothing was done for %s yet", filepath.Base(log.Dir))
	}
	return nil
}

func logLine(a *command.Console, l status.Line, asJSON bool) error {
	if !asJSON {
		return terminal.PrintLine(a.Stdout, l, a.Style(a.Stdout))
	}
	e := json.NewEncoder(a.Stdout)
	e.SetEscapeHTML(false)
	return e.Encode(l)
}
