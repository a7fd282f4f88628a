package github

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// repository identifies a repository: by its host, and owner/name there.
type repository struct{ host, name string }

// repositoryURL matches the address of a repository, or of a pull request in it, and captures its parts.
var repositoryURL = trellis.Pattern(`^https?://([^/\s]+)/([\w.-]+/[\w.-]+)(?:/pull/([1-9][0-9]{0,9}))?$`)

// parsePullURL splits the address of a pull request into its repository and its number.
func parsePullURL(url string) (p repository, number string, err error) {
	found := repositoryURL().FindStringSubmatch(url)
	if found == nil || found[3] == "" {
		return p, "", fmt.Errorf("%q is not the address of a pull request", url)
	}
	return repository{found[1], found[2]}, found[3], nil
}

func (gh *Client) repository(ctx context.Context) (p repository, err error) {
	var answer struct{ URL string }
	if err := gh.callJSON(ctx, "the repository", &answer, "repo", "view", "--json=url"); err != nil {
		return p, err
	}
	found := repositoryURL().FindStringSubmatch(answer.URL)
	if found == nil || found[3] != "" {
		return p, fmt.Errorf("reading what gh says of the repository: %q is not an address of one", answer.URL)
	}
	return repository{found[1], found[2]}, nil
}

// SignedIn returns nil if gh is installed and can read the repository with its account. Otherwise it returns ErrNoProgram,
// ErrNotSignedIn, ErrNoRemote, or gh's own error. The exit code of gh auth status says less: it is 1 if some other host doesn't
// respond, and in some versions 0 if none does.
func (gh *Client) SignedIn(ctx context.Context) error {
	_, err := gh.repository(ctx)
	return err
}

// callAPI sends a request about a repository and returns the response. It names host and repository: by default gh api uses the
// first remote, even if gh repo set-default has chosen another one, and the host github.com.
func (gh *Client) callAPI(ctx context.Context, p repository, method, path string, body any) (string, error) {
	args := []string{"api", "--hostname=" + p.host, "--method=" + method, "repos/" + p.name + "/" + path}
	if body == nil {
		return gh.call(ctx, args, "")
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("writing a request of gh: %w", err)
	}
	return gh.call(ctx, append(args, "--input=-"), string(text))
}
