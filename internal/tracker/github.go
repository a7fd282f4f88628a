package tracker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/trellis-tasks/trellis/internal/rest"
)

// githubREST reads GitHub by its REST API, if gh isn't installed.
type githubREST struct{ server *rest.Server }

// githubBase returns the address of the API of a GitHub host. A GitHub Enterprise server has it below its own address.
func githubBase(host string) string {
	if host == "" || host == "github.com" {
		return "https://api.github.com"
	}
	return "https://" + host + "/api/v3"
}

func newGitHub(base, token string) *githubREST {
	return &githubREST{&rest.Server{Name: "GitHub", Base: base, Sign: func(h http.Header) {
		h.Set("Authorization", "Bearer "+token)
		h.Set("Accept", "application/vnd.github+json")
		h.Set("X-GitHub-Api-Version", "2022-11-28")
	}}}
}

// githubParts splits a key into the host ("" for github.com), the repository and the number.
func githubParts(key string) (host, repo, number string) {
	repo, number, _ = strings.Cut(key, "#")
	if strings.Count(repo, "/") == 2 {
		host, repo, _ = strings.Cut(repo, "/")
	}
	return host, repo, number
}

func githubPath(key string) string {
	_, repo, number := githubParts(key)
	return "/repos/" + repo + "/issues/" + number
}

func (g *githubREST) Issue(ctx context.Context, key string) (*Issue, error) {
	var from struct {
		Number      int
		URL         string `json:"html_url"`
		State       string
		Title, Body string
		User        struct{ Login string }
		Labels      []struct{ Name string }
		Pull        any `json:"pull_request"`
	}
	if _, err := g.server.Do(ctx, http.MethodGet, githubPath(key), nil, &from); err != nil {
		return nil, err
	}
	if from.Pull != nil {
		return nil, errors.New("it is a pull request")
	}
	i := &Issue{Ref: Ref{Kind: GitHub, Key: key}, Name: fmt.Sprintf("#%d", from.Number), URL: from.URL, State: from.State, Title: from.Title, Body: from.Body, Author: from.User.Login}
	for _, l := range from.Labels {
		i.Labels = append(i.Labels, l.Name)
	}
	if err := g.blockers(ctx, key, i); err != nil {
		return nil, err
	}
	return withComments(ctx, g, i, key)
}

// blockers adds the issues that block an issue. Only newer GitHub versions return them.
func (g *githubREST) blockers(ctx context.Context, key string, i *Issue) error {
	var list []struct {
		Number     int
		State      string
		Repository struct {
			Name string `json:"full_name"`
		}
	}
	if _, err := g.server.Do(ctx, http.MethodGet, githubPath(key)+"/dependencies/blocked_by?per_page=100", nil, &list); err != nil {
		if isMissing(err) {
			return nil
		}
		return err
	}
	host, repo, _ := githubParts(key)
	for _, b := range list {
		name := cmp.Or(b.Repository.Name, repo)
		if host != "" {
			name = host + "/" + name
		}
		i.Blockers = append(i.Blockers, Blocker{Ref{Kind: GitHub, Key: fmt.Sprintf("%s#%d", name, b.Number)}, b.State == "closed"})
	}
	return nil
}

func (g *githubREST) Comments(ctx context.Context, key string) (list []Comment, err error) {
	for page := 1; len(list) < maxComments; page++ {
		var some []struct {
			Body string
			At   string `json:"created_at"`
			User struct{ Login string }
		}
		if _, err := g.server.Do(ctx, http.MethodGet, fmt.Sprintf("%s/comments?per_page=%d&page=%d", githubPath(key), pageSize, page), nil, &some); err != nil {
			return nil, err
		}
		for _, c := range some {
			list = append(list, Comment{c.User.Login, c.Body, c.At})
		}
		if len(some) < pageSize {
			break
		}
	}
	return sortComments(list), nil
}

func (g *githubREST) Comment(ctx context.Context, key, text string) error {
	_, err := g.server.Do(ctx, http.MethodPost, githubPath(key)+"/comments", map[string]string{"body": text}, nil)
	return err
}
