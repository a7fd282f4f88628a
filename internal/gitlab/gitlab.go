// Package gitlab reads and changes the merge requests of a GitLab by its REST API, version 4 (https://docs.gitlab.com/api/rest). They are
// called pull requests here, as everywhere in Trellis.
//
// A token is given to the one GitLab that it is for, and to no other that a remote may name. What the server says is data: it is parsed,
// checked, and bounded in length and time by package rest.
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

// Place is the GitLab server that there is a token for.
type Place struct {
	URL string // as https://gitlab.com, without a slash at its end
	// Connect returns the server, whose requests are signed with the token, and where the token comes from; the error is rest.ErrNoToken
	// without one.
	Connect func(context.Context) (s *rest.Server, from string, err error)
}

// Client asks for, makes and changes the merge requests of a project. Its methods may be called by several goroutines at once.
type Client struct {
	place   Place
	project string // its path: group/subgroup/name
	foreign string // the host of the project, when that is another than place; "" when it is place

	mu     sync.Mutex
	server *rest.Server // once somebody asked
	from   string       // where its token comes from
	belong map[int]bool // by user id, whether they may push; those who were asked about
}

// NewClient returns a client for the first of these remote addresses that is a project at place. Where there is none, it returns one for
// an address on another host whose name begins with gitlab., whose methods fail with forge.ErrUnsupportedRepository; or else nil.
func NewClient(place Place, addresses []string) *Client {
	site, err := url.Parse(place.URL)
	if err != nil {
		return nil
	}
	normalize(site)
	place.URL = site.String()
	foreign := (*Client)(nil)
	for _, address := range addresses {
		at, ok := parse(address)
		if !ok {
			continue
		}
		c := &Client{place: place, belong: map[int]bool{}}
		switch {
		case at.isOn(site):
			if c.project = at.path; at.isHTTP {
				c.project, ok = strings.CutPrefix("/"+at.path, site.Path+"/")
			}
			if ok && projectPath().MatchString(c.project) {
				return c
			}
		case strings.HasPrefix(at.host, "gitlab.") && projectPath().MatchString(at.path):
			c.project, c.foreign = at.path, at.host
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

// remote is the address of a repository, taken apart.
type remote struct {
	isHTTP     bool   // spoken to by HTTP
	host, port string // in lower case
	path       string // without slashes around it and .git
}

// parse takes apart https://host/path, ssh://user@host/path, and user@host:path.
func parse(address string) (r remote, ok bool) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme == "" || u.Host == "" {
		host, path, found := strings.Cut(address, ":")
		if !found || strings.Contains(host, "/") {
			return r, false
		}
		u = &url.URL{Scheme: "ssh", Host: host[strings.LastIndex(host, "@")+1:], Path: path}
	}
	normalize(u)
	r = remote{isHTTP: u.Scheme == "https" || u.Scheme == "http", host: u.Hostname(), port: u.Port(), path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")}
	return r, r.host != "" && (r.isHTTP || u.Scheme == "ssh" || u.Scheme == "git+ssh")
}

// isOn reports whether the remote is on site. By SSH any port will do; by HTTP the port has to be that of site.
func (r remote) isOn(site *url.URL) bool {
	return r.host == site.Hostname() && (!r.isHTTP || r.port == site.Port()) || r.host == "altssh."+site.Hostname()
}

// askOwn sends a request to a path of the client's project and decodes the JSON response into out, unless that is nil.
func (c *Client) askOwn(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	return c.askProject(ctx, c.project, method, path, in, out)
}

// askProject is askOwn for any project of the server.
func (c *Client) askProject(ctx context.Context, project, method, path string, in, out any) (http.Header, error) {
	return c.ask(ctx, method, "/projects/"+url.PathEscape(project)+path, in, out)
}

func (c *Client) ask(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	server, from, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	h, err := server.Do(ctx, method, path, in, out)
	if rest.StatusOf(err) == http.StatusUnauthorized {
		return h, &forge.Obstacle{Kind: forge.ErrNotSignedIn, Said: "GitLab does not take the token of " + from}
	}
	return h, err
}

// connect returns the server and where its token comes from. The token is read once.
func (c *Client) connect(ctx context.Context) (*rest.Server, string, error) {
	if c.foreign != "" {
		return nil, "", &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: fmt.Sprintf("the repository is at %s, which is not the GitLab that there is a token for (%s)", trellis.VisibleLine(c.foreign), c.place.URL)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return c.server, c.from, nil
	}
	server, from, err := c.place.Connect(ctx)
	switch {
	case errors.Is(err, rest.ErrNoToken):
		return nil, "", &forge.Obstacle{Kind: forge.ErrNoProgramOrToken, Said: "GitLab can't be asked: " + err.Error()}
	case err != nil:
		return nil, "", err
	}
	c.server, c.from = server, from
	return server, from, nil
}

const pageSize = 100

// all returns the objects that GitLab lists at a path of a project. It reads page by page and stops after the page with which there are
// most or more. cut: there are more than were read.
func all[T any](ctx context.Context, c *Client, project, path string, most int) (list []T, cut bool, err error) {
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	page := "1"
	for page != "" && len(list) < most {
		var some []T
		h, err := c.askProject(ctx, project, http.MethodGet, fmt.Sprintf("%s%sper_page=%d&page=%s", path, mark, pageSize, url.QueryEscape(page)), nil, &some)
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
	_, err := c.askOwn(ctx, http.MethodGet, "", nil, &p)
	switch {
	case err != nil:
		return c.noProject(err)
	case p.MergeRequests == "disabled":
		return &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: fmt.Sprintf("project %s has no merge requests: its settings say so", c.project)}
	case p.Archived:
		return &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: fmt.Sprintf("project %s is archived: nothing can be pushed there", c.project)}
	}
	return c.mayWrite(ctx)
}

// mayWrite returns an error if the server says that the token lacks the scope that merge requests need. Older servers don't say it, nor is
// it said of other kinds of tokens.
func (c *Client) mayWrite(ctx context.Context) error {
	server, from, err := c.connect(ctx)
	if err != nil {
		return err
	}
	var token struct{ Scopes []string }
	if _, err := server.Do(ctx, http.MethodGet, "/personal_access_tokens/self", nil, &token); err != nil || token.Scopes == nil || slices.Contains(token.Scopes, "api") {
		return context.Cause(ctx)
	}
	return &forge.Obstacle{Kind: forge.ErrNotSignedIn, Said: fmt.Sprintf("the token of %s may %s, and merge requests need api", from, cmp.Or(strings.Join(token.Scopes, ", "), "nothing"))}
}

// noProject turns a 404 on a request for the whole project into a forge.ErrUnsupportedRepository.
func (c *Client) noProject(err error) error {
	if rest.StatusOf(err) != http.StatusNotFound {
		return err
	}
	return &forge.Obstacle{Kind: forge.ErrUnsupportedRepository, Said: fmt.Sprintf("GitLab has no project %s, or the token of %s can't see it", c.project, c.from)}
}
