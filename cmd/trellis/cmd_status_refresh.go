package main

import (
	"context"
	"time"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/forge"
)

// fetchWall is the time that a remote has to answer.
const fetchWall = time.Minute

// refresh brings the tasks in review, or the one in dir, to where their work is. What can't be asked is said.
func (a *app) refresh(ctx context.Context, p *project, dir string) error {
	clean, err := a.cleaner(p)
	if err != nil {
		return err
	}
	remote := &delivery.Remote{Cleaner: clean, Forge: &forge.Forge{Dir: p.Root, Env: a.Env}, Disk: a.Disk, Wall: fetchWall}
	done, err := remote.Refresh(ctx, dir)
	for _, note := range done.Notes {
		a.say("%s", note)
	}
	for _, id := range done.Completed {
		a.say("%s is completed: its work was merged", id)
	}
	for _, id := range done.Cancelled {
		a.say("%s is cancelled: its pull request was closed without a merge; its worktree and branch stay", id)
	}
	return err
}
