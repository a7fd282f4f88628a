package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
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
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

func logsCommand(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "logs",
		Usage:     "show the log of a task, with agents' messages and tool calls",
		ArgsUsage: "TASKDIR|RUN",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "follow until the run ends, and into the next one if it is started"},
			&cli.StringFlag{Name: "run", Usage: "only the run with this `NUMBER`, or all (default: the last one; with --json: all)"},
			&cli.IntFlag{Name: "tail", Usage: "only the last `LINES` so far"},
			&cli.StringFlag{Name: "phase", Usage: "only this `PHASE`: implement, check, verify, debug, accept, evaluate, research, …"},
			&cli.BoolFlag{Name: "full", Usage: "show long texts completely"},
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object per line"},
		},
		Description: command.Manual(`Shows the last run of the task; planning counts as one. Times are in this machine's time zone. Of a text with more
than 30 lines it shows the first 20, and the command that shows all of it.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound, command.ExitInterrupted}, "trellis logs 02-01-auth", "trellis logs -f 02-01-auth --tail 20", "trellis logs 02-01-auth --run all", "trellis logs 02-01-auth --phase implement --json"),
		Action: func(c *cli.Context) error { return runLogs(c, a) },
	}
}

// followEvery is the interval at which --follow reads the log.
const followEvery = 200 * time.Millisecond

type logReader struct {
	console    *command.Console
	log        *status.Log
	name       string // of the task or run
	follow     bool
	json       bool
	tail       int         // 0: all
	nextRunDue func() bool // reports whether the next run is about to begin
	out        bytes.Buffer
	text       terminal.LogPrinter // writes to out
}

func runLogs(c *cli.Context, a *command.Console) error {
	if err := checkPhase(c.String("phase")); err != nil {
		return err
	}
	run, err := parseRun(c.String("run"), c.Bool("json"))
	if err != nil {
		return err
	}
	if c.IsSet("tail") && c.Int("tail") < 1 {
		return app.Usagef("--tail needs a number of lines from 1 on")
	}
	p, dir, isRun, err := a.TaskOrRun(c)
	if err != nil {
		return err
	}
	name, whole := filepath.Base(dir), "trellis logs "+trellis.ShellWord(filepath.Base(dir))
	if c.IsSet("run") {
		whole += " --run " + c.String("run")
	}
	l := &logReader{
		console: a, name: name, follow: c.Bool("follow"), json: c.Bool("json"), tail: c.Int("tail"),
		log:  &status.Log{Dir: dir, Run: run, Phase: c.String("phase"), Decode: agents.Decoder},
		text: terminal.LogPrinter{Style: a.Style(a.Stdout), Full: c.Bool("full"), Whole: whole + " --full"},
	}
	l.text.W = &l.out
	l.nextRunDue = func() bool { return !isRun && run <= 0 && nextRunIsDue(p, l.log.Dir) }
	err = l.show(c.Context)
	if none, ok := errors.AsType[*status.NoRunError](err); ok {
		if none.Last == 0 {
			return app.AsKind(app.ErrNotFound, fmt.Errorf("%s: %w", l.name, err))
		}
		return app.WithHints(app.AsKind(app.ErrNotFound, fmt.Errorf("%s: %w", l.name, err)), "trellis logs "+trellis.ShellWord(l.name)+" --run all")
	}
	return err
}

func parseRun(name string, asJSON bool) (int, error) {
	switch {
	case name == "all", name == "" && asJSON:
		return 0, nil
	case name == "":
		return status.LastRun, nil
	}
	n, err := strconv.Atoi(name)
	if err != nil || n < 1 {
		return 0, app.Usagef("--run needs a number, e.g. 2, or all; not %q", name)
	}
	return n, nil
}

// nextRunIsDue reports whether a process works on a task, or a live watcher is about to.
func nextRunIsDue(p *app.Project, dir string) bool {
	t, err := p.Reader().Task(dir)
	if err != nil {
		return false
	}
	return t.HeldBy != nil || t.Status == trellis.Ready && t.Watcher == "alive"
}

func (l *logReader) show(ctx context.Context) error {
	printed := false
	for {
		lines, ended, err := l.log.Next()
		if len(lines) > 0 {
			if err := l.print(lines, !printed); err != nil {
				return err
			}
			printed = true
		}
		if err != nil {
			return err
		}
		if !l.follow || ended && !l.nextRunDue() {
			break
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if !printed {
		l.console.Say("nothing was done for %s yet", filepath.Base(l.log.Dir))
	}
	return nil
}

// print prints lines. With first, the first output of the call, it applies --tail, and counts the earlier runs in a line before.
func (l *logReader) print(lines []status.Line, first bool) error {
	for _, line := range lines {
		if l.json {
			if err := terminal.JSONLine(&l.out, line); err != nil {
				return err
			}
		} else if err := l.text.Print(line); err != nil {
			return err
		}
	}
	if n := l.log.Earlier(); first && n > 0 && !l.json {
		if _, err := fmt.Fprintf(l.console.Stdout, "%s; next: trellis logs %s --run all\n", text.Count(n, "earlier run"), trellis.ShellWord(l.name)); err != nil {
			return err
		}
	}
	if first && l.tail > 0 {
		l.out.Next(lastLinesOffset(l.out.Bytes(), l.tail))
	}
	_, err := l.out.WriteTo(l.console.Stdout)
	return err
}

// lastLinesOffset returns the number of bytes before the last n lines of text.
func lastLinesOffset(text []byte, n int) int {
	at := len(text)
	for range n {
		if at = bytes.LastIndexByte(text[:max(at-1, 0)], '\n') + 1; at == 0 {
			break
		}
	}
	return at
}

// phases returns the phases that the log of a task or a run can have: the roles of agents, and what Trellis does itself.
func phases() []string {
	names := append(trellis.Strings(trellis.Roles), planner.CallOffActivity)
	for _, list := range [][]flow.Activity{planner.Deps{}.Activities(), pipeline.New(pipeline.Deps{Config: new(config.Config)}).Activities(), (&workflow.FileEffects{}).Activities(), (&workflow.Effects{}).Activities()} {
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
