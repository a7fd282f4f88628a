package github

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// Pull requests are changed by gh api, with their address: gh pr edit before 2.82.1 also queries the cards of classic projects,
// which GitHub has removed, and therefore fails without changing anything.

// EditBody replaces the text of the pull request with that address.
func (gh *Client) EditBody(ctx context.Context, address, body string) error {
	p, number, err := parsePullURL(address)
	if err != nil {
		return err
	}
	_, err = gh.callAPI(ctx, p, "PATCH", "pulls/"+number, map[string]string{"body": body})
	return err
}

// Label adds an existing label. It may be repeated without harm.
func (gh *Client) Label(ctx context.Context, address, label string) error {
	p, number, err := parsePullURL(address)
	if err != nil {
		return err
	}
	if _, err := gh.callAPI(ctx, p, "GET", "labels/"+url.PathEscape(label), nil); err != nil { // GitHub would create a missing label
		return fmt.Errorf("looking for the label %q: %w", label, err)
	}
	_, err = gh.callAPI(ctx, p, "POST", "issues/"+number+"/labels", map[string][]string{"labels": {label}})
	return err
}

// AskReview requests a review from a person or a team (ORG/TEAM). It may be repeated without harm.
func (gh *Client) AskReview(ctx context.Context, address, who string) error {
	p, number, err := parsePullURL(address)
	if err != nil {
		return err
	}
	kind := "reviewers"
	if _, team, is := strings.Cut(who, "/"); is {
		kind, who = "team_reviewers", team
	}
	_, err = gh.callAPI(ctx, p, "POST", "pulls/"+number+"/requested_reviewers", map[string][]string{kind: {who}})
	return err
}
