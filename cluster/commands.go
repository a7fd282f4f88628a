package cluster

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/taskdir"
)

// commands are all that trellis-cluster can do.
func commands(a *command.Console) []*cli.Command {
	return []*cli.Command{
		{Name: "serve", Usage: "take tasks of this repository, until interrupted", Flags: []cli.Flag{&cli.IntFlag{Name: "parallel", Usage: "`N` tasks at once; limits.parallel of config.yaml"}, command.SharedFlag()},
			Action: a.InGuard(func(c *cli.Context) error { return serve(a, c) })},
		{Name: "submit", Usage: "give a task to the machines, or with --plan a requirement", ArgsUsage: "TASKDIR | --plan", Flags: planFlags(), Action: func(c *cli.Context) error {
			if c.Bool("plan") {
				return submitPlan(a, c)
			}
			return forTask(a, submit)(c)
		}},
		{Name: "start", Usage: "have the machines go on with a task", ArgsUsage: "TASKDIR", Action: forTask(a, start)},
		{Name: "retry", Usage: "have the machines run a task again that failed or was cancelled", ArgsUsage: "TASKDIR", Flags: []cli.Flag{&cli.BoolFlag{Name: "fresh", Usage: "begin again at the base"}}, Action: forTask(a, retry)},
		{Name: "approve", Usage: "agree to a plan, or to a step that waits for it", ArgsUsage: "TASKDIR", Flags: decisionFlags(), Action: order(a, func(c *cli.Context, o app.Orders, dir string) (app.Ordered, error) {
			return o.Approve(c.Context, dir, decision(c))
		})},
		{Name: "reject", Usage: "say no to a plan, or to a step that waits for approval", ArgsUsage: "TASKDIR", Flags: append(decisionFlags(), &cli.StringFlag{Name: "reason", Usage: "why, as `TEXT`"}), Action: order(a, func(c *cli.Context, o app.Orders, dir string) (app.Ordered, error) {
			return o.Reject(c.Context, dir, decision(c))
		})},
		{Name: "stop", Usage: "pause a task that runs", ArgsUsage: "TASKDIR", Action: order(a, func(c *cli.Context, o app.Orders, dir string) (app.Ordered, error) { return o.Stop(c.Context, dir) })},
		{Name: "cancel", Usage: "cancel a task", ArgsUsage: "TASKDIR", Action: order(a, func(c *cli.Context, o app.Orders, dir string) (app.Ordered, error) { return o.Cancel(c.Context, dir) })},
		{Name: "pull", Usage: "bring what the machines made of the tasks", Flags: []cli.Flag{&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "go on until interrupted"}}, Action: func(c *cli.Context) error { return pull(a, c) }},
		{Name: "status", Usage: "show the machines, and who has what since when", Flags: []cli.Flag{command.JSONFlag()}, Action: func(c *cli.Context) error { return show(a, c) }},
	}
}

func decisionFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "step", Usage: "the step with this `PATH`"}, &cli.StringFlag{Name: "by", Usage: "`NAME` of who decides; the git user"}}
}

func decision(c *cli.Context) app.Decision {
	return app.Decision{By: c.String("by"), Step: c.String("step"), Reason: c.String("reason")}
}

// forTask is a command for the task that its argument names, which only people may give.
func forTask(a *command.Console, do func(*command.Console, *cli.Context, *joined, string) error) cli.ActionFunc {
	return a.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
		if err := a.OnlyPeople(c.Command.Name); err != nil {
			return err
		}
		j := &joined{project: p}
		if err := j.connect(a, c); err != nil {
			return err
		}
		defer j.server.Close()
		if err := do(a, c, j, dir); err != nil {
			return outcome.RunError(a, p, dir, err)
		}
		return nil
	})
}

// submit gives a task to the machines, unless they have it.
func submit(a *command.Console, c *cli.Context, j *joined, dir string) error {
	if err := j.server.free(c.Context, filepath.Base(dir)); err != nil {
		return err
	}
	return hand(a, c, j, dir, false)
}

// start has the machines go on with a task, whether they have it or not.
func start(a *command.Console, c *cli.Context, j *joined, dir string) error {
	return hand(a, c, j, dir, true)
}

// hand tells the team of a task and hands it out.
func hand(a *command.Console, c *cli.Context, j *joined, dir string, goOn bool) error {
	runs, res, err := j.project.Orders().Admit(c.Context, dir)
	if err != nil {
		return err
	}
	if !runs && len(res.Waits) == 0 && res.Until.IsZero() {
		return &runner.RefusedError{Why: fmt.Sprintf("%s is %s, and there is nothing to run", filepath.Base(dir), res.Status), Hint: "trellis status " + filepath.Base(dir)}
	}
	t, err := j.give(c, dir)
	if err != nil {
		return err
	}
	if goOn {
		err = j.server.goOn(c.Context, t)
	} else {
		err = j.server.start(c.Context, t)
	}
	if err != nil {
		return err
	}
	said := "is handed out"
	if len(res.Waits) > 0 {
		said += ", and waits for " + strings.Join(res.Waits, ", ")
	}
	a.Say("%s %s; next: trellis-cluster status", t.ID, said)
	return nil
}

// retry has the machines run a task again.
func retry(a *command.Console, c *cli.Context, j *joined, dir string) error {
	done, err := j.project.Orders().Retry(c.Context, dir, c.Bool("fresh"))
	if err != nil {
		return err
	}
	t, err := j.give(c, dir)
	if err != nil {
		return err
	}
	if err := j.server.goOn(c.Context, t); err != nil {
		return err
	}
	a.Say("%s", done.Says)
	return nil
}

// give is the task of a directory, which the team knows then.
func (j *joined) give(c *cli.Context, dir string) (*taskdir.Task, error) {
	t, err := j.task(dir)
	if err == nil {
		_, err = j.team.Submit(c.Context, dir)
	}
	return t, err
}

// order is a command that tells a task something. Whoever has it is asked to do it; else it is done here. The machines look at it then.
func order(a *command.Console, do func(*cli.Context, app.Orders, string) (app.Ordered, error)) cli.ActionFunc {
	return forTask(a, func(a *command.Console, c *cli.Context, j *joined, dir string) error {
		done, err := do(c, j.project.Orders(), dir)
		if err != nil {
			return err
		}
		if err := j.server.wake(c.Context, filepath.Base(dir)); err != nil {
			return err
		}
		done.Next = ""
		return outcome.EndOrder(a, done, false)
	})
}

// pull brings what the machines made of the tasks. It asks the remote alone.
func pull(a *command.Console, c *cli.Context) error {
	p, err := a.Open(c.Context)
	if err != nil {
		return err
	}
	s, err := a.Site(c, p)
	if err != nil {
		return err
	}
	t, err := app.SharingOf(p).Team(s)
	if err != nil {
		return err
	}
	if c.Bool("follow") {
		t.Mirror(c.Context, func(dir string) { fmt.Fprintln(a.Stdout, p.Store.Rel(dir)) })
		return c.Context.Err()
	}
	changed, unbrought := t.Pull(c.Context)
	if unbrought != nil && !errors.As(unbrought, new(*app.UnbroughtError)) {
		return unbrought
	}
	slices.Sort(changed)
	for _, dir := range changed {
		if err := a.Result(p.Store.Rel(dir)); err != nil {
			return err
		}
	}
	a.Say("%d tasks changed", len(changed))
	return unbrought
}
