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
	return orderCommand(a, "stop", "pause a task that runs", `Its agents are ended and its work stays. It goes on with trellis start, and not by itself.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, []string{"trellis stop 02-03-paging"}, nil,
		func(c *cli.Context, p *app.Project, dir string) (app.OrderResult, error) {
			return p.Orders().Stop(c.Context, dir)
		})
}

func cancelCommand(a *command.Console) *cli.Command {
	order := orderCommand(a, "cancel", "cancel a task", `A run ends its agents. Worktree and branch stay; trellis undo takes it back, trellis retry takes the task up again.`,
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
	return orderCommand(a, "retry", "ask for another run of a task that failed or was cancelled, or with --feedback of one in review",
		`The task becomes ready, with a new budget of attempts, and goes on in the same worktree. A watcher
picks it up; without one, trellis start runs it. --fresh backs up the work so far under
refs/trellis/backup and begins at the base. Of a task in review it mends what checks and reviewers find
wrong with the pull request, whatever delivery.react says. With --feedback the next run begins with what
you say to the work so far, also of a task in review, which stays there when nothing comes of it.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound, command.ExitLocked}, []string{"trellis retry 02-03-paging --fresh", "trellis retry 02-03-paging --feedback 'Count pages from 1.'"},
		[]cli.Flag{&cli.BoolFlag{Name: "fresh", Usage: "begin again at the base"},
			&cli.StringFlag{Name: "feedback", Usage: "what should be different about the work so far, as `TEXT`; - reads it from standard input"}},
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
	return &cli.Command{Name: "approve", Usage: "agree to a plan, or to a step that waits for it", ArgsUsage: "TASKDIR | ID",
		Flags: []cli.Flag{stepFlag(), &cli.StringFlag{Name: "by", Usage: "`NAME` of who agrees; the git user"}, signFlag(), command.JSONFlag()},
		Description: command.Manual(`Without --step it is the plan of a task that is agreed to, or the step alone that a run of a file waits with.
The yes is bound to what it is about as it is now: an edit voids it. It is a line of approvals.jsonl.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitWaiting, command.ExitNotFound}, "trellis approve 02-03-paging --by ann", "trellis approve 260201-090503-k3fq --step publish"),
		Action: func(c *cli.Context) error {
			return runDecision(a, c, app.Orders.Approve)
		}}
}

func rejectCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "reject", Usage: "say no to a plan, or to a step that waits for approval", ArgsUsage: "TASKDIR | ID",
		Flags: []cli.Flag{stepFlag(), &cli.StringFlag{Name: "reason", Usage: "why, as `TEXT`"}, &cli.StringFlag{Name: "by", Usage: "`NAME` of who says no; the git user"}, signFlag(), command.JSONFlag()},
		Description: command.Manual(`A task whose plan is rejected is rejected, and REJECTED.md says by whom and why. A step that is rejected fails.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis reject 02-03-paging --reason 'the API is going away'", "trellis reject 260201-090503-k3fq --reason 'not today'"),
		Action: func(c *cli.Context) error {
			return runDecision(a, c, app.Orders.Reject)
		}}
}

func stepFlag() cli.Flag {
	return &cli.StringFlag{Name: "step", Usage: "the step with this `PATH`, such as publish or each.2.publish"}
}

func signFlag() cli.Flag {
	return &cli.StringFlag{Name: "key", Usage: "a private Ed25519 key in a PEM `FILE` to sign it with, for those who have its public half in trust.keys"}
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
