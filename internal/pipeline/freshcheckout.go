package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// freshCheckout makes checkouts of one commit and nothing else, in which no agent has been.
type freshCheckout struct {
	repo     *git.Repo
	commands *commands
	modules  *modules
	setup    *setup
	warm     *warmFolders
}

// freshSuffix is appended to the worktree's path for its fresh checkout. No branch can have such a name.
const freshSuffix = "~final"

// do calls do with a fresh checkout of commit, made ready like the worktree. broken is the command of worktree.setup that failed
// there, nil if none did.
func (fc *freshCheckout) do(ctx context.Context, c flow.Call, j Job, commit string, do func(fresh Job, broken *CommandResult) error) (err error) {
	fresh := j
	fresh.Worktree += freshSuffix
	if err := fc.repo.Worktrees().Checkout(ctx, fresh.Worktree, commit); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, fc.repo.Worktrees().Remove(context.WithoutCancel(ctx), fresh.Worktree))
	}()
	if err := fc.modules.checkOut(ctx, fresh, commit); err != nil {
		return err
	}
	if _, err := fc.setup.copyFiles(ctx, fresh); err != nil {
		return err
	}
	if err := fc.setup.writePointer(fresh); err != nil {
		return err
	}
	_, whole, err := fc.warm.copyInto(ctx, fresh)
	if err != nil {
		return err
	}
	if whole {
		return do(fresh, nil)
	}
	for i, line := range fresh.Setup.Run {
		res, err := fc.commands.runIn(ctx, c, sandbox.Need{Kind: sandbox.Setup, Dir: fresh.Worktree, Edit: true, Agents: true}, fmt.Sprintf("setup-%d", i+1), line, fresh.Setup.Timeout)
		if err != nil {
			return err
		}
		if res.Code != 0 {
			return do(fresh, &res)
		}
	}
	return do(fresh, nil)
}
