package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/sandbox"
)

// freshCheckout is a checkout of one commit and nothing else, which no agent was in.
type freshCheckout struct {
	repo     *git.Repo
	commands *commands
	modules  *modules
	setup    *setup
	warm     *warmFolders
}

// freshSuffix is what the path of a fresh checkout has behind that of the worktree: no branch can be called so.
const freshSuffix = "~final"

// do does something in a fresh checkout of a commit, made ready like the worktree. broken is the command of worktree.setup
// that failed there.
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
	_, whole, err := fc.warm.give(ctx, fresh)
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
