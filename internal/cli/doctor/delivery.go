package doctor

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
)

// delivery checks whether branches can be pushed and pull requests opened, if the settings ask for
// it. It reports only warnings, since such a problem fails no task: its branch is what it delivers.
func (d *diagnosis) delivery(ctx context.Context, p *app.Project, c *config.Config) {
	if !c.Delivery.Push && !c.Delivery.PR {
		return
	}
	base, err := p.Repo.Refs().CurrentBranch(ctx, p.Root)
	if err != nil {
		return // the error of the repository was reported before
	}
	remote, err := p.Repo.Remotes().Remote(ctx, base)
	switch {
	case err != nil:
		d.add(stateWarning, "delivery", err.Error(), "")
		return
	case remote == "":
		d.add(stateWarning, "delivery", "no remote is followed by "+base+", and there is no origin", "git remote add origin URL")
		return
	case !c.Delivery.PR:
		d.add(stateOK, "delivery", "branches go to "+remote, "")
		return
	}
	switch s, err := app.CheckForge(ctx, p, remote); {
	case err != nil:
		d.add(stateWarning, "delivery", err.Error(), "")
	case s.Wrong != "":
		d.add(stateWarning, "delivery", s.Wrong, s.Next)
	default:
		d.add(stateOK, "delivery", "branches go to "+remote+", pull requests are opened "+s.Means, "")
	}
}
