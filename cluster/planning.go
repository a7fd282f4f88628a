package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/workflow"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Names that the server stores, like those in flow.go.
const (
	planningType = "planning" // the workflow of a requirement
	planType     = "plan"     // the activity in which one machine plans it
)

// maxRequirement is the largest size, in bytes, that fits into a message to the server.
const maxRequirement = 1 << 20

// Wanted is a requirement that was submitted.
type Wanted struct {
	Task        string      `json:"task"` // name of the resulting task directory, unless the requirement is rejected first
	New         taskdir.New `json:"new"`
	Requirement string      `json:"requirement"`
	Agent       string      `json:"agent,omitempty"` // agent that plans; "" means that of the settings
	Given
}

// Planning is the workflow of a requirement: a machine plans it, and hands out the task if it becomes ready. When a machine sends
// no heartbeat, another one begins the planning again.
func Planning(ctx workflow.Context, in Wanted) (s Standing, err error) {
	err = workflow.ExecuteActivity(activityContext(ctx, in.Given), planType, in).Get(ctx, &s)
	return s, err
}

// plan plans a requirement, shares the resulting task and hands it out. It may be called again after any interruption: a task
// that was shared is not planned again.
func (s *servingMachine) plan(ctx context.Context, in Wanted) (Standing, error) {
	return s.whileOwned(ctx, in.Given, func(own context.Context) (Standing, error) { return s.planAndHandOut(own, in) })
}

func (s *servingMachine) planAndHandOut(ctx context.Context, in Wanted) (st Standing, err error) {
	if err := s.pull(ctx); err != nil {
		return st, retryAfter(retrySoon, err)
	}
	dir := filepath.Join(s.site.Store.Tasks(), in.Task)
	t, err := s.site.Store.Load(dir)
	if errors.Is(err, taskdir.ErrNotFound) {
		if err = s.planHere(ctx, in); err != nil {
			return st, err
		}
		t, err = s.site.Store.Load(dir)
	}
	if err == nil {
		err = checkRequirement(dir, in)
	}
	if err != nil {
		return st, retryAfter(retryLater, err)
	}
	if _, err := s.team.Submit(ctx, dir); err != nil {
		return st, retryAfter(retrySoon, err)
	}
	s.say("%s: planned, %s", in.Task, t.Status)
	if t.Status == trellis.Ready || t.Status == trellis.Waiting {
		if err := s.server.wakeOrStart(ctx, t); err != nil {
			return st, retryAfter(retrySoon, err)
		}
	}
	return Standing{Status: t.Status, Host: s.host}, nil
}

// checkRequirement returns an error if the task was made from a different requirement with the same name, of which the person who submitted
// this one did not know.
func checkRequirement(dir string, in Wanted) error {
	text, err := taskdir.ReadFile(dir, taskdir.Requirement)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !bytes.Equal(bytes.TrimSpace(text), bytes.TrimSpace([]byte(in.Requirement))) {
		return fmt.Errorf("there is a task %s already, of another requirement: this one needs another --name", in.Task)
	}
	return nil
}

// planHere plans on this machine, or resumes what an earlier process here had begun when it died. It returns nil once there is a
// task directory, whatever the verdict.
func (s *servingMachine) planHere(ctx context.Context, in Wanted) error {
	o := runner.PlanOptions{New: in.New, Requirement: in.Requirement, Agent: in.Agent}
	res, err := s.site.PlanRunner().Plan(ctx, o)
	if draft, ok := errors.AsType[*runner.DraftError](err); ok {
		dir := filepath.Join(s.site.Store.Root, filepath.FromSlash(draft.Dir))
		if checkRequirement(dir, in) == nil { // what was paid for is not asked again
			o = runner.PlanOptions{Agent: in.Agent}
		}
		res, err = s.site.PlanRunner().Replan(ctx, dir, o)
	}
	switch {
	case errors.Is(err, durable.ErrHeld), err != nil && ctx.Err() == nil:
		return retryAfter(retryLater, err)
	case err != nil, res.Interrupted:
		return retryAfter(time.Second, errors.New("this machine is shutting down"))
	}
	return nil
}

// planningID returns the name that distinguishes the workflow of a planning from those of tasks.
func planningID(task string) string { return "plan/" + task }

// startPlanning hands a requirement out.
func (s *server) startPlanning(ctx context.Context, in Wanted) error {
	_, err := s.ExecuteWorkflow(ctx, s.options(planningID(in.Task)), planningType, in)
	if errors.As(err, new(*serviceerror.WorkflowExecutionAlreadyStarted)) {
		return app.AsKind(app.ErrLocked, fmt.Errorf("%s is being planned already", in.Task))
	}
	return s.wrapError("handing out", in.Task, err)
}

func planFlags() []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Name: "plan", Usage: "have a machine plan a requirement, and hand out the resulting task"},
		&cli.StringFlag{Name: "name", Aliases: []string{"n"}, Usage: "with --plan: `NAME` of the task: lower-case letters and digits with single dashes"},
		&cli.StringFlag{Name: "type", Aliases: []string{"t"}, Usage: "with --plan: `TYPE` of the work"},
		&cli.StringFlag{Name: "requirement", Aliases: []string{"r"}, Usage: "with --plan: the requirement, as `TEXT`"},
		&cli.StringFlag{Name: "requirement-file", Usage: "with --plan: read the requirement from `FILE`; - is standard input"},
		&cli.StringFlag{Name: "agent", Usage: "with --plan: `NAME` of the agent that plans"},
		command.JSONFlag(),
	}
}

// submitPlan hands out a requirement to be planned.
func submitPlan(a *command.Console, c *cli.Context) error {
	if c.NArg() > 0 {
		return app.Usagef("--plan takes no task: it makes one, called --name")
	}
	if err := a.RequirePerson("submit"); err != nil {
		return err
	}
	in, err := requirementFromFlags(a, c)
	if err != nil {
		return err
	}
	j, err := joinCluster(a, c)
	if err != nil {
		return err
	}
	defer j.server.Close()
	if _, err := j.team.Pull(c.Context); err != nil && !errors.As(err, new(*app.NotUpdatedError)) {
		return err
	}
	if _, err := os.Stat(filepath.Join(j.project.Store.Tasks(), in.Task)); err == nil {
		return app.WithHints(app.AsKind(app.ErrUsage, fmt.Errorf("there is a task %s already", in.Task)), "trellis-cluster submit "+in.Task)
	}
	in.Given = Given{Task: in.Task, Queue: j.server.queue(in.Agent), Silence: j.server.silence}
	if err := j.server.startPlanning(c.Context, in); err != nil {
		return err
	}
	return a.Print(c.Bool("json"), handedOut{Task: in.Task, Waits: []string{}}, func() error {
		a.Say("%s is handed out to be planned; next: trellis-cluster status", in.Task)
		return nil
	})
}

// requirementFromFlags returns the requirement that the flags describe.
func requirementFromFlags(a *command.Console, c *cli.Context) (in Wanted, err error) {
	in = Wanted{Agent: c.String("agent"), Requirement: c.String("requirement"),
		New: taskdir.New{Name: c.String("name"), DevType: c.String("type"), Created: a.Now()}}
	if !trellis.ValidName(in.New.Name) {
		return in, app.Usagef("--name is the name of the task: lower-case letters and digits with single dashes between them")
	}
	if file := c.String("requirement-file"); file != "" && in.Requirement != "" {
		return in, app.Usagef("--requirement and --requirement-file both say what is wanted")
	} else if file != "" {
		if in.Requirement, err = readRequirement(a, file); err != nil {
			return in, err
		}
	}
	switch {
	case in.Requirement == "":
		return in, app.Usagef("--requirement or --requirement-file says what is wanted")
	case len(in.Requirement) > maxRequirement:
		return in, app.Usagef("the requirement is %d bytes long, at most %d go through the server", len(in.Requirement), maxRequirement)
	}
	in.Task = in.New.ID()
	return in, app.CheckText("--requirement", in.Requirement)
}

func readRequirement(a *command.Console, file string) (string, error) {
	var from io.Reader = a.Stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return "", app.AsKind(app.ErrUsage, err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxRequirement+1))
	return string(text), err
}
