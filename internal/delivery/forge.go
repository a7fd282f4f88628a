package delivery

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/gitlab"
	"github.com/trellis-tasks/trellis/internal/tracker"
)

// Forge is where the pull requests of one repository are. Its methods may be called by several goroutines at once.
type Forge interface {
	// Find is the pull request of a branch of the repository: the open one, else the newest; nil when there was none.
	Find(ctx context.Context, head string) (*forge.PR, error)
	// Create makes a pull request, or finds the open one that a call which was cut off has made.
	Create(ctx context.Context, n forge.NewPR) (*forge.PR, error)
	Status(ctx context.Context, pr *forge.PR) (forge.PRStatus, error)

	// What follows names a pull request by its address. To do a thing twice does no harm.
	Details(ctx context.Context, address string) (forge.Details, error)
	EditBody(ctx context.Context, address, body string) error
	Label(ctx context.Context, address, label string) error
	AskReview(ctx context.Context, address, who string) error

	// Log is what a check that failed printed, "" where nobody can tell.
	Log(ctx context.Context, c forge.Check) (string, error)
	// SignedIn is nil when pull requests can be asked for and made, else an error of package forge or what is in the way.
	SignedIn(ctx context.Context) error
	typed
}

// typed are commands for people, as they are typed in a checkout.
type typed interface {
	SignInCommand() string
	// CreateCommand makes a pull request whose text is that of a file, or n's with "".
	CreateCommand(n forge.NewPR, file string) string
	ReopenCommand(number int) string
	// Means is what it is asked with, as in "pull requests are opened with gh".
	Means() string
}

// Forges are those of repositories: GitLab at the host that the settings name, GitHub for all else.
type Forges struct {
	Env    []string        // KEY=VALUE
	Marker string          // of the run that asks, see proc.Command
	GitLab *tracker.Access // which one is ours, and who asks it; nil: there is none
}

// Of is the forge of a repository, by the address of a remote of it.
func (f Forges) Of(ctx context.Context, repo *git.Repo, remote string) (Forge, error) {
	if f.GitLab == nil || remote == "" {
		return f.github(repo), nil
	}
	written, err := repo.Remotes().Written(ctx, remote)
	if err != nil {
		return nil, err
	}
	pushed, err := repo.Remotes().Addresses(ctx, remote)
	if err != nil {
		return nil, err
	}
	if lab := gitlab.NewClient(gitlab.Place{URL: f.GitLab.GitLabSite(), Connect: f.GitLab.GitLab}, append(written, pushed...)); lab != nil {
		return lab, nil
	}
	return f.github(repo), nil
}

func (f Forges) github(repo *git.Repo) Forge {
	return &github.Client{Dir: repo.Main, Env: f.Env, Marker: f.Marker}
}
