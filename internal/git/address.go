package git

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// Addresses are where a push to a remote goes, without what signs in there.
func (r Remotes) Addresses(ctx context.Context, remote string) ([]string, error) {
	if strings.ContainsAny(remote, ":/") { // branch.<name>.remote may be one itself
		return []string{withoutSecret(remote)}, nil
	}
	out, err := r.Line(ctx, Command{Dir: r.Main, Args: []string{"remote", "get-url", "--push", "--all", "--", remote}})
	if err != nil {
		return nil, fmt.Errorf("looking for the address of %s: %w", remote, err)
	}
	list := strings.Split(out, "\n")
	for i, address := range list {
		list[i] = withoutSecret(address)
	}
	return list, nil
}

// withoutSecret is an address without the user of https, who may be a token, and without any password.
func withoutSecret(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	if _, hasPassword := u.User.Password(); hasPassword || u.Scheme == "https" || u.Scheme == "http" {
		u.User = nil
	}
	return u.String()
}
