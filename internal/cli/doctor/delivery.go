package doctor

import (
	"context"
	"errors"

	"github.com/trellis-tasks/trellis/internal/app"
	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/github"
)

// delivery looks whether branches can be pushed and pull requests opened, when they are to be. What is in the way fails no
// task: its branch is what is delivered.
func (d *diagnosis) delivery(ctx context.Context, p *app.Project, c *config.Config) {
	if !c.Delivery.Push && !c.Delivery.PR {
		return
	}
	base, err := p.Repo.Refs().CurrentBranch(ctx, p.Root)
	if err != nil {
		return // what is wrong with the repository was said
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
	switch err := (&github.Client{Dir: p.Root, Env: d.console.Caller().CommandEnv()}).SignedIn(ctx); {
	case errors.Is(err, github.ErrNoProgram):
		d.add(stateWarning, "delivery", err.Error()+": no pull request is opened", "install it, and type gh auth login")
	case errors.Is(err, github.ErrNotSignedIn), errors.Is(err, github.ErrNoRemote):
		d.add(stateWarning, "delivery", err.Error()+": no pull request is opened", "gh auth login")
	case err != nil:
		d.add(stateWarning, "delivery", err.Error()+": no pull request can be opened now", "gh repo view")
	default:
		d.add(stateOK, "delivery", "branches go to "+remote+", pull requests are opened with gh", "")
	}
}
