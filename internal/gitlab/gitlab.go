// Package gitlab reads and changes the merge requests of a GitLab by its REST API, version 4 (https://docs.gitlab.com/api/rest). They are
// called pull requests here, as everywhere in Trellis.
//
// A token is sent only to the GitLab server that it is for, not to another one that a remote may name. The responses are
// untrusted: they are parsed, checked, and limited in length and time by package rest.
package gitlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/rest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// Place is the GitLab server for which there is a token.
type Place struct {
	URL string // such as https://gitlab.com, without a trailing slash
	// Connect returns a client of the server, which authenticates with the token, and the origin of the token. The error is
	// rest.ErrNoToken if there is none.
	Connect func(context.Context) (s *rest.Server, from string, err error)
}

// Client reads, creates and changes the merge requests of a project. Its methods may be called concurrently.
type Client struct {
	place       Place
	project     string // its path: group/subgroup/name
	foreignHost string // host of the project if it is not on place, else ""

	mu          sync.Mutex
	server      *rest.Server // nil before the first request
	tokenOrigin string       // origin of its token
	pushAccess  map[int]bool // whether users may push, by user id, as far as it is known
}

// NewClient returns a client for the first of these remote addresses that is a project at place. Otherwise, if an address is on
// another host called gitlab.*, the client's methods fail with forge.ErrUnsupportedRepository; else NewClient returns nil.
func NewClient(place Place, addresses []string) *Client {
	site, err := url.Parse(place.URL)
	if err != nil {
		return nil
	}
	normalize(site)
	place.URL = site.String()
	foreign := (*Client)(nil)
	for _, address := range addresses {
		at, ok := parseRemote(address)
		if !ok {
			continue
		}
		c := &Client{place: place, pushAccess: map[int]bool{}}
		switch {
		case at.isOn(site):
			if c.project = at.path; at.isHTTP {
				c.project, ok = strings.CutPrefix("/"+at.path, site.Path+"/")
			}
			if ok && projectPath().MatchString(c.project) {
				return c
			}
		case strings.HasPrefix(at.host, "gitlab.") && projectPath().MatchString(at.path):
			c.project, c.foreignHost = at.path, at.host
			foreign = c
		}
	}
	return foreign
}

// normalize gives a URL the form in which GitLab writes it: the host in lower case, without the default port of the scheme and without a
// slash at the end.
func normalize(u *url.URL) {
	u.Host, u.Path = strings.ToLower(u.Host), strings.TrimSuffix(u.Path, "/")
	if port := u.Port(); port == map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
}

var projectPath = trellis.Pattern(`^[\w.+-]+(/[\w.+-]+)+$`)

// remoteAddress is the parsed address of a repository.
type remoteAddress struct {
	isHTTP     bool   // accessed over HTTP
	host, port string // in lower case
	path       string // without surrounding slashes and .git
}

// parseRemote parses https://host/path, ssh://user@host/path, and user@host:path.
func parseRemote(address string) (r remoteAddress, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		host, path, found := strings.Cut(address, ":")
		if !found || strings.Contains(host, "/") {
			return r, false
		}
		u = &url.URL{Scheme: "ssh", Host: host[strings.LastIndex(host, "@")+1:], Path: path}
	}
	normalize(u)
	r = remoteAddress{isHTTP: u.Scheme == "https" || u.Scheme == "http", host: u.Hostname(), port: u.Port(), path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")}
	return r, r.host != "" && (r.isHTTP || u.Scheme == "ssh" || u.Scheme == "git+ssh")
}

// isOn reports whether the remote is on site. By SSH any port will do; by HTTP the port has to be that of site.
func (r remoteAddress) isOn(site *url.URL) bool {
	return r.host == site.Hostname() && (!r.isHTTP || r.port == site.Port()) || r.host == "altssh."+site.Hostname()
}

// requestOwn sends a request to a path of the client's project and decodes the JSON response into out, unless that is nil.
func (c *Client) requestOwn(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	return c.requestProject(ctx, c.project, method, path, in, out)
}

// requestProject is requestOwn for any project of the server.
func (c *Client) requestProject(ctx context.Context, project, method, path string, in, out any) (http.Header, error) {
	return c.request(ctx, method, "/projects/"+url.PathEscape(project)+path, in, out)
}

func (c *Client) request(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	server, tokenOrigin, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	h, err := server.Do(ctx, method, path, in, out)
	if rest.StatusOf(err) == http.StatusUnauthorized {
		return h, &forge.Obstacle{Kind: forge.ErrNotSignedIn, Said: "GitLab does not take the token of " + tokenOrigin}
	}
	return h, err
}

// connect returns the server and the origin of its token. The token is read once.
func (c *Client) connect(ctx context.Context) (*rest.Server, string, error) {
	if c.foreignHost != "" {
		return nil, "", &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: fmt.Sprintf("the repository is at %s, which is not the GitLab that there is a token for (%s)", trellis.VisibleLine(c.foreignHost), c.place.URL)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return c.server, c.tokenOrigin, nil
	}
	server, tokenOrigin, err := c.place.Connect(ctx)
	switch {
	case errors.Is(err, rest.ErrNoToken):
		return nil, "", &forge.Obstacle{Kind: forge.ErrNoProgramOrToken, Said: "GitLab can't be asked: " + err.Error()}
	case err != nil:
		return nil, "", err
	}
	c.server, c.tokenOrigin = server, tokenOrigin
	return server, tokenOrigin, nil
}

const pageSize = 100

// listAll returns the objects that GitLab lists at a path of a project. It reads page by page, and stops after the page with which
// there are at least most objects. cut reports whether there are more than were read.
func listAll[T any](ctx context.Context, c *Client, project, path string, most int) (list []T, truncated bool, err error) {
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	page := "1"
	for page != "" && len(list) < most {
		var some []T
		h, err := c.requestProject(ctx, project, http.MethodGet, fmt.Sprintf("%s%sper_page=%d&page=%s", path, mark, pageSize, url.QueryEscape(page)), nil, &some)
		if err != nil {
			return nil, false, err
		}
		list = append(list, some...)
		page = h.Get("X-Next-Page")
	}
	return list, page != "", nil
}

// SignedIn returns nil if the server has the project with merge requests enabled and the token may write them. Otherwise the error is one of
// package forge, or the server's own.
func (c *Client) SignedIn(ctx context.Context) error {
	var p struct {
		MergeRequests string `json:"merge_requests_access_level"`
		Archived      bool
	}
	_, err := c.requestOwn(ctx, http.MethodGet, "", nil, &p)
	switch {
	case err != nil:
		return c.explainNotFound(err)
	case p.MergeRequests == "disabled":
		return &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: fmt.Sprintf("project %s has no merge requests: its settings say so", c.project)}
	case p.Archived:
		return &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: fmt.Sprintf("project %s is archived: nothing can be pushed there", c.project)}
	}
	return c.checkScope(ctx)
}

// checkScope returns an error if the server says that the token lacks the scope that merge requests need. Older servers don't
// tell, nor do servers for other kinds of tokens.
func (c *Client) checkScope(ctx context.Context) error {
	server, tokenOrigin, err := c.connect(ctx)
	if err != nil {
		return err
	}
	var token struct{ Scopes []string }
	if _, err := server.Do(ctx, http.MethodGet, "/personal_access_tokens/self", nil, &token); err != nil || token.Scopes == nil || slices.Contains(token.Scopes, "api") {
		return context.Cause(ctx)
	}
	return &forge.Obstacle{Kind: forge.ErrNotSignedIn, Said: fmt.Sprintf("the token of %s may %s, and merge requests need api", tokenOrigin, cmp.Or(strings.Join(token.Scopes, ", "), "nothing"))}
}

// explainNotFound turns a 404 on a request for the whole project into a forge.ErrUnsupportedRepository.
func (c *Client) explainNotFound(err error) error {
	if rest.StatusOf(err) != http.StatusNotFound {
		return err
	}
	return &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: fmt.Sprintf("GitLab has no project %s, or the token of %s can't see it", c.project, c.tokenOrigin)}
}
