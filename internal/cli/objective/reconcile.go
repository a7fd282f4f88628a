package objective

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (cmd objectives) reconcileCommand() *cli.Command {
	return &cli.Command{
		Name:      "reconcile",
		Usage:     "update roadmaps with the results of their tasks, and plan what comes next",
		ArgsUsage: "[OBJECTIVE...]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all-unblocked", Usage: "plan every step that could start now, not only the next one"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only show what would be done"},
			command.SharedFlag(),
			command.JSONFlag(),
		},
		Description: command.Manual(`Works on the given objectives, or on all whose front matter says auto_advance: true. A task with a pull request
puts its number into the step's cell; a completed task sets Status to done, a failed, rejected or
cancelled one sets it to blocked, until it continues. What people wrote into those cells is kept.

A problem with one objective does not stop the others.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitRejected, command.ExitPlanner, command.ExitNotFound, command.ExitLocked, command.ExitNoAgent, command.ExitInterrupted},
			"trellis objective reconcile", "trellis objective reconcile gateway --all-unblocked", "trellis objective reconcile --dry-run"),
		Action: func(c *cli.Context) error {
			if c.Bool("dry-run") {
				return cmd.reconcile(c)
			}
			return cmd.Guarded(func() error { return cmd.reconcile(c) })
		},
	}
}

func (cmd objectives) reconcile(c *cli.Context) error {
	p, err := cmd.Open(c.Context)
	if err != nil {
		return err
	}
	o := runner.ReconcileOptions{All: c.Bool("all-unblocked"), Dry: c.Bool("dry-run")}
	for _, arg := range c.Args().Slice() {
		name, err := Name(cmd.Console, p, arg)
		if err != nil {
			return err
		}
		o.Names = append(o.Names, name)
	}
	if !o.Dry {
		if err := cmd.RefuseSharedDisk(c, p.Root); err != nil {
			return err
		}
	}
	s, err := p.SiteForOrders(c.Context)
	if err != nil {
		return err
	}
	o.Creator, _ = app.Developer(p.Root)
	show := cmd.Show(s, c.Bool("json"))
	all, err := s.Objectives().Reconcile(c.Context, o)
	show.Close()
	if err != nil {
		return err
	}
	if c.Bool("json") {
		if err := terminal.JSON(cmd.Stdout, reconciledDocuments(all)); err != nil {
			return err
		}
	} else {
		for _, r := range all {
			cmd.sayReconciled(p, r, o.Dry)
		}
		if len(all) == 0 {
			cmd.Say("no objective says auto_advance: true; next: trellis objective reconcile NAME")
		}
	}
	return cmd.reconcileError(c.Context, p, all)
}

// reconciledDocument is what reconcile --json prints for an objective.
type reconciledDocument struct {
	Objective string            `json:"objective"`
	Changes   []roadmap.Change  `json:"changes"`
	Code      roadmap.Code      `json:"code"` // what comes next; "" if unknown
	Why       string            `json:"why"`
	Steps     []string          `json:"steps"`    // steps that were planned, or would be
	Planned   []plannedDocument `json:"planned"`  // the results
	Problems  []trellis.Problem `json:"problems"` // warnings
	Error     string            `json:"error"`
}

// plannedDocument is the result of planning a step.
type plannedDocument struct {
	Step   string         `json:"step"`
	Task   string         `json:"task"`
	Status trellis.Status `json:"status"`
	Known  bool           `json:"known"`
}

func reconciledDocuments(all []runner.ReconcileResult) []reconciledDocument {
	list := []reconciledDocument{}
	for _, r := range all {
		d := reconciledDocument{Objective: r.Name, Changes: append([]roadmap.Change{}, r.Changes...), Code: r.Decision.Code, Why: r.Decision.Why, Steps: []string{}, Planned: []plannedDocument{}, Problems: append([]trellis.Problem{}, r.Gone...)}
		for _, s := range r.Steps {
			d.Steps = append(d.Steps, s.ID)
		}
		for _, res := range r.Planned {
			d.Planned = append(d.Planned, plannedDocument{res.Step.ID, res.Task, res.Status, res.Known})
		}
		if r.Err != nil {
			d.Error = r.Err.Error()
		}
		list = append(list, d)
	}
	return list
}

// sayReconciled prints the result for an objective. Changes that are or would be made go to standard output, a line each.
func (cmd objectives) sayReconciled(p *app.Project, r runner.ReconcileResult, dry bool) {
	for _, c := range r.Changes {
		fmt.Fprintf(cmd.Stdout, "%s: step %s: %s %q becomes %q: %s\n", r.Name, c.Step, c.Cell, c.Was, c.Value, c.Why)
	}
	for _, d := range r.Others {
		cmd.Say("warning: objective %s: step %s is planned as %s, and its cell says %s", r.Name, d.Step, d.Work.Name(), d.Other)
	}
	cmd.SayProblems(r.Gone)
	if dry {
		for _, s := range r.Steps {
			fmt.Fprintf(cmd.Stdout, "%s: step %s would be planned: %s\n", r.Name, s.ID, s.Description)
		}
	}
	for _, res := range r.Planned {
		did := "is planned"
		if res.Known { // by another process, meanwhile
			did = "is planned already"
		}
		fmt.Fprintf(cmd.Stdout, "%s: step %s %s: %s (%s)\n", r.Name, res.Step.ID, did, p.Store.Rel(res.Dir), planningState(res))
	}
	for _, busy := range r.Busy {
		cmd.Say("%v", busy)
	}
	if r.Err == nil && len(r.Steps) == 0 {
		cmd.Say("objective %s: %s: %s", r.Name, r.Decision.Code, r.Decision.Why)
	}
}

// planningState returns in a word or two how the planning of a step ended.
func planningState(res runner.StepResult) string {
	switch {
	case res.Interrupted:
		return "interrupted"
	case len(res.Waits) > 0:
		return "paused"
	case res.Failure != nil:
		return "the planner failed: " + res.Failure.Error()
	}
	return string(res.Status)
}

// reconcileError returns the error for the exit code: the one error that the objectives had, or all
// of them joined if there are several.
func (cmd objectives) reconcileError(ctx context.Context, p *app.Project, all []runner.ReconcileResult) error {
	if ctx.Err() != nil {
		return context.Canceled
	}
	var errs []error
	name := "" // the last objective that had an error
	for _, r := range all {
		known := len(errs)
		if r.Err != nil {
			errs = append(errs, fmt.Errorf("objective %s: %w", r.Name, r.Err))
		}
		for _, res := range r.Planned {
			switch {
			case res.Failure != nil && len(res.Waits) == 0:
				errs = append(errs, app.AsKind(app.ErrPlanner, fmt.Errorf("objective %s: step %s: planning failed: %w", r.Name, res.Step.ID, res.Failure)))
			case res.Status == trellis.Rejected && !res.Known:
				errs = append(errs, app.AsKind(app.ErrRejected, fmt.Errorf("objective %s: step %s was rejected: %s", r.Name, res.Step.ID, res.Report.Verdict.Details)))
			}
		}
		if len(errs) > known {
			name = r.Name
		}
	}
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return cmd.stepError(p, name, errs[0])
	}
	err := app.AsKind(app.ErrFailed, errors.Join(errs...))
	if len(roadmap.Problems(err)) > 0 {
		err = app.WithHints(err, "trellis objective check")
	}
	return err
}
