package github

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
)

// place is a repository as its address tells it: the host, and owner/name there.
type place struct{ host, repo string }

var (
	repoURL = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^https?://([^/\s]+)/([\w.-]+/[\w.-]+)$`) })
	pullURL = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^https?://([^/\s]+)/([\w.-]+/[\w.-]+)/pull/([1-9][0-9]{0,9})$`)
	})
)

// pull is where the pull request with an address is, and its number.
func pull(url string) (p place, number string, err error) {
	found := pullURL().FindStringSubmatch(url)
	if found == nil {
		return p, "", fmt.Errorf("%q is not the address of a pull request", url)
	}
	return place{found[1], found[2]}, found[3], nil
}

// here is the repository that gh works with.
func (f *Forge) here(ctx context.Context) (p place, err error) {
	out, err := f.call(ctx, []string{"repo", "view", "--json=url"}, "")
	if err != nil {
		return p, err
	}
	var answer struct{ URL string }
	if err := json.Unmarshal([]byte(out), &answer); err != nil {
		return p, fmt.Errorf("reading what gh says of the repository: %w", err)
	}
	found := repoURL().FindStringSubmatch(answer.URL)
	if found == nil {
		return p, fmt.Errorf("reading what gh says of the repository: %q is no address of one", answer.URL)
	}
	return place{found[1], found[2]}, nil
}

// SignedIn is nil when gh is there, and reaches the repository with an account. Else it is ErrNoProgram, ErrNotSignedIn,
// ErrNoForge, or what gh says. The exit code of gh auth status tells less: it is 1 when some other host does not answer,
// and in some versions 0 when none does.
func (f *Forge) SignedIn(ctx context.Context) error {
	_, err := f.here(ctx)
	return err
}

// rest sends a request about a repository, and returns the answer. The place stands in it: left to itself gh api takes
// the first remote, whatever gh repo set-default says, and the host github.com, wherever the repository is.
func (f *Forge) rest(ctx context.Context, p place, method, path string, body any) (string, error) {
	args := []string{"api", "--hostname=" + p.host, "--method=" + method, "repos/" + p.repo + "/" + path}
	if body == nil {
		return f.call(ctx, args, "")
	}
	text, err := json.Marshal(body)
	if err != nil {
		return "", fmt.Errorf("writing a request of gh: %w", err)
	}
	return f.call(ctx, append(args, "--input=-"), string(text))
}
