// Package validate has `trellis validate` and related commands, which check tasks, objectives and the project.
package validate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/contextfiles"
	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/ready"
	"github.com/trellis-tasks/trellis/internal/text"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// validations implements the commands that check tasks, objectives and the project.
type validations struct{ *command.Console }

// Command returns `trellis validate`.
func Command(a *command.Console) *cli.Command {
	c := TaskCommand(a)
	c.Usage = "check task directories, and with --all also config and guidelines"
	c.Flags = append([]cli.Flag{&cli.BoolFlag{Name: "all", Usage: "check all tasks that are not archived, config.yaml, guidelines, roles and templates"}}, c.Flags...)
	c.ArgsUsage = "TASKDIR | --all"
	c.Description = command.Manual(`Checks whether a task can be run, and shows every problem with its file, its line, and what to do about it.
During planning a missing file is a warning; of a finished task only task.json is checked.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound}, "trellis validate 02-01-auth", "trellis validate --all --json", "trellis validate 02-01-auth --fix")
	return c
}

func TaskCommand(a *command.Console) *cli.Command {
	cmd := validations{a}
	return &cli.Command{
		Name:      "validate",
		Usage:     "check a task directory",
		ArgsUsage: "TASKDIR",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "fix", Usage: "fix or drop invalid rows of context files, and add missing fields to task.json"},
			command.JSONFlag(),
		},
		Description: command.Manual(`The same as trellis validate TASKDIR.`, []int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound}, "trellis task validate 02-01-auth"),
		Action: func(c *cli.Context) error {
			switch all := c.Bool("all"); {
			case all && c.NArg() > 0:
				return app.Usagef("unexpected argument %q: --all checks every task", c.Args().First())
			case !all && c.NArg() == 0:
				return command.MissingArgument(c)
			}
			return cmd.validate(c.Context, c.Args().First(), validateOptions{all: c.Bool("all"), fix: c.Bool("fix"), json: c.Bool("json")})
		},
	}
}

type validateOptions struct{ all, fix, json bool }

// validation is what validate --json prints.
type validation struct {
	OK       bool              `json:"ok"`
	Checked  []string          `json:"checked"`
	Fixed    []string          `json:"fixed"`
	Problems []trellis.Problem `json:"problems"`
}

func (cmd validations) validate(ctx context.Context, ref string, o validateOptions) error {
	p, err := cmd.Open(ctx)
	if err != nil {
		return err
	}
	v := validation{Checked: []string{}, Fixed: []string{}, Problems: []trellis.Problem{}}
	dirs, err := cmd.directoriesToCheck(p, ref, o)
	if err != nil {
		return err
	}
	if o.all {
		if err := v.project(ctx, p); err != nil {
			return err
		}
	}
	others := new(ready.Neighbours)
	others.Follow()
	able := cmd.agentChecker(ctx, p)
	for _, dir := range dirs {
		if err := cmd.validateTask(ctx, p, dir, others, o, &v); err != nil {
			return err
		}
		for _, problem := range able(dir) {
			if !slices.Contains(v.Problems, problem) { // with --all it may have been found before
				v.Problems = append(v.Problems, problem)
			}
		}
	}
	return cmd.printResult(v, o.json)
}

// agentChecker returns a function that checks whether the agents of a task that is still to begin can be used, each agent once,
// and for tasks that may go on too whether the settings can. A missing agent is a warning, as another machine may have it.
func (cmd validations) agentChecker(ctx context.Context, p *app.Project) func(dir string) []trellis.Problem {
	_, problems := p.Config()
	wrong := trellis.Errors(problems)
	s, err := p.ReadingSite(ctx)
	seen := map[string]bool{}
	return func(dir string) []trellis.Problem {
		t, unread := p.Store.Load(dir)
		if unread != nil || slices.Contains([]trellis.Status{trellis.Review, trellis.Completed, trellis.Rejected, trellis.Cancelled}, t.Status) {
			return nil // errors in task.json are reported elsewhere
		}
		begins := t.Status == trellis.Planning || t.Status == trellis.Ready || t.Status == trellis.Waiting
		if len(wrong) > 0 || err != nil || !begins || seen[t.Pipeline.Agent] {
			return wrong
		}
		seen[t.Pipeline.Agent] = true
		missing := s.Roles().CheckRunners(ctx, t.Pipeline.Agent)
		if missing == nil {
			return nil
		}
		var words *trellis.Problem // in the project's text for a role, which makes every task fail
		if errors.As(missing, &words) {
			return []trellis.Problem{*words}
		}
		found := trellis.Problem{File: p.Store.Rel(filepath.Join(dir, taskdir.TaskJSON)), Line: t.Line("pipeline.agent"), Message: missing.Error(), Hint: "trellis doctor"}
		found.Warning = !errors.Is(missing, agents.ErrUnknown)
		return []trellis.Problem{found}
	}
}

// directoriesToCheck returns the directories to check. Those of planners at work are left out.
func (cmd validations) directoriesToCheck(p *app.Project, ref string, o validateOptions) ([]string, error) {
	if !o.all {
		dir, err := p.Find(ref)
		return []string{dir}, err
	}
	entries, err := p.Store.List()
	var dirs []string
	for _, e := range entries {
		if !e.Planning {
			dirs = append(dirs, e.Dir)
		}
	}
	return dirs, err
}

func (cmd validations) validateTask(ctx context.Context, p *app.Project, dir string, others *ready.Neighbours, o validateOptions, v *validation) error {
	v.Checked = append(v.Checked, p.Store.Rel(dir))
	if o.fix {
		fixed, err := cmd.fix(p, dir)
		if v.Fixed = append(v.Fixed, fixed...); err != nil && !errors.As(err, new(*trellis.Problem)) {
			return err
		}
		others.Changed(dir)
	}
	in := p.Readiness(dir)
	in.Neighbours = others
	problems, err := ready.Check(ctx, in)
	v.Problems = append(v.Problems, problems...)
	return err
}

// shownRow returns a row for a message, almost in full: a row that is dropped may be stored nowhere else.
func shownRow(row string) string { return text.Cut(trellis.VisibleLine(row), 1000) }

// fix mends or drops invalid rows and adds missing fields, and returns what it did.
func (cmd validations) fix(p *app.Project, dir string) (fixed []string, err error) {
	fields, err := p.Store.AddMissing(dir)
	if err != nil {
		return nil, err
	}
	for _, f := range fields {
		fixed = append(fixed, fmt.Sprintf("%s: added %s", p.Store.Rel(filepath.Join(dir, taskdir.TaskJSON)), f))
	}
	names, err := taskdir.ContextFiles(dir)
	if err != nil {
		return fixed, err
	}
	for _, name := range names {
		file := p.Store.Rel(filepath.Join(dir, name))
		var mends []contextfiles.Correction
		err := p.ChangeContext(dir, name, func(data []byte) (kept []byte, _ error) {
			kept, mends = contextfiles.Fix(file, data, contextfiles.Checker{Root: p.Root})
			return kept, nil
		})
		if err != nil {
			return fixed, err
		}
		for _, m := range mends {
			if m.Problem.Line == 0 { // not about a row
				continue
			}
			said := fmt.Sprintf("dropped: %s; it was: %s", m.Problem.Message, shownRow(m.Was))
			if m.Now != "" {
				said = fmt.Sprintf("fixed: %s; it is now: %s", m.Problem.Message, shownRow(m.Now))
			}
			fixed = append(fixed, fmt.Sprintf("%s:%d: %s", file, m.Problem.Line, said))
		}
	}
	return fixed, nil
}

// printResult prints the result and returns the error for the exit code.
func (cmd validations) printResult(v validation, asJSON bool) error {
	v.OK = len(trellis.Errors(v.Problems)) == 0
	if err := cmd.Print(asJSON, v, func() error { return cmd.print(v) }); err != nil || v.OK {
		return err
	}
	return app.Quiet(app.ErrUnmet)
}

func (cmd validations) print(v validation) error {
	for _, f := range v.Fixed {
		fmt.Fprintln(cmd.Stdout, "fixed:", f)
	}
	cmd.PrintProblems(v.Problems)
	bad := len(trellis.Errors(v.Problems))
	switch {
	case bad > 0:
		cmd.Say("%s, %s", text.Count(bad, "error"), text.Count(len(v.Problems)-bad, "warning"))
	case len(v.Checked) == 1:
		cmd.Say("%s is valid", v.Checked[0])
	default:
		cmd.Say("%d checked, all valid", len(v.Checked))
	}
	return nil
}
