package cluster

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/commandline"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/cli/share"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/taskdir"
)

// commands returns the commands of trellis-cluster.
func commands(a *command.Console) []*cli.Command {
	return []*cli.Command{
		serveCommand(a),
		submitCommand(a),
		startCommand(a),
		retryCommand(a),
		approveCommand(a),
		rejectCommand(a),
		stopCommand(a),
		cancelCommand(a),
		pullCommand(a),
		statusCommand(a),
		completionCommand(a),
		commandline.CompleteCommand(a, func() commandline.Program { return program(a) }, completer{a}),
		helpCommand(a),
	}
}

// orderExitCodes are the exit codes of commands that send the machines an order about a task.
var orderExitCodes = []int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitUnmet, command.ExitWaiting, command.ExitNotFound, command.ExitLocked}

func serveCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "serve", Usage: "run tasks of this repository, until interrupted", Flags: []cli.Flag{&cli.IntFlag{Name: "parallel", Usage: "run `N` tasks at once (default: limits.parallel in config.yaml)"}, command.SharedFlag()},
		Description: command.Manual(`Waits at the Temporal server in cluster.address for tasks that the agents of this machine can work on, and runs
each as trellis start would, in a worktree of this clone. When interrupted, it stops its agents and returns unfinished tasks to the server:
another machine resumes them. Settings and agents are read when it starts.`,
			[]int{command.ExitFailed, command.ExitUsage, command.ExitLocked, command.ExitNoAgent, command.ExitInterrupted}, "trellis-cluster serve --parallel 2"),
		Action: a.InGuard(func(c *cli.Context) error { return serve(a, c) })}
}

func submitCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "submit", Usage: "submit a task to the machines, or with --plan a requirement", ArgsUsage: "TASKDIR | --plan", Flags: planFlags(),
		Description: command.Manual(`Sends the task directory to the git remote in shared.remote, and the server hands the task out. If two people submit
it, the second is told who has it. With --plan a machine makes a task from a requirement; if it is ready, or waits for approval, it is
handed out automatically. trellis-cluster pull fetches the results.`,
			orderExitCodes, "trellis-cluster submit 02-03-paging", "trellis-cluster submit --plan --name paging --type backend --requirement-file paging.md"),
		Action: func(c *cli.Context) error {
			if c.Bool("plan") {
				return submitPlan(a, c)
			}
			return taskCommand(a, submit)(c)
		}}
}

func startCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "start", Usage: "have the machines resume a task", ArgsUsage: "TASKDIR", Flags: []cli.Flag{command.JSONFlag()},
		Description: command.Manual("Has a machine check a task now: one that is idle, waits, or was never handed out.", orderExitCodes, "trellis-cluster start 02-03-paging"),
		Action:      taskCommand(a, start)}
}

func retryCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "retry", Usage: "have the machines run a failed or cancelled task again", ArgsUsage: "TASKDIR", Flags: []cli.Flag{&cli.BoolFlag{Name: "fresh", Usage: "start over from the base"}, command.JSONFlag()},
		Description: command.Manual("Works as trellis retry, and hands the task out again. The work so far is kept, unless --fresh.", orderExitCodes, "trellis-cluster retry 02-03-paging"),
		Action:      taskCommand(a, retry)}
}

func approveCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "approve", Usage: "approve a plan, or a step that waits for approval", ArgsUsage: "TASKDIR", Flags: decisionFlags(),
		Description: command.Manual("Tells the machine that runs the task, through the git remote; if none does, the approval is recorded here. Then the machines check the task.", orderExitCodes, "trellis-cluster approve 02-03-paging"),
		Action: orderCommand(a, func(c *cli.Context, o app.Orders, dir string) (app.OrderResult, error) {
			return o.Approve(c.Context, dir, decision(c))
		})}
}

func rejectCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "reject", Usage: "reject a plan, or a step that waits for approval", ArgsUsage: "TASKDIR", Flags: append(decisionFlags(), &cli.StringFlag{Name: "reason", Usage: "the reason (required), as `TEXT`"}),
		Description: command.Manual("Works as trellis-cluster approve, but rejects.", orderExitCodes, "trellis-cluster reject 02-03-paging --reason 'too much at once'"),
		Action: orderCommand(a, func(c *cli.Context, o app.Orders, dir string) (app.OrderResult, error) {
			return o.Reject(c.Context, dir, decision(c))
		})}
}

func stopCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "stop", Flags: []cli.Flag{command.JSONFlag()}, Usage: "pause a running task", ArgsUsage: "TASKDIR",
		Description: command.Manual("The machine that runs it stops its agents and keeps the work. trellis-cluster start resumes it.", orderExitCodes, "trellis-cluster stop 02-03-paging"),
		Action:      orderCommand(a, func(c *cli.Context, o app.Orders, dir string) (app.OrderResult, error) { return o.Stop(c.Context, dir) })}
}

func cancelCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "cancel", Flags: []cli.Flag{command.JSONFlag()}, Usage: "cancel a task", ArgsUsage: "TASKDIR",
		Description: command.Manual("The machine that runs it stops its agents; if none does, it is cancelled here. trellis-cluster retry resumes the task.", orderExitCodes, "trellis-cluster cancel 02-03-paging"),
		Action: orderCommand(a, func(c *cli.Context, o app.Orders, dir string) (app.OrderResult, error) {
			return o.Cancel(c.Context, dir)
		})}
}

func pullCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "pull", Usage: "fetch what the machines did for the tasks", Flags: share.PullFlags(),
		Description: command.Manual(`Writes what the machines did to the task directories here, without their worktrees, for trellis list, status, logs, diff, board
and ui. The changed directories go to stdout, one per line. It asks only the git remote.`,
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage, command.ExitInterrupted}, "trellis-cluster pull", "trellis-cluster pull --follow"),
		Action: func(c *cli.Context) error { return share.Pull(a, c) }}
}

func statusCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "status", Usage: "show the machines, and who has what since when", Flags: []cli.Flag{command.JSONFlag()},
		Description: command.Manual("Shows the machines that wait for tasks, and each task that is handed out: who runs it since when, what it waits for, or that no machine can run it.",
			[]int{command.ExitDone, command.ExitFailed, command.ExitUsage}, "trellis-cluster status", "trellis-cluster status --json | jq '.tasks[].task'"),
		Action: func(c *cli.Context) error { return showStatus(a, c) }}
}

func decisionFlags() []cli.Flag {
	return []cli.Flag{command.JSONFlag(), &cli.StringFlag{Name: "step", Usage: "the step with this `PATH`"}, &cli.StringFlag{Name: "by", Usage: "`NAME` of the person who decides (default: the git user)"}}
}

func decision(c *cli.Context) app.Decision {
	return app.Decision{By: c.String("by"), Step: c.String("step"), Reason: c.String("reason")}
}

// taskCommand returns a command for the task that its argument names. Only people may run it.
func taskCommand(a *command.Console, do func(*command.Console, *cli.Context, *sharedCheckout, string) error) cli.ActionFunc {
	return a.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
		if err := a.RequirePerson(c.Command.Name); err != nil {
			return err
		}
		j := &sharedCheckout{project: p}
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

// submit hands a task out, unless the machines have it already.
func submit(a *command.Console, c *cli.Context, j *sharedCheckout, dir string) error {
	if err := j.server.checkFree(c.Context, filepath.Base(dir)); err != nil {
		return err
	}
	return shareAndHandOut(a, c, j, dir, false)
}

// start has the machines continue a task, whether they have it or not.
func start(a *command.Console, c *cli.Context, j *sharedCheckout, dir string) error {
	return shareAndHandOut(a, c, j, dir, true)
}

// shareAndHandOut shares a task with the team and hands it out.
func shareAndHandOut(a *command.Console, c *cli.Context, j *sharedCheckout, dir string, wake bool) error {
	runs, res, err := j.project.Orders().Admit(c.Context, dir)
	if err != nil {
		return err
	}
	if !runs && len(res.Waits) == 0 && res.Until.IsZero() {
		return &runner.RefusedError{Why: fmt.Sprintf("%s is %s, and there is nothing to run", filepath.Base(dir), res.Status), Hint: "trellis status " + filepath.Base(dir)}
	}
	t, err := j.shareTask(c, dir)
	if err != nil {
		return err
	}
	if wake {
		err = j.server.wakeOrStart(c.Context, t)
	} else {
		err = j.server.start(c.Context, t)
	}
	if err != nil {
		return err
	}
	return handedOut{Task: t.ID, Waits: waitsOf(res.Waits)}.print(a, c)
}

// handedOut is the JSON output for a task that was handed out.
type handedOut struct {
	Task  string   `json:"task"`
	Waits []string `json:"waits"` // what the task waits for, as far as known here
}

func (h handedOut) print(a *command.Console, c *cli.Context) error {
	return a.Print(c.Bool("json"), h, func() error {
		said := "is handed out"
		if len(h.Waits) > 0 {
			said += ", and waits for " + strings.Join(h.Waits, ", ")
		}
		a.Say("%s %s; next: trellis-cluster status", h.Task, said)
		return nil
	})
}

// retry has the machines run a task again.
func retry(a *command.Console, c *cli.Context, j *sharedCheckout, dir string) error {
	done, err := j.project.Orders().Retry(c.Context, dir, c.Bool("fresh"))
	if err != nil {
		return err
	}
	t, err := j.shareTask(c, dir)
	if err != nil {
		return err
	}
	if err := j.server.wakeOrStart(c.Context, t); err != nil {
		return err
	}
	done.Next = ""
	return outcome.PrintOrder(a, done, c.Bool("json"))
}

// shareTask returns the task of a directory after sharing it with the team.
func (j *sharedCheckout) shareTask(c *cli.Context, dir string) (*taskdir.Task, error) {
	t, err := j.task(dir)
	if err == nil {
		_, err = j.team.Submit(c.Context, dir)
	}
	return t, err
}

// orderCommand returns a command that gives an order about a task. The order goes to the machine that has the task, or else is carried
// out here. Then the machines check the task again.
func orderCommand(a *command.Console, do func(*cli.Context, app.Orders, string) (app.OrderResult, error)) cli.ActionFunc {
	return taskCommand(a, func(a *command.Console, c *cli.Context, j *sharedCheckout, dir string) error {
		done, err := do(c, j.project.Orders(), dir)
		if err != nil {
			return err
		}
		if err := j.server.wake(c.Context, filepath.Base(dir)); err != nil {
			return err
		}
		done.Next = ""
		return outcome.PrintOrder(a, done, c.Bool("json"))
	})
}
