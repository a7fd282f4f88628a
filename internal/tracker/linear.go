package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/trellis-tasks/trellis/internal/rest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// linearSite is the address of Linear's API.
const linearSite = "https://api.linear.app"

// linear reads Linear by its GraphQL API, which may answer 200 to a request that it refuses.
type linear struct{ server *rest.Server }

// newLinear authenticates with a personal API key, which is the whole header; only OAuth tokens are preceded by Bearer.
func newLinear(base, token string) *linear {
	return &linear{&rest.Server{Name: "Linear", Base: base, Sign: func(h http.Header) { h.Set("Authorization", token) }, Refused: func(e *rest.Error, data []byte) {
		var answer struct{ Errors []linearError }
		if json.Unmarshal(data, &answer) == nil && len(answer.Errors) > 0 {
			answer.Errors[0].explain(e)
		}
	}}}
}

// linearError is an error in Linear's answer to a query.
type linearError struct {
	Message    string
	Extensions struct{ Code string }
}

// explain sets the HTTP status that other servers would use, and the time to wait.
func (l *linearError) explain(e *rest.Error) {
	switch {
	case strings.HasPrefix(l.Message, "Entity not found"):
		e.Status = http.StatusNotFound
	case l.Extensions.Code == "AUTHENTICATION_ERROR":
		e.Status = http.StatusUnauthorized
	case l.Extensions.Code == "RATELIMITED":
		e.Status, e.Wait = http.StatusTooManyRequests, max(e.Wait, linearRetryDelay(e.Header))
	}
}

// linearRetryDelay returns the time until all exhausted limits are reset, by Linear's clock, which counts in milliseconds.
func linearRetryDelay(h http.Header) (wait time.Duration) {
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return 0
	}
	for _, of := range []string{"Requests", "Endpoint-Requests", "Complexity"} {
		at, err := strconv.ParseInt(h.Get("X-RateLimit-"+of+"-Reset"), 10, 64)
		if left := h.Get("X-RateLimit-" + of + "-Remaining"); err == nil && left == "0" {
			wait = max(wait, time.UnixMilli(at).Sub(now))
		}
	}
	return wait
}

const linearIssueQuery = `query Issue($id: String!) { issue(id: $id) { id identifier title description url priority state { name } creator { name }
  labels(first: 50) { nodes { name } }
  inverseRelations(first: 50) { nodes { type issue { identifier state { type } } } } } }`

const linearCommentsQuery = `query Comments($id: String!, $first: Int!, $after: String) { issue(id: $id) { id
  comments(first: $first, after: $after) { nodes { body createdAt user { name } } pageInfo { hasNextPage endCursor } } } }`

const linearCommentMutation = `mutation Comment($input: CommentCreateInput!) { commentCreate(input: $input) { success } }`

// query sends a query. It returns an error in Linear's answer as an error, whatever the status.
func (l *linear) query(ctx context.Context, query string, variables map[string]any, data any) error {
	answer := struct {
		Data   any
		Errors []linearError
	}{Data: data}
	h, err := l.server.Do(ctx, http.MethodPost, "/graphql", map[string]any{"query": query, "variables": variables}, &answer)
	if err != nil || len(answer.Errors) == 0 {
		return err
	}
	first := answer.Errors[0]
	no := &rest.Error{Server: l.server.Name, Asked: "a query", Status: http.StatusBadRequest, Said: trellis.VisibleLine(first.Message), Header: h}
	first.explain(no)
	return no
}

func (l *linear) Issue(ctx context.Context, key string) (*Issue, error) {
	var data struct {
		Issue *struct {
			Identifier, Title, Description, URL string
			Priority                            float64
			State                               struct{ Name string }
			Creator                             struct{ Name string }
			Labels                              struct{ Nodes []struct{ Name string } }
			InverseRelations                    struct {
				Nodes []struct {
					Type  string
					Issue struct {
						Identifier string
						State      struct{ Type string }
					}
				}
			}
		}
	}
	if err := l.query(ctx, linearIssueQuery, map[string]any{"id": key}, &data); err != nil {
		return nil, err
	}
	from := data.Issue
	if from == nil {
		return nil, &rest.Error{Server: l.server.Name, Asked: "a query", Status: http.StatusNotFound}
	}
	i := &Issue{Ref: Ref{Kind: Linear, Key: from.Identifier}, Name: from.Identifier, URL: from.URL, State: from.State.Name, Title: from.Title, Body: from.Description, Author: from.Creator.Name}
	if p := int(from.Priority); p >= 1 && p <= 4 { // 0: no priority
		i.Urgency = fmt.Sprintf("P%d", p-1)
	}
	for _, n := range from.Labels.Nodes {
		i.Labels = append(i.Labels, n.Name)
	}
	for _, r := range from.InverseRelations.Nodes {
		if r.Type == "blocks" {
			i.Blockers = append(i.Blockers, Blocker{Ref{Kind: Linear, Key: r.Issue.Identifier}, r.Issue.State.Type == "completed" || r.Issue.State.Type == "canceled"})
		}
	}
	return withComments(ctx, l, i, key)
}

func (l *linear) Comments(ctx context.Context, key string) (list []Comment, err error) {
	for after := any(nil); len(list) < maxComments; {
		var data struct {
			Issue struct {
				Comments struct {
					Nodes []struct {
						Body, CreatedAt string
						User            struct{ Name string }
					}
					PageInfo struct {
						HasNextPage bool
						EndCursor   string
					}
				}
			}
		}
		if err := l.query(ctx, linearCommentsQuery, map[string]any{"id": key, "first": pageSize, "after": after}, &data); err != nil {
			return nil, err
		}
		page := data.Issue.Comments
		for _, c := range page.Nodes {
			list = append(list, Comment{c.User.Name, c.Body, c.CreatedAt})
		}
		if !page.PageInfo.HasNextPage {
			break
		}
		after = page.PageInfo.EndCursor
	}
	return sortComments(list), nil
}

func (l *linear) Comment(ctx context.Context, key, text string) error {
	var issue struct{ Issue *struct{ ID string } }
	if err := l.query(ctx, `query Id($id: String!) { issue(id: $id) { id } }`, map[string]any{"id": key}, &issue); err != nil {
		return err
	}
	if issue.Issue == nil {
		return &rest.Error{Server: l.server.Name, Asked: "a query", Status: http.StatusNotFound}
	}
	var made struct{ CommentCreate struct{ Success bool } }
	if err := l.query(ctx, linearCommentMutation, map[string]any{"input": map[string]any{"issueId": issue.Issue.ID, "body": text}}, &made); err != nil {
		return err
	}
	if !made.CommentCreate.Success {
		return errors.New("Linear took no comment, and does not say why")
	}
	return nil
}
