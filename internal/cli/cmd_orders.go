package cli

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// orderCommand returns a command that gives one task an order, do, and prints the result.
func orderCommand(a *command.Console, name, usage, text string, exits []int, examples []string, flags []cli.Flag, do func(*cli.Context, *app.Project, string) (app.OrderResult, error)) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: "TASKDIR", Flags: append(flags, command.JSONFlag()), Description: command.Manual(text, exits, examples...),
		Action: a.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			o, err := do(c, p, dir)
			if err != nil {
				return outcome.RunError(a, p, dir, err)
			}
			return outcome.PrintOrder(a, o, c.Bool("json"))
		})}
}

func stopCommand(a *command.Console) *cli.Command {
	return orderCommand(a, "stop", "pause a running task", `Its agents are stopped and its work is kept. It resumes with trellis start, not by itself.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, []string{"trellis stop 02-03-paging"}, nil,
		func(c *cli.Context, p *app.Project, dir string) (app.OrderResult, error) {
			return p.Orders().Stop(c.Context, dir)
		})
}

func cancelCommand(a *command.Console) *cli.Command {
	order := orderCommand(a, "cancel", "cancel a task", `If it is running, its agents are stopped. Worktree and branch are kept; trellis undo reverts this, trellis retry resumes the task.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound}, []string{"trellis cancel 02-03-paging"}, nil,
		func(c *cli.Context, p *app.Project, dir string) (app.OrderResult, error) {
			return p.Orders().Cancel(c.Context, dir)
		})
	cancel := order.Action
	order.Action = func(c *cli.Context) error {
		return a.GuardedFor(c.Context, hooks.AfterFinish, func() error { return cancel(c) })
	}
	return order
}

func retryCommand(a *command.Console) *cli.Command {
	return orderCommand(a, "retry", "request another run of a failed or cancelled task, or with --feedback of one in review",
		`The task becomes ready, with a new budget of attempts, and continues in the same worktree. A watcher
picks it up; without one, trellis start runs it. --fresh backs up the work so far under
refs/trellis/backup and starts over from the base. For a task in review it fixes what checks and reviewers
object to in the pull request, whatever delivery.react says. With --feedback the next run begins with your
comments on the work so far, also for a task in review, which stays there if nothing comes of it.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound, command.ExitLocked}, []string{"trellis retry 02-03-paging --fresh", "trellis retry 02-03-paging --feedback 'Count pages from 1.'"},
		[]cli.Flag{&cli.BoolFlag{Name: "fresh", Usage: "start over from the base"},
			&cli.StringFlag{Name: "feedback", Usage: "what to change about the work so far, as `TEXT`; - is standard input"}},
		func(c *cli.Context, p *app.Project, dir string) (app.OrderResult, error) {
			if !c.IsSet("feedback") {
				return p.Orders().Retry(c.Context, dir, c.Bool("fresh"))
			}
			return retryWithFeedback(a, c, p, dir)
		})
}

// retryWithFeedback asks for another run that begins with the feedback of a person.
func retryWithFeedback(a *command.Console, c *cli.Context, p *app.Project, dir string) (done app.OrderResult, err error) {
	if c.Bool("fresh") {
		return done, app.WithHints(app.Usagef("--fresh puts aside the work that --feedback is about: change what the task asks for instead"), "trellis edit "+trellis.ShellWord(filepath.Base(dir))+" prd")
	}
	feedback := c.String("feedback")
	if feedback == "-" {
		if feedback, err = readInput(a, "-", "feedback"); err != nil {
			return done, err
		}
	}
	return p.Orders().RetryWithFeedback(c.Context, dir, feedback)
}

func approveCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "approve", Usage: "approve a plan, or a step that waits for approval", ArgsUsage: "TASKDIR | ID",
		Flags: []cli.Flag{stepFlag(), &cli.StringFlag{Name: "by", Usage: "`NAME` of the person who approves (default: the git user)"}, signFlag(), command.JSONFlag()},
		Description: command.Manual(`Without --step it approves the plan of a task, or the only waiting step of a run of a file.
The approval applies to the current content: an edit voids it. It is a line in approvals.jsonl.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitWaiting, command.ExitNotFound}, "trellis approve 02-03-paging --by ann", "trellis approve 260201-090503-k3fq --step publish"),
		Action: func(c *cli.Context) error {
			return runDecision(a, c, app.Orders.Approve)
		}}
}

func rejectCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "reject", Usage: "reject a plan, or a step that waits for approval", ArgsUsage: "TASKDIR | ID",
		Flags: []cli.Flag{stepFlag(), &cli.StringFlag{Name: "reason", Usage: "the reason (required), as `TEXT`"}, &cli.StringFlag{Name: "by", Usage: "`NAME` of the person who rejects (default: the git user)"}, signFlag(), command.JSONFlag()},
		Description: command.Manual(`Rejecting its plan rejects the task, and REJECTED.md says by whom and why. A rejected step fails.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis reject 02-03-paging --reason 'the API is going away'", "trellis reject 260201-090503-k3fq --reason 'not today'"),
		Action: func(c *cli.Context) error {
			return runDecision(a, c, app.Orders.Reject)
		}}
}

func stepFlag() cli.Flag {
	return &cli.StringFlag{Name: "step", Usage: "the step with this `PATH`, such as publish or each.2.publish"}
}

func signFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "PEM `FILE` with a private Ed25519 key to sign it, for those whose trust.keys has its public key"}
}

func readKey(a *command.Console, file string) ([]byte, error) {
	data, err := durable.Read(a.Path(file), durable.MaxDocument)
	if err != nil {
		return nil, app.AsKind(app.ErrUsage, fmt.Errorf("reading the key: %w", err))
	}
	return data, nil
}

// readSigner reads the private key to sign a decision with. It returns nil if file is "".
func readSigner(a *command.Console, file string) (ed25519.PrivateKey, error) {
	if file == "" {
		return nil, nil
	}
	data, err := readKey(a, file)
	if err != nil {
		return nil, err
	}
	key, err := proof.ParsePrivateKey(data)
	if err != nil {
		return nil, signerError(fmt.Errorf("%s: %w", file, err))
	}
	return key, nil
}

// signerError returns err as a usage error, with a hint how to make a key that can sign.
func signerError(err error) error {
	return app.WithHints(app.AsKind(app.ErrUsage, err), "openssl genpkey -algorithm ed25519 -out key.pem")
}

// runDecision records the approval or rejection of a step, or of the plan of a task.
func runDecision(a *command.Console, c *cli.Context, decide func(app.Orders, context.Context, string, app.Decision) (app.OrderResult, error)) error {
	p, dir, isRun, err := a.TaskOrRun(c)
	if err != nil {
		return err
	}
	d := app.Decision{By: c.String("by"), Step: c.String("step"), IsRun: isRun, Reason: c.String("reason")}
	if d.Sign, err = readSigner(a, c.String("key")); err != nil {
		return err
	}
	o, err := decide(p.Orders(), c.Context, dir, d)
	if err != nil {
		return outcome.RunError(a, p, dir, err)
	}
	return outcome.PrintOrder(a, o, c.Bool("json"))
}
