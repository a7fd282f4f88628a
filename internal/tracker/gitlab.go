package tracker

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/trellis-tasks/trellis/internal/rest"
)

// gitlabSite is the public GitLab server, used unless the settings name another one.
const gitlabSite = "https://gitlab.com"

// gitlab reads a GitLab server by its REST API, version 4.
type gitlab struct{ server *rest.Server }

func gitlabServer(site, token string) *rest.Server {
	return &rest.Server{Name: "GitLab", Base: site + "/api/v4", Sign: func(h http.Header) { h.Set("PRIVATE-TOKEN", token) }}
}

// gitlabPath returns the path of an issue in the API: the project is one path element, with its slashes escaped.
func gitlabPath(key string) string {
	project, iid, _ := strings.Cut(key, "#")
	return "/projects/" + url.PathEscape(project) + "/issues/" + iid
}

func (g *gitlab) Issue(ctx context.Context, key string) (*Issue, error) {
	var from struct {
		IID                       int
		Title, Description, State string
		Author                    struct{ Name string }
		Labels                    []string
		WebURL                    string `json:"web_url"`
	}
	if _, err := g.server.Do(ctx, http.MethodGet, gitlabPath(key), nil, &from); err != nil {
		return nil, err
	}
	i := &Issue{Ref: Ref{Kind: GitLab, Key: key}, Name: fmt.Sprintf("#%d", from.IID), URL: from.WebURL, State: from.State, Title: from.Title, Body: from.Description, Author: from.Author.Name, Labels: from.Labels}
	if from.State == "opened" {
		i.State = "open"
	}
	var links []struct {
		LinkType   string `json:"link_type"`
		State      string
		References struct{ Full string }
	}
	if _, err := g.server.Do(ctx, http.MethodGet, gitlabPath(key)+"/links", nil, &links); err != nil && !isMissing(err) {
		return nil, err
	}
	for _, l := range links {
		if l.LinkType == "is_blocked_by" {
			i.Blockers = append(i.Blockers, Blocker{Ref{Kind: GitLab, Key: l.References.Full}, l.State == "closed"})
		}
	}
	return withComments(ctx, g, i, key)
}

// Comments leaves out the notes that GitLab writes itself.
func (g *gitlab) Comments(ctx context.Context, key string) (list []Comment, err error) {
	for page := "1"; page != "" && len(list) < maxComments; {
		var notes []struct {
			Body   string
			At     string `json:"created_at"`
			System bool
			Author struct{ Name string }
		}
		h, err := g.server.Do(ctx, http.MethodGet, fmt.Sprintf("%s/notes?sort=asc&order_by=created_at&per_page=%d&page=%s", gitlabPath(key), pageSize, url.QueryEscape(page)), nil, &notes)
		if err != nil {
			return nil, err
		}
		for _, n := range notes {
			if !n.System {
				list = append(list, Comment{n.Author.Name, n.Body, n.At})
			}
		}
		page = h.Get("X-Next-Page")
	}
	return sortComments(list), nil
}

func (g *gitlab) Comment(ctx context.Context, key, text string) error {
	_, err := g.server.Do(ctx, http.MethodPost, gitlabPath(key)+"/notes", map[string]string{"body": text}, nil)
	return err
}
