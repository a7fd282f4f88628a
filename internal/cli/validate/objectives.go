package validate

import (
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/objective"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func ObjectivesCommand(a *command.Console) *cli.Command {
	cmd := validations{a}
	return &cli.Command{
		Name:      "check",
		Usage:     "check objectives: rows, ids, dependencies, plans",
		ArgsUsage: "[OBJECTIVE...]",
		Flags:     []cli.Flag{command.JSONFlag()},
		Description: command.Manual(`Shows every problem of the given files, or of all objectives: unreadable rows, duplicate ids,
unknown or circular dependencies. A plan whose task is gone or belongs to another step is a warning.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound}, "trellis objective check", "trellis objective check gateway --json"),
		Action: cmd.ForProject(func(c *cli.Context, p *app.Project) error {
			return cmd.objectiveCheck(p, c.Args().Slice(), c.Bool("json"))
		}),
	}
}

func (cmd validations) objectiveCheck(p *app.Project, names []string, asJSON bool) (err error) {
	v := validation{Checked: []string{}, Fixed: []string{}, Problems: []trellis.Problem{}}
	if len(names) == 0 {
		err = v.objectives(p)
	}
	plans := objective.NewPlans(p)
	for _, arg := range names {
		var name string
		if err == nil {
			name, err = objective.Name(cmd.Console, p, arg)
		}
		if err == nil {
			err = v.objective(p, plans, name)
		}
	}
	if err != nil {
		return err
	}
	return cmd.printResult(v, asJSON)
}

// objective checks one objective, and the tasks that its steps were planned as.
func (v *validation) objective(p *app.Project, plans objective.Plans, name string) error {
	r, err := objective.Load(p, name)
	var problem *trellis.Problem
	if r == nil && !errors.As(err, &problem) {
		return err
	}
	if r == nil {
		v.add(problem.File, *problem)
		return nil
	}
	v.add(roadmap.File(r.Name), r.Check()...)
	if !slices.ContainsFunc(r.Steps, func(s roadmap.Step) bool { return s.Plan != "" }) {
		return nil
	}
	works, err := plans()
	if err != nil {
		return err
	}
	v.Problems = append(v.Problems, r.LostPlans(works)...)
	for _, s := range r.Steps {
		work, ok := works.Planned(r.Name, s.Plan)
		if !ok {
			continue
		}
		if o := work.Pipeline.Objective; o.Name != "" && (o.Name != r.Name || o.Step != s.ID) {
			v.Problems = append(v.Problems, trellis.Problem{File: roadmap.File(r.Name), Line: s.Line, Warning: true,
				Message: fmt.Sprintf("step %s is planned as %s, which is for step %s of %s", s.ID, work.Name(), o.Step, o.Name)})
		}
	}
	return nil
}

// objectives checks every objective of the project, and reports files that are not objectives.
func (v *validation) objectives(p *app.Project) error {
	names, err := roadmap.Names(p.Root)
	if err != nil {
		return err
	}
	plans := objective.NewPlans(p)
	for _, name := range names {
		if err := v.objective(p, plans, name); err != nil && !errors.Is(err, roadmap.ErrNotFound) { // ErrNotFound: just removed
			return err
		}
	}
	others, err := roadmap.Misnamed(p.Root)
	v.Problems = append(v.Problems, others...)
	return err
}
