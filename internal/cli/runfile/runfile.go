// Package runfile is `trellis run`: the steps of a file, shown as they run.
package runfile

import (
	"cmp"
	"errors"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/plan"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// Command returns `trellis run`.
func Command(a *command.Console) *cli.Command {
	return &cli.Command{
		Name:      "run",
		Usage:     "run a file of steps in this folder, or resume a run",
		ArgsUsage: "FILE | --resume ID [FILE]",
		Flags: []cli.Flag{
			&cli.StringSliceFlag{Name: "var", Usage: "set a var of the file, as `NAME=VALUE` (repeatable)"},
			&cli.StringFlag{Name: "step", Usage: "run only the step with this `PATH`, such as build or each.2.compile"},
			&cli.StringFlag{Name: "from-step", Usage: "start at the step with this `PATH`"},
			&cli.StringFlag{Name: "to-step", Usage: "stop after the step with this `PATH`"},
			&cli.StringFlag{Name: "resume", Usage: "resume the run with this `ID`"},
			&cli.BoolFlag{Name: "fail-fast", Usage: "start nothing more once a step has failed"},
			&cli.BoolFlag{Name: "dry-run", Usage: "show the steps with their values, without running them"},
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent for steps that name none"},
			command.SharedFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print one JSON object per line for every event"},
		},
		Description: command.Manual(`Runs the steps of a JSON or YAML file: commands, prompts for an agent, groups, loops, other files, waits
for people. The file is read and checked before anything runs, and a copy of it is executed. Scripts and
agents work in the current folder.

--resume ID resumes a run that was interrupted or waits: no finished step runs again. In a run that failed,
the steps that did not succeed run. With FILE or other flags, the new request applies, and steps that have not
changed keep their results. The id is the last line on standard output; on a terminal it is shown
earlier, and you are asked at once about a step that waits for a person.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitWaiting, command.ExitNotFound, command.ExitLocked, command.ExitNoAgent, command.ExitTimeout, command.ExitInterrupted},
			"trellis run release.yaml --var version=1.2", "trellis run release.yaml --dry-run", "trellis run --resume 260201-090503-k3fq"),
		Action: func(c *cli.Context) error {
			if c.Bool("dry-run") {
				return dryRun(a, c)
			}
			return a.Guarded(func() error { return run(a, c) })
		},
	}
}

// readCall returns the project and what the flags ask for. Without a file, Bundle is nil.
func readCall(a *command.Console, c *cli.Context) (p *app.Project, o runner.FileOptions, err error) {
	file, resume := c.Args().First(), c.IsSet("resume")
	switch {
	case file == "" && !resume:
		return nil, o, command.MissingArgument(c)
	case file == "" && c.IsSet("var"):
		return nil, o, app.WithHints(app.Usagef("--var goes with FILE: the run has the values that it began with"), "trellis run --resume "+trellis.ShellWord(c.String("resume"))+" FILE --var …")
	}
	if p, err = a.Open(c.Context); err != nil {
		return nil, o, err
	}
	o = runner.FileOptions{Agent: c.String("agent"), Steps: workflow.Options{Dir: a.Dir, Only: c.String("step"), From: c.String("from-step"), To: c.String("to-step"), FailFast: c.Bool("fail-fast")}}
	if file == "" {
		return p, o, nil
	}
	given, err := vars(c.StringSlice("var"))
	if err != nil {
		return nil, o, err
	}
	var problems []trellis.Problem
	o.File = a.Path(file)
	o.Bundle, problems = runner.LoadFile(o.File, file, given)
	if o.Bundle == nil {
		next := "fix it, then trellis run " + trellis.ShellWord(file) + " --dry-run, which runs nothing"
		return nil, o, command.WithProblems(a, app.WithHints(app.Usagef("%s can't be run", file), next), problems, a.SayProblems)
	}
	a.SayProblems(problems)
	return p, o, nil
}

func vars(list []string) (map[string]string, error) {
	given := map[string]string{}
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok || name == "" {
			return nil, app.Usagef("--var %s: write NAME=VALUE", kv)
		}
		given[name] = value
	}
	return given, nil
}

func run(a *command.Console, c *cli.Context) error {
	p, o, err := readCall(a, c)
	if err != nil {
		return err
	}
	s, err := a.Site(c, p)
	if err != nil {
		return err
	}
	for id, known := c.String("resume"), false; ; known = true {
		show := newFollowing(a, s, c.Bool("json"))
		show.idKnown = known
		var res runner.FileRun
		if id != "" {
			res, err = s.FileRunner().ResumeFile(c.Context, id, o, show.begin)
		} else {
			res, err = s.FileRunner().RunFile(c.Context, o, show.begin)
		}
		show.Close()
		if err != nil {
			return outcome.FileRunError(a, p, s.FileRunner(), res.ID, err)
		}
		asked := len(res.Waits) > 0 && !res.Interrupted && res.Failure == nil && !c.Bool("json") && a.CanAsk() && !a.InsideRun()
		end := show.end(c.Context, res, asked)
		if !asked {
			return end
		}
		left, err := decide(c.Context, a, p, res)
		if err != nil || left != nil {
			res.Waits = left
			return cmp.Or(err, sayAnswers(a, res), end)
		}
		id, o = res.ID, runner.FileOptions{} // with the options that the run began with
	}
}

func dryRun(a *command.Console, c *cli.Context) error {
	p, o, err := readCall(a, c)
	if err != nil {
		return err
	}
	set, problems := p.Config() // the steps can be shown in spite of errors in the settings
	if err := p.Agents(set).CheckName(o.Agent); err != nil && len(trellis.Errors(problems)) == 0 {
		return outcome.AgentError(err)
	}
	if o.Bundle == nil {
		return app.Usagef("--dry-run needs FILE")
	}
	chosen, err := workflow.Chosen(o.Bundle, o.Steps)
	if fail, ok := errors.AsType[*flow.Failure](err); ok {
		return app.WithHints(app.Usagef("%s", fail.Detail), "trellis run "+trellis.ShellWord(c.Args().First())+" --dry-run")
	}
	lines := []plan.Line{}
	for _, l := range o.Bundle.ResolvedSteps() {
		if chosen(l.Path) {
			lines = append(lines, l)
		}
	}
	return a.Print(c.Bool("json"), lines, func() error { return terminal.Steps(a.Stdout, lines) })
}
