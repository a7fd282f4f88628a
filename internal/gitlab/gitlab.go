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

// Place is the GitLab that there is a token for.
type Place struct {
	URL string // as https://gitlab.com, without a slash at its end
	// Sign is the server as who asks, and where the token comes from. rest.ErrNoToken is an error of it.
	Sign func(context.Context) (s *rest.Server, from string, err error)
}

// Client asks for, makes and changes the merge requests of a project. Its methods may be called by several goroutines at once.
type Client struct {
	place   Place
	project string // its path: group/subgroup/name
	foreign string // the host, when it is another GitLab than that of place; "": it is that one

	mu     sync.Mutex
	server *rest.Server // once somebody asked
	from   string       // where its token comes from
	belong map[int]bool // who is known to belong to the project, or not to
}

// At is the client for the repository with one of these addresses, nil when none is that of a project on a GitLab: on the one of place, or on
// a host whose name begins with gitlab.
func At(place Place, addresses []string) *Client {
	site, err := url.Parse(place.URL)
	if err != nil {
		return nil
	}
	plain(site)
	place.URL = site.String()
	foreign := (*Client)(nil)
	for _, address := range addresses {
		at, ok := parse(address)
		if !ok {
			continue
		}
		c := &Client{place: place, belong: map[int]bool{}}
		switch {
		case at.at(site):
			if c.project = at.path; at.web {
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

// plain makes an address one that GitLab would give for the same place: its host in lower case, without the port that all use and a slash at
// its end.
func plain(u *url.URL) {
	u.Host, u.Path = strings.ToLower(u.Host), strings.TrimSuffix(u.Path, "/")
	if port := u.Port(); port == map[string]string{"https": "443", "http": "80"}[u.Scheme] {
		u.Host = strings.TrimSuffix(u.Host, ":"+port)
	}
}

var projectPath = trellis.Pattern(`^[\w.+-]+(/[\w.+-]+)+$`)

// remote is the address of a repository, taken apart.
type remote struct {
	web        bool   // spoken to by HTTP
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
	plain(u)
	r = remote{web: u.Scheme == "https" || u.Scheme == "http", host: u.Hostname(), port: u.Port(), path: strings.TrimSuffix(strings.Trim(u.Path, "/"), ".git")}
	return r, r.host != "" && (r.web || u.Scheme == "ssh" || u.Scheme == "git+ssh")
}

// at reports whether it is on a site. Each has one host; by HTTP it has one port, too.
func (r remote) at(site *url.URL) bool {
	return r.host == site.Hostname() && (!r.web || r.port == site.Port()) || r.host == "altssh."+site.Hostname()
}

// do sends a request about the project, and reads the answer into out, unless that is nil.
func (c *Client) do(ctx context.Context, method, path string, in, out any) (http.Header, error) {
	return c.about(ctx, c.project, method, path, in, out)
}

// about sends a request about some project of the same server.
func (c *Client) about(ctx context.Context, project, method, path string, in, out any) (http.Header, error) {
	return c.send(ctx, method, "/projects/"+url.PathEscape(project)+path, in, out)
}

func (c *Client) send(ctx context.Context, method, path string, in, out any) (http.Header, error) {
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

// connect is the server, asked for its token once.
func (c *Client) connect(ctx context.Context) (*rest.Server, string, error) {
	if c.foreign != "" {
		return nil, "", &forge.Obstacle{Kind: forge.ErrElsewhere, Said: fmt.Sprintf("the repository is at %s, which is not the GitLab that there is a token for (%s)", trellis.VisibleLine(c.foreign), c.place.URL)}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.server != nil {
		return c.server, c.from, nil
	}
	server, from, err := c.place.Sign(ctx)
	switch {
	case errors.Is(err, rest.ErrNoToken):
		return nil, "", &forge.Obstacle{Kind: forge.ErrNoMeans, Said: "GitLab can't be asked: " + err.Error()}
	case err != nil:
		return nil, "", err
	}
	c.server, c.from = server, from
	return server, from, nil
}

const pageSize = 100

// all are the things at a path of the project, page by page, at least most of them where there are so many. cut: there are more.
func all[T any](ctx context.Context, c *Client, project, path string, most int) (list []T, cut bool, err error) {
	mark := "?"
	if strings.Contains(path, "?") {
		mark = "&"
	}
	page := "1"
	for page != "" && len(list) < most {
		var some []T
		h, err := c.about(ctx, project, http.MethodGet, fmt.Sprintf("%s%sper_page=%d&page=%s", path, mark, pageSize, url.QueryEscape(page)), nil, &some)
		if err != nil {
			return nil, false, err
		}
		list = append(list, some...)
		page = h.Get("X-Next-Page")
	}
	return list, page != "", nil
}

// SignedIn is nil when the server knows the project, takes the token for all that is needed, and has merge requests there. Else it is an error of package forge, or
// what the server says.
func (c *Client) SignedIn(ctx context.Context) error {
	var p struct {
		MergeRequests string `json:"merge_requests_access_level"`
		Archived      bool
	}
	_, err := c.do(ctx, http.MethodGet, "", nil, &p)
	switch {
	case err != nil:
		return c.unseen(err)
	case p.MergeRequests == "disabled":
		return &forge.Obstacle{Kind: forge.ErrElsewhere, Said: fmt.Sprintf("project %s has no merge requests: its settings say so", c.project)}
	case p.Archived:
		return &forge.Obstacle{Kind: forge.ErrElsewhere, Said: fmt.Sprintf("project %s is archived: nothing can be pushed there", c.project)}
	}
	return c.mayWrite(ctx)
}

// mayWrite is an error when the server says that the token has another scope than merge requests need. Older ones, and those asked with other
// kinds of tokens, don't say.
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

// unseen is the error of a question about the whole project: what is not found then is the project.
func (c *Client) unseen(err error) error {
	if rest.StatusOf(err) != http.StatusNotFound {
		return err
	}
	return &forge.Obstacle{Kind: forge.ErrElsewhere, Said: fmt.Sprintf("GitLab has no project %s, or the token of %s can't see it", c.project, c.from)}
}
