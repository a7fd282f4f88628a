package cli

import (
	"context"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/cli/command"

	"github.com/trellis-tasks/trellis/internal/app"
)

// refreshTasks brings the tasks in review, or the one in dir, to where their work is, and begins a run for what is wrong with
// their pull requests. What can't be asked is said.
func refreshTasks(ctx context.Context, a *command.Console, p *app.Project, dir string) error {
	site, err := p.SiteForOrders(ctx)
	if err != nil {
		return err
	}
	done, reacted, err := site.Refresh(ctx, dir)
	for _, note := range append(done.Notes, reacted.Notes...) {
		a.Say("%s", note)
	}
	for _, id := range done.Completed {
		a.Say("%s is completed: its work was merged", id)
	}
	for _, id := range done.Cancelled {
		a.Say("%s is cancelled: its pull request was closed without a merge; its worktree and branch stay", id)
	}
	_, watched := site.Starter().Watcher()
	for i, dir := range reacted.Begun {
		id := filepath.Base(dir)
		a.Say("%s goes on, as its pull request is not well: %s", id, reacted.Why[i])
		if !watched {
			a.Say("hint: trellis start %s", id)
		}
	}
	return err
}
