package tracker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/trellis-tasks/trellis/internal/rest"
)

// jira reads Jira: with an email Jira Cloud, whose texts are document trees, else a Data Center server, whose texts are plain.
type jira struct {
	server *rest.Server
	site   string // address at which people open issues
	api    string // path of the API
	cloud  bool
}

func newJira(site, email, token string) *jira {
	j := &jira{server: &rest.Server{Name: "Jira", Base: site}, site: site, api: "/rest/api/2", cloud: email != ""}
	j.server.Sign = func(h http.Header) { h.Set("Authorization", "Bearer "+token) }
	if j.cloud {
		j.api = "/rest/api/3"
		j.server.Sign = func(h http.Header) {
			r := http.Request{Header: h}
			r.SetBasicAuth(email, token)
		}
	}
	return j
}

func (j *jira) path(key string) string { return j.api + "/issue/" + url.PathEscape(key) }

func (j *jira) Issue(ctx context.Context, key string) (*Issue, error) {
	type named struct{ Name string }
	var from struct {
		Key    string
		Fields struct {
			Summary     string
			Description json.RawMessage
			Labels      []string
			Priority    named
			Status      named
			Reporter    struct{ DisplayName string }
			IssueLinks  []struct {
				Type        struct{ Inward string }
				InwardIssue *struct {
					Key    string
					Fields struct {
						Status struct{ StatusCategory struct{ Key string } }
					}
				}
			}
		}
	}
	if _, err := j.server.Do(ctx, http.MethodGet, j.path(key)+"?fields=summary,description,labels,priority,status,reporter,issuelinks", nil, &from); err != nil {
		return nil, err
	}
	f := from.Fields
	i := &Issue{Ref: Ref{Kind: Jira, Key: from.Key}, Name: from.Key, URL: j.site + "/browse/" + from.Key, State: f.Status.Name, Title: f.Summary, Body: toMarkdown(f.Description), Author: f.Reporter.DisplayName, Labels: f.Labels, Urgency: urgency(f.Priority.Name)}
	for _, l := range f.IssueLinks {
		if l.InwardIssue != nil && strings.EqualFold(l.Type.Inward, "is blocked by") {
			i.Blockers = append(i.Blockers, Blocker{Ref{Kind: Jira, Key: l.InwardIssue.Key}, l.InwardIssue.Fields.Status.StatusCategory.Key == "done"})
		}
	}
	return withComments(ctx, j, i, key)
}

func (j *jira) Comments(ctx context.Context, key string) (list []Comment, err error) {
	for len(list) < maxComments {
		var page struct {
			Total    int
			Comments []struct {
				Author  struct{ DisplayName string }
				Body    json.RawMessage
				Created string
			}
		}
		if _, err := j.server.Do(ctx, http.MethodGet, fmt.Sprintf("%s/comment?startAt=%d&maxResults=%d", j.path(key), len(list), pageSize), nil, &page); err != nil {
			return nil, err
		}
		for _, c := range page.Comments {
			list = append(list, Comment{c.Author.DisplayName, toMarkdown(c.Body), c.Created})
		}
		if len(page.Comments) == 0 || len(list) >= page.Total {
			break
		}
	}
	return sortComments(list), nil
}

func (j *jira) Comment(ctx context.Context, key, text string) error {
	body := any(text)
	if j.cloud {
		body = toDocument(text)
	}
	_, err := j.server.Do(ctx, http.MethodPost, j.path(key)+"/comment", map[string]any{"body": body}, nil)
	return err
}
