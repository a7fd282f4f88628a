package github

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/trellis-tasks/trellis/internal/trellis"
)

// repository is a repository as its address tells it: the host, and owner/name there.
type repository struct{ host, name string }

// parse takes the address of a repository, or of a pull request in it, apart.
var parse = trellis.Pattern(`^https?://([^/\s]+)/([\w.-]+/[\w.-]+)(?:/pull/([1-9][0-9]{0,9}))?$`)

// parsePullURL takes the address of a pull request apart: its repository and its number.
func parsePullURL(url string) (p repository, number string, err error) {
	found := parse().FindStringSubmatch(url)
	if found == nil || found[3] == "" {
		return p, "", fmt.Errorf("%q is not the address of a pull request", url)
	}
	return repository{found[1], found[2]}, found[3], nil
}

func (gh *Client) repository(ctx context.Context) (p repository, err error) {
	var answer struct{ URL string }
	if err := gh.ask(ctx, "the repository", &answer, "repo", "view", "--json=url"); err != nil {
		return p, err
	}
	found := parse().FindStringSubmatch(answer.URL)
	if found == nil || found[3] != "" {
		return p, fmt.Errorf("reading what gh says of the repository: %q is not an address of one", answer.URL)
	}
	return repository{found[1], found[2]}, nil
}

// SignedIn is nil when gh is there, and reaches the repository with an account. Else it is ErrNoProgram, ErrNotSignedIn,
// ErrNoRemote, or what gh says. The exit code of gh auth status tells less: it is 1 when some other host does not answer,
// and in some versions 0 when none does.
func (gh *Client) SignedIn(ctx context.Context) error {
	_, err := gh.repository(ctx)
	return err
}

// rest sends a request about a repository, and returns the answer. It names the repository: left to itself gh api takes
// the first remote, whatever gh repo set-default says, and the host github.com, wherever the repository is.
func (gh *Client) rest(ctx context.Context, p repository, method, path string, body any) (string, error) {
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
