package cli

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/cli/outcome"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/hooks"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
)

// orderCommand is a command that tells a task something and ends.
func orderCommand(a *command.Console, site func(*app.Project, context.Context) (*runner.Site, error), name, usage, text string, exits []int, example string, flags []cli.Flag, do func(*cli.Context, *app.Project, *runner.Site, string) error) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: "TASKDIR", Flags: flags, Description: command.Manual(text, exits, example),
		Action: a.ForTask(func(c *cli.Context, p *app.Project, dir string) error {
			s, err := site(p, c.Context)
			if err != nil {
				return err
			}
			if err := do(c, p, s, dir); err != nil {
				return outcome.RunError(a, p, dir, err)
			}
			return nil
		})}
}

func stopCommand(a *command.Console) *cli.Command {
	return orderCommand(a, (*app.Project).SiteForOrders, "stop", "pause a task that runs", `Its agents are ended and its work stays. It goes on with trellis start, and not by itself.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis stop 02-03-paging", nil,
		func(c *cli.Context, p *app.Project, s *runner.Site, dir string) error {
			if err := s.Orders().Stop(dir); err != nil {
				return err
			}
			a.Say("%s is paused; next: trellis start %s", filepath.Base(dir), filepath.Base(dir))
			return nil
		})
}

func cancelCommand(a *command.Console) *cli.Command {
	order := orderCommand(a, (*app.Project).SiteForOrders, "cancel", "cancel a task", `A run ends its agents. Worktree and branch stay; trellis retry takes the task up again.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis cancel 02-03-paging", nil,
		func(c *cli.Context, p *app.Project, s *runner.Site, dir string) error {
			if err := s.Orders().Cancel(dir); err != nil {
				return err
			}
			s.Event = func(e runner.Event) { a.Say("%s", e.Message) }
			s.Hooks().CalledOff(c.Context, dir)
			a.Say("%s is cancelled%s", filepath.Base(dir), whatStays(c.Context, p, dir))
			return nil
		})
	cancel := order.Action
	order.Action = func(c *cli.Context) error {
		return a.GuardedFor(c.Context, hooks.AfterFinish, func() error { return cancel(c) })
	}
	return order
}

// whatStays says what is left of a task that is called off.
func whatStays(ctx context.Context, p *app.Project, dir string) string {
	t, err := p.Store.Load(dir)
	if err != nil {
		return ""
	}
	var list []string
	if _, err := os.Lstat(t.WorktreePath); err == nil {
		list = append(list, "worktree")
	}
	if tip, err := p.Repo.Refs().Branch(ctx, t.BranchName()); err == nil && tip != "" && t.Pipeline.BaseCommit != "" {
		list = append(list, "branch")
	}
	if len(list) == 0 {
		return ""
	}
	return "; its " + strings.Join(list, " and ") + map[int]string{1: " stays", 2: " stay"}[len(list)]
}

func retryCommand(a *command.Console) *cli.Command {
	return orderCommand(a, (*app.Project).Site, "retry", "ask for another run of a task that failed or was cancelled",
		`The task becomes ready, with a new budget of attempts, and goes on in the same worktree. A watcher
picks it up; without one, trellis start runs it. --fresh backs up the work so far under
refs/trellis/backup and begins at the base. Of a task in review it mends what checks and reviewers find
wrong with the pull request, whatever delivery.react says.`,
		[]int{command.ExitDone, command.ExitUsage, command.ExitUnmet, command.ExitNotFound, command.ExitLocked}, "trellis retry 02-03-paging --fresh",
		[]cli.Flag{&cli.BoolFlag{Name: "fresh", Usage: "begin again at the base"}},
		func(c *cli.Context, p *app.Project, s *runner.Site, dir string) error {
			will := whatRetryDoes(p, dir, c.Bool("fresh"))
			if err := s.Orders().Retry(c.Context, dir, c.Bool("fresh"), runner.RunOptions{}); err != nil {
				return err
			}
			a.Say("%s will %s", filepath.Base(dir), will)
			if _, ok := s.Starter().Watcher(); ok {
				a.Say("the watcher picks it up")
				return nil
			}
			command, err := s.Assessor().Next(c.Context, dir)
			a.Say("next: %s", command)
			return err
		})
}

// whatRetryDoes says what another run of a task will do.
func whatRetryDoes(p *app.Project, dir string, fresh bool) string {
	t, err := p.Store.Load(dir)
	if err != nil {
		return "run again"
	}
	code := t.Pipeline.Failure.Code
	_, gone := os.Lstat(t.WorktreePath)
	switch {
	case fresh:
		return "restart from " + cmp.Or(t.BaseBranch, "its base") + "; the work so far is saved below refs/trellis/backup"
	case t.Status == trellis.Review && (code == "" || code == trellis.CIFailed || code == trellis.ChangesRequested):
		return "mend what is wrong with its pull request, in its worktree; what was pushed stays, and the next commit comes on top"
	case t.Status == trellis.Review:
		return "resume what ended with " + string(code) + ", in its worktree; what was pushed stays until the new work is verified"
	case code == trellis.PushFailed || code == trellis.PRFailed:
		return "deliver what was verified; agents are asked only if something was changed since"
	case t.WorktreePath != "" && gone == nil:
		return "resume in " + command.ShortPath(p.Root, t.WorktreePath) + ", keeping the work done so far"
	}
	return "run again"
}

func approveCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "approve", Usage: "agree to a plan, or to a step that waits for it", ArgsUsage: "TASKDIR | ID",
		Flags: []cli.Flag{stepFlag(), &cli.StringFlag{Name: "by", Usage: "`NAME` of who agrees; the git user"}, signFlag()},
		Description: command.Manual(`Without --step it is the plan of a task that is agreed to, or the step alone that a run of a file waits with.
The yes is bound to what it is about as it is now: an edit voids it. It is a line of approvals.jsonl.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitWaiting, command.ExitNotFound}, "trellis approve 02-03-paging --by ann", "trellis approve 260201-090503-k3fq --step publish"),
		Action: func(c *cli.Context) error {
			return runDecision(a, c, proof.Approval{Decision: proof.Approve, Step: c.String("step")})
		}}
}

func rejectCommand(a *command.Console) *cli.Command {
	return &cli.Command{Name: "reject", Usage: "say no to a plan, or to a step that waits for approval", ArgsUsage: "TASKDIR | ID",
		Flags: []cli.Flag{stepFlag(), &cli.StringFlag{Name: "reason", Usage: "why, as `TEXT`"}, &cli.StringFlag{Name: "by", Usage: "`NAME` of who says no; the git user"}, signFlag()},
		Description: command.Manual(`A task whose plan is rejected is rejected, and REJECTED.md says by whom and why. A step that is rejected fails.`,
			[]int{command.ExitDone, command.ExitUsage, command.ExitNotFound}, "trellis reject 02-03-paging --reason 'the API is going away'", "trellis reject 260201-090503-k3fq --reason 'not today'"),
		Action: func(c *cli.Context) error {
			if c.String("reason") == "" {
				return app.Usagef("a rejection needs its reason: --reason TEXT")
			}
			return runDecision(a, c, proof.Approval{Decision: proof.Reject, Step: c.String("step"), Reason: c.String("reason")})
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

// readSigner is the key that a decision is to be signed with, nil for none.
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
		return nil, app.AsKind(app.ErrUsage, fmt.Errorf("%s: %w", file, err))
	}
	return key, nil
}

// runDecision records what a person says to a step, or to the plan of a task.
func runDecision(a *command.Console, c *cli.Context, said proof.Approval) error {
	p, dir, isFile, err := a.TaskOrRun(c)
	if err != nil {
		return err
	}
	s, err := p.Site(c.Context)
	if err != nil {
		return err
	}
	if s.SignWith, err = readSigner(a, c.String("key")); err != nil {
		return err
	}
	if said.By, err = whoDecides(c.Context, a, p, c.String("by")); err != nil {
		return err
	}
	if isFile || said.Step != "" {
		err = decideStep(c.Context, a, s, dir, isFile, said)
	} else {
		err = decidePlan(c.Context, a, s, dir, said)
	}
	if err != nil {
		return outcome.RunError(a, p, dir, err)
	}
	return nil
}

// decideStep says to a step that waits what a person says. The first yes or no counts.
func decideStep(ctx context.Context, a *command.Console, s *runner.Site, dir string, isFile bool, said proof.Approval) error {
	q, now, err := s.Approvals().DecideStep(dir, said)
	if err != nil {
		return err
	}
	id := filepath.Base(dir)
	next := "trellis run --resume " + id
	if !isFile {
		if next, err = s.Assessor().Next(ctx, dir); err != nil {
			return err
		}
	}
	switch {
	case now.State == workflow.Pending:
		a.Say("%s of %s has the approval of %s and waits for others", q.Path, id, said.By)
		return app.Quiet(app.ErrWaiting)
	case now.State == workflow.Rejected && said.Decision == proof.Approve:
		return &runner.RefusedError{Why: q.Path + " was " + now.Why, Hint: next}
	case now.State == workflow.Approved && said.Decision == proof.Reject:
		return &runner.RefusedError{Why: q.Path + " was approved before", Hint: next}
	}
	a.Say("%s of %s is %s by %s; next: %s", q.Path, id, now.State, said.By, next)
	return nil
}

// decidePlan says to the plan of a task what a person says.
func decidePlan(ctx context.Context, a *command.Console, s *runner.Site, dir string, said proof.Approval) error {
	id := filepath.Base(dir)
	if said.Decision == proof.Reject {
		if err := s.Approvals().Reject(dir, said.By, said.Reason); err != nil {
			return err
		}
		return sayThenNext(ctx, a, s, dir, id+" is rejected")
	}
	v, err := s.Approvals().Approve(dir, said.By)
	if err != nil {
		return err
	}
	if v.State == proof.Approved {
		return sayThenNext(ctx, a, s, dir, id+" is approved by "+said.By)
	}
	a.Say("%s has the approval of %s and waits for others", id, said.By)
	return app.Quiet(app.ErrWaiting)
}

// whoDecides is who decides: the name given, the developer of this checkout, or git's user. A process that
// runs inside a task can't decide about it.
func whoDecides(ctx context.Context, a *command.Console, p *app.Project, given string) (string, error) {
	if err := a.OnlyPeople("approve or reject"); err != nil {
		return "", err
	}
	if given != "" {
		return given, nil
	}
	if name, err := app.Developer(p.Root); err == nil && name != "" {
		return name, nil
	}
	name, err := p.Repo.Author().Identity(ctx)
	if err != nil {
		return "", app.WithHints(app.AsKind(app.ErrUsage, err), "add --by NAME, or git config user.name NAME")
	}
	return name, nil
}
