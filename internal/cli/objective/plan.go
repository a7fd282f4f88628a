package objective

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/roadmap"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/terminal"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

func (cmd objectives) planCommand() *cli.Command {
	return &cli.Command{
		Name:      "plan",
		Usage:     "plan a step of an objective, and link its task in the roadmap",
		ArgsUsage: "OBJECTIVE",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "step", Usage: "plan the step with this `ID` instead of the next one"},
			&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "`TYPE` of work: " + strings.Join(trellis.DevTypes, ", ")},
			&cli.StringFlag{Name: "agent", Usage: "`NAME` of the agent that plans"},
			&cli.BoolFlag{Name: "github", Usage: "also put the plan into a GitHub issue, with gh, and link that in the roadmap"},
			command.SharedFlag(),
			command.JSONFlag(),
		},
		Description: command.Manual(`Plans the next step, as trellis plan would, with the objective's text as context. Then its PR cell says
plan and the task's directory; no other byte of the file changes. A planned step is not planned again:
interrupted planning is resumed, and a missing link is added.

The issue is for people to read and discuss: nothing that is written there is ever acted on.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitRejected, command.ExitPlanner, command.ExitWaiting, command.ExitNotFound, command.ExitLocked, command.ExitNoAgent, command.ExitInterrupted},
			"trellis objective plan gateway", "trellis objective plan gateway --step 1A.3 --github"),
		Action: cmd.InGuard(cmd.plan),
	}
}

func (cmd objectives) plan(c *cli.Context) error {
	p, err := cmd.Open(c.Context)
	if err != nil {
		return err
	}
	s, err := cmd.Site(c, p)
	if err != nil {
		return err
	}
	name, err := Name(cmd.Console, p, c.Args().First())
	if err != nil {
		return err
	}
	o, err := cmd.stepOptions(c, p)
	if err != nil {
		return err
	}
	show := cmd.Show(s, c.Bool("json"))
	show.SetStages(terminal.Stages(s.Config.Planning, runner.PlanOptions{}))
	began := cmd.Now()
	res, err := s.Objectives().PlanStep(c.Context, name, o)
	show.Close()
	end := stepEnd{name, res, cmd.Now().Sub(began).Seconds(), cmp.Or(res.Step.ID, o.Step), o.Forge != nil}
	if err != nil {
		return cmd.planningError(c, p, end, err)
	}
	return cmd.printPlannedStep(c.Context, p, s, end, c.Bool("json"))
}

// stepOptions reads the flags. Checks that cost nothing come first.
func (cmd objectives) stepOptions(c *cli.Context, p *app.Project) (o runner.StepOptions, err error) {
	o = runner.StepOptions{Step: c.String("step"), Agent: c.String("agent"), DevType: c.String("type")}
	if c.IsSet("type") {
		if err := command.CheckDevType(o.DevType, "--type"); err != nil {
			return o, err
		}
	}
	o.Creator, _ = app.Developer(p.Root) // the name of the user is optional
	if c.Bool("github") {
		o.Forge = &github.Client{Dir: p.Root, Env: cmd.Caller().CommandEnv()}
		if err := o.Forge.SignedIn(c.Context); err != nil { // before anything is paid for
			return o, githubError(err)
		}
	}
	return o, nil
}

// planningError returns the error for a step that is not planned, or not completely. With --json it may print a document first.
func (cmd objectives) planningError(c *cli.Context, p *app.Project, end stepEnd, err error) error {
	if not, ok := errors.AsType[*runner.StepError](err); ok && not.Step == "" && c.Bool("json") {
		d := stepDocument{Objective: end.objective, Code: not.Code, Document: outcome.Planning{}.Document("")}
		d.ID, d.Files, d.Why = "", []string{}, []string{not.Why}
		if err := terminal.JSON(cmd.Stdout, d); err != nil {
			return err
		}
	}
	switch {
	case c.Context.Err() != nil:
		return app.WithHints(err, end.resumeCommand())
	case errors.Is(err, runner.ErrNoIssue):
		err = githubError(err)
		return app.WithHints(err, append(app.HintsOf(err), end.resumeCommand())...)
	}
	return cmd.stepError(p, end.objective, err)
}

// stepEnd is how the planning of a step ended, and how long it took.
type stepEnd struct {
	objective string
	runner.StepResult
	seconds float64
	step    string // its id; "" if none was chosen
	github  bool   // the plan is to be put into an issue
}

func (e stepEnd) planning() outcome.Planning {
	return outcome.Planning{PlanResult: e.PlanResult, Seconds: e.seconds}
}

// resumeCommand returns the command that goes on with the planning.
func (e stepEnd) resumeCommand() string {
	command := roadmap.PlanCommand(e.objective, e.step)
	if e.github {
		command += " --github"
	}
	return command
}

// stepDocument is what objective plan --json prints: the document of plan, and the step.
type stepDocument struct {
	Objective string       `json:"objective"`
	Code      roadmap.Code `json:"code"` // next; another code if no step could be planned
	Step      string       `json:"step"`
	Cell      string       `json:"cell"`  // the step's PR cell now
	Known     bool         `json:"known"` // the step had been planned before
	Issue     string       `json:"issue"` // its address
	outcome.Document
}

// printPlannedStep prints how the planning of a step ended, and returns the error for the exit code.
func (cmd objectives) printPlannedStep(ctx context.Context, p *app.Project, s *runner.Site, end stepEnd, asJSON bool) error {
	if err := cmd.Print(asJSON, end.document(ctx, p), func() error { return cmd.sayStep(ctx, p, s, end) }); err != nil {
		return err
	}
	if end.Dead != "" {
		return end.failedTaskError()
	}
	return end.planning().ExitError(end.resumeCommand())
}

func (e stepEnd) document(ctx context.Context, p *app.Project) stepDocument {
	d := stepDocument{e.objective, roadmap.Next, e.Step.ID, e.Step.Link(), e.Known, "", e.planning().Document(p.Store.Rel(e.Dir))}
	if e.planning().IsPlanned() {
		d.Estimate = app.Forecast(ctx, p, e.Dir)
	}
	if e.Issue != nil {
		d.Issue = e.Issue.URL
	}
	if e.Dead != "" {
		d.Code, d.Why = roadmap.Stuck, []string{e.Dead}
	}
	return d
}

// sayStep prints the result of planning a step for people.
func (cmd objectives) sayStep(ctx context.Context, p *app.Project, s *runner.Site, end stepEnd) error {
	if end.Known {
		cmd.Say("step %s is planned as %s (%s)", end.Step.ID, end.Task, end.Status)
	} else if !end.Interrupted && len(end.Waits) == 0 {
		end.planning().Say(ctx, cmd.Console, p, s)
	}
	if cell := end.Step.Link(); cell != "" {
		cmd.Say("%s: step %s says %s", roadmap.File(end.objective), end.Step.ID, cell)
	}
	if end.Issue != nil {
		cmd.Say("issue     %s", end.Issue.URL)
	}
	return cmd.Result(p.Store.Rel(end.Dir))
}

// failedTaskError returns the error of a step that is not planned again, since its task came to a bad end.
func (e stepEnd) failedTaskError() error {
	kind, again := app.ErrFailed, []string{}
	switch e.Status {
	case trellis.Rejected:
		kind, again = app.ErrRejected, []string{"trellis plan --retry " + trellis.ShellWord(e.Task) + " --feedback 'your answer'"}
	case trellis.Failed, trellis.Cancelled:
		again = []string{"trellis retry " + trellis.ShellWord(e.Task)}
	}
	anew := fmt.Sprintf("empty the Status and %s cells of step %s, then: %s", e.Step.Linked(), e.Step.ID, e.resumeCommand())
	if len(again) > 0 {
		anew = "or " + anew
	}
	return app.WithHints(app.AsKind(kind, fmt.Errorf("objective %s: step %s is not planned again: %s", e.objective, e.Step.ID, e.Dead)), append(again, anew)...)
}

// stepError adds exit codes and hints to the errors of planning a step.
func (cmd objectives) stepError(p *app.Project, name string, err error) error {
	var not *runner.StepError
	var problem *trellis.Problem
	switch {
	case errors.As(err, &not) && not.Step == "" && not.Code == roadmap.Complete:
		cmd.Say("objective %s is complete: %s", not.Objective, not.Why)
		return nil
	case errors.As(err, &not) && not.Step == "":
		return app.WithHints(app.AsKind(app.ErrWaiting, err), "trellis objective next "+trellis.ShellWord(not.Objective))
	case errors.As(err, &not):
		return app.WithHints(app.AsKind(app.ErrUnmet, err), "trellis objective show "+trellis.ShellWord(not.Objective))
	case errors.Is(err, roadmap.ErrNotFound):
		return app.WithHints(err, nameHints(p, name)...)
	case errors.Is(err, roadmap.ErrNoStep), errors.Is(err, roadmap.ErrNoCell), errors.Is(err, runner.ErrOtherPlan):
		return app.WithHints(app.AsKind(app.ErrUnmet, err), "trellis objective show "+trellis.ShellWord(name))
	case errors.As(err, &problem) && problem.File == roadmap.File(name):
		return cmd.reportBroken(name, roadmap.Problems(err))
	case errors.As(err, new(*durable.HeldError)), errors.As(err, &problem):
		return err
	}
	return githubError(outcome.PlanError(p, err))
}

// githubError adds exit codes and hints to the errors of gh.
func githubError(err error) error {
	switch {
	case errors.Is(err, github.ErrNoProgram):
		return app.WithHints(app.AsKind(app.ErrUsage, err), "install it from https://cli.github.com, and type gh auth login")
	case errors.Is(err, github.ErrNotSignedIn):
		return app.WithHints(app.AsKind(app.ErrUsage, err), "gh auth login")
	}
	return err
}
