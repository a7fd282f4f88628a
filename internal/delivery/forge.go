package delivery

import (
	"context"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/gitlab"
	"github.com/trellis-tasks/trellis/internal/tracker"
)

// Forge is the service with the pull requests of one repository. Its methods may be called concurrently.
type Forge interface {
	// Find returns the pull request of a branch of the repository: the open one, else the newest; nil if there never was one.
	Find(ctx context.Context, head string) (*forge.PR, error)
	// Create opens a pull request, or returns the open one that an interrupted call has created.
	Create(ctx context.Context, n forge.NewPR) (*forge.PR, error)
	Status(ctx context.Context, pr *forge.PR) (forge.PRStatus, error)

	// The following methods name a pull request by its address. They may be repeated without harm.
	Details(ctx context.Context, address string) (forge.Details, error)
	EditBody(ctx context.Context, address, body string) error
	Label(ctx context.Context, address, label string) error
	AskReview(ctx context.Context, address, who string) error

	// Log returns what a failed check printed, or "" if that can't be known.
	Log(ctx context.Context, c forge.Check) (string, error)
	// SignedIn returns nil if pull requests can be read and created, else an error of package forge or another cause.
	SignedIn(ctx context.Context) error
	userCommands
}

// userCommands has the commands that are shown to people, to be typed in a checkout.
type userCommands interface {
	SignInCommand() string
	// CreateCommand returns a command that opens a pull request with the text of file, or with n.Body if file is "".
	CreateCommand(n forge.NewPR, file string) string
	ReopenCommand(number int) string
	// Means returns what the forge is called with, as in "pull requests are opened with gh".
	Means() string
}

// Forges finds the forge of a repository: GitLab for the host that the settings name, GitHub for all others.
type Forges struct {
	Env    []string        // KEY=VALUE
	Marker string          // of the run that makes the requests, see proc.Command
	GitLab *tracker.Access // the GitLab host of the settings and how to call it; nil: there is none
}

// ForRemote returns the forge of a repository, chosen by the addresses of one of its remotes.
func (f Forges) ForRemote(ctx context.Context, repo *git.Repo, remote string) (Forge, error) {
	if f.GitLab == nil || remote == "" {
		return f.github(repo), nil
	}
	written, err := repo.Remotes().ConfiguredURLs(ctx, remote)
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
