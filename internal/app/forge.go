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

// ForgeState says whether pull requests can be opened at a remote of a project.
type ForgeState struct {
	Means string // the means of opening them, as in "with gh"
	Wrong string // what prevents it, "" for nothing
	Next  string // what to do about Wrong
}

// CheckForge checks whether a remote's forge accepts the user's credentials. Untrusted settings don't say where a token goes.
func CheckForge(ctx context.Context, p *Project, remote string) (ForgeState, error) {
	env := p.Env.CommandEnv()
	trackers, _ := TrackerSettings(ctx, p) // the reason why they are untrusted is reported elsewhere
	f, err := delivery.Forges{Env: env, GitLab: &tracker.Access{Settings: trackers, Env: env, Dir: p.Root}}.ForRemote(ctx, p.Repo, remote)
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
