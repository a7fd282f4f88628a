package objective

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (cmd objectives) nextCommand() *cli.Command {
	return &cli.Command{
		Name:      "next",
		Usage:     "show which step comes next, and why",
		ArgsUsage: "OBJECTIVE",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Usage: "show every step that could start now"},
			command.JSONFlag(),
		},
		Description: command.Manual(`The next step is the first pending one, in the order of the file, with all dependencies done or skipped.
These are the ones that it states, or else the step before it. A step whose task is in review or completed counts as done.
The first word of the output is next, waiting (for a step in progress), blocked (a person is needed) or complete.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitWaiting, command.ExitNotFound}, "trellis objective next gateway", "trellis objective next gateway --all", "trellis objective next gateway --json | jq -r .code"),
		Action: cmd.forObjective(cmd.next),
	}
}

// objectiveDecision is what objective next --json prints.
type objectiveDecision struct {
	Objective string          `json:"objective"`
	Code      roadmap.Code    `json:"code"`
	Step      *objectiveStep  `json:"step"` // null unless code is next
	Why       string          `json:"why"`
	On        []string        `json:"on"`
	Plan      string          `json:"plan"`
	Ready     []objectiveStep `json:"ready"` // every step that could start now
}

func (cmd objectives) next(c *cli.Context, p *app.Project, name string) error {
	r, err := Load(p, name)
	switch {
	case err != nil && r == nil:
		return err
	case err != nil:
		return cmd.reportBroken(name, roadmap.Problems(err))
	}
	tasks := NewPlans(p).taskStatuses(r.Name)
	d := r.Next(tasks)
	if len(r.Steps) == 0 {
		return app.WithHints(app.Usagef("objective %s: %s", r.Name, d.Why), "trellis objective check "+trellis.ShellWord(r.Name))
	}
	next := newObjectiveNext(d)
	out := objectiveDecision{Objective: r.Name, Code: d.Code, Why: d.Why, On: next.On, Plan: d.Plan, Ready: []objectiveStep{}}
	for _, s := range r.Ready(tasks) {
		out.Ready = append(out.Ready, newObjectiveStep(s, tasks))
	}
	if d.Step != nil {
		step := newObjectiveStep(*d.Step, tasks)
		out.Step = &step
	}
	err = cmd.Print(c.Bool("json"), out, func() error { return out.print(cmd.Console, next, c.Bool("all")) })
	if err != nil || d.Code == roadmap.Next || d.Code == roadmap.Complete {
		return err
	}
	return app.Quiet(app.ErrWaiting)
}

func (d *objectiveDecision) print(a *command.Console, next *objectiveNext, all bool) error {
	if d.Step == nil {
		_, err := fmt.Fprintf(a.Stdout, "%s\n    %s\n", oneLine(next.words()), oneLine(d.Why))
		return err
	}
	ready := d.Ready
	if !all {
		ready = ready[:1]
	}
	for _, s := range ready {
		fmt.Fprintf(a.Stdout, "next %s  %s\n", oneLine(s.ID), oneLine(s.Description))
	}
	if !all {
		fmt.Fprintf(a.Stdout, "    %s\n", oneLine(d.Why))
	}
	return nil
}

// reportBroken reports the problems of a file that can't be relied on.
func (cmd objectives) reportBroken(name string, problems []trellis.Problem) error {
	unreliable := app.WithHints(app.Usagef("%s can't be relied on", roadmap.File(name)), "trellis objective check "+trellis.ShellWord(name))
	return command.WithProblems(cmd.Console, unreliable, problems, func(problems []trellis.Problem) {
		for _, p := range problems {
			cmd.Say("%s", p.Error())
		}
	})
}
