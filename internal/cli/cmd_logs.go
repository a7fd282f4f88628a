package cli

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/status"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

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
			_, dir, _, err := a.TaskOrRun(c)
			if err != nil {
				return err
			}
			log := &status.Log{Dir: dir, Phase: c.String("phase"), Decode: agents.Decoder}
			return runLogs(c.Context, a, log, c.Bool("follow"), c.Bool("json"))
		},
	}
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
	return terminal.JSONLine(a.Stdout, l)
}

// phases are what a log may have of a task or a run: the roles of agents, and what Trellis does itself.
func phases() (names []string) {
	for _, role := range trellis.Roles {
		names = append(names, string(role))
	}
	for _, list := range [][]flow.Activity{planner.Deps{}.Activities(), pipeline.New(pipeline.Deps{Config: new(config.Config)}).Activities(), (&workflow.FileActs{}).Activities(), (&workflow.Acts{}).Activities()} {
		for _, activity := range list {
			if !slices.Contains(names, activity.Name) {
				names = append(names, activity.Name)
			}
		}
	}
	return names
}

func checkPhase(name string) error {
	known := phases()
	if name == "" || slices.Contains(known, name) {
		return nil
	}
	err := app.Usagef("there is no phase %q", name)
	if near := trellis.Nearest(name, known); near != "" {
		return app.WithHints(err, "did you mean "+near+"?")
	}
	return app.WithHints(err, "phases are "+strings.Join(known, ", "))
}
