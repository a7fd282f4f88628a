package app

import (
	"context"
	"errors"

	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/tracker"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// ForgeState is whether pull requests can be opened at a remote of a project.
type ForgeState struct {
	Means string // what they are opened with, as in "with gh"
	Wrong string // what is in the way, "" for nothing
	Next  string // what to type then
}

// LookAtForge asks the forge at a remote whether it knows who asks. Settings that are not trusted say nothing of where a token goes.
func LookAtForge(ctx context.Context, p *Project, remote string) (ForgeState, error) {
	env := p.Env.CommandEnv()
	trackers, _ := TrackerSettings(ctx, p) // why they are not trusted is told elsewhere
	f, err := delivery.Forges{Env: env, GitLab: &tracker.Access{Settings: trackers, Env: env, Dir: p.Root}}.Of(ctx, p.Repo, remote)
	if err != nil {
		return ForgeState{}, err
	}
	s := ForgeState{Means: f.Means()}
	switch err := f.SignedIn(ctx); {
	case err == nil:
	case errors.Is(err, github.ErrNoProgram):
		s.Wrong, s.Next = err.Error()+": no pull request is opened", "install it, and type gh auth login"
	case errors.Is(err, forge.ErrNoProgramOrToken), errors.Is(err, forge.ErrNotSignedIn), errors.Is(err, forge.ErrUnsupportedRepository):
		s.Wrong, s.Next = err.Error()+": no pull request is opened", f.SignInCommand()
	default:
		s.Wrong, s.Next = err.Error()+": no pull request can be opened now", "git ls-remote "+trellis.ShellWord(remote)
	}
	return s, ctx.Err()
}
