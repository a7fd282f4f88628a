package main

import (
	"context"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/evidence"
	"github.com/trellis-tasks/trellis/internal/proc"
)

// order is a command that tells a task something and ends.
func (a *app) order(name, usage, text string, exits []int, example string, flags []cli.Flag, do func(*cli.Context, *project, *dispatch.Site, string) error) *cli.Command {
	return &cli.Command{Name: name, Usage: usage, ArgsUsage: "TASKDIR", Flags: flags, Description: manual(text, exits, example),
		Action: func(c *cli.Context) error {
			p, dir, err := a.taskArgument(c, 1)
			if err != nil {
				return err
			}
			s, err := a.site(c.Context, p)
			if err != nil {
				return err
			}
			if err := do(c, p, s, dir); err != nil {
				return a.runError(p, dir, err)
			}
			return nil
		}}
}

func (a *app) stopCommand() *cli.Command {
	return a.order("stop", "pause a task that runs", `Its agents are ended and its work stays. It goes on with trellis start, and not by itself.`,
		[]int{exitDone, exitUsage, exitNotFound}, "trellis stop 02-03-paging", nil,
		func(c *cli.Context, p *project, s *dispatch.Site, dir string) error {
			if err := s.Stop(dir); err != nil {
				return err
			}
			a.say("%s is paused; next: trellis start %s", filepath.Base(dir), filepath.Base(dir))
			return nil
		})
}

func (a *app) cancelCommand() *cli.Command {
	return a.order("cancel", "call a task off", `A run ends its agents. Worktree and branch stay; trellis retry takes the task up again.`,
		[]int{exitDone, exitUsage, exitNotFound}, "trellis cancel 02-03-paging", nil,
		func(c *cli.Context, p *project, s *dispatch.Site, dir string) error {
			if err := s.Cancel(dir); err != nil {
				return err
			}
			a.say("%s is cancelled; its worktree and branch stay", filepath.Base(dir))
			return nil
		})
}

func (a *app) retryCommand() *cli.Command {
	return a.order("retry", "ask for another run of a task that failed or was cancelled",
		`The task becomes ready, with a new budget of attempts, and goes on in the same worktree. A watcher
picks it up; without one, trellis start runs it. --fresh backs up the work so far under
refs/trellis/backup and begins at the base.`,
		[]int{exitDone, exitUsage, exitUnmet, exitNotFound, exitLocked}, "trellis retry 02-03-paging --fresh",
		[]cli.Flag{&cli.BoolFlag{Name: "fresh", Usage: "begin again at the base"}},
		func(c *cli.Context, p *project, s *dispatch.Site, dir string) error {
			if err := s.Retry(c.Context, dir, c.Bool("fresh"), dispatch.RunOptions{}); err != nil {
				return err
			}
			id := filepath.Base(dir)
			if _, ok := s.Watcher(); ok {
				a.say("%s is ready; the watcher picks it up", id)
				return nil
			}
			a.say("%s is ready; next: trellis start %s", id, id)
			return nil
		})
}

func (a *app) approveCommand() *cli.Command {
	return a.order("approve", "agree to the plan of a task that waits for it",
		`The yes is bound to the plan as it is now: an edit voids it. It is a line of approvals.jsonl.`,
		[]int{exitDone, exitUsage, exitWaiting, exitNotFound}, "trellis approve 02-03-paging --by ann",
		[]cli.Flag{&cli.StringFlag{Name: "by", Usage: "`NAME` of who agrees; the git user"}},
		func(c *cli.Context, p *project, s *dispatch.Site, dir string) error {
			by, err := a.person(c.Context, p, c.String("by"))
			if err != nil {
				return err
			}
			v, err := s.Approve(dir, by)
			if err != nil {
				return err
			}
			if v.State == evidence.Approved {
				a.say("%s is approved by %s; next: trellis start %s", filepath.Base(dir), by, filepath.Base(dir))
				return nil
			}
			a.say("%s has the approval of %s and waits for others", filepath.Base(dir), by)
			return quiet(errWaiting)
		})
}

func (a *app) rejectCommand() *cli.Command {
	return a.order("reject", "say no to the plan of a task that waits for approval",
		`The task is rejected, and REJECTED.md says by whom and why.`,
		[]int{exitDone, exitUsage, exitNotFound}, "trellis reject 02-03-paging --reason 'the API is going away'",
		[]cli.Flag{&cli.StringFlag{Name: "reason", Usage: "why, as `TEXT`"}, &cli.StringFlag{Name: "by", Usage: "`NAME` of who says no; the git user"}},
		func(c *cli.Context, p *project, s *dispatch.Site, dir string) error {
			if c.String("reason") == "" {
				return usagef("a rejection needs its reason: --reason TEXT")
			}
			by, err := a.person(c.Context, p, c.String("by"))
			if err != nil {
				return err
			}
			if err := s.Reject(dir, by, c.String("reason")); err != nil {
				return err
			}
			a.say("%s is rejected; next: trellis plan --retry %s", filepath.Base(dir), p.Store.Rel(dir))
			return nil
		})
}

// person is who decides: the name given, the developer of this checkout, or git's user. A process that
// runs inside a task can't decide about it.
func (a *app) person(ctx context.Context, p *project, given string) (string, error) {
	if _, inside := proc.InsideRun(a.Env); inside {
		return "", usagef("this runs inside a task: only a person can approve or reject")
	}
	if given != "" {
		return given, nil
	}
	if name, err := developer(p.Root); err == nil && name != "" {
		return name, nil
	}
	name, err := p.Repo.Identity(ctx)
	if err != nil {
		return "", hint(as(errUsage, err), "add --by NAME, or git config user.name NAME")
	}
	return name, nil
}
