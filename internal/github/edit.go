package github

import (
	"context"
	"fmt"
	"net/url"
	"strings"
)

// What changes a pull request goes by gh api, and names it by its address: gh pr edit of all versions before 2.82.1 asks
// for the cards of classic projects besides, which GitHub has no more, and changes nothing.

// EditBody replaces the text of the pull request with that address.
func (gh *Client) EditBody(ctx context.Context, address, body string) error {
	p, number, err := parsePullURL(address)
	if err != nil {
		return err
	}
	_, err = gh.rest(ctx, p, "PATCH", "pulls/"+number, map[string]string{"body": body})
	return err
}

// Label adds a label that exists. To add one twice does no harm.
func (gh *Client) Label(ctx context.Context, address, label string) error {
	p, number, err := parsePullURL(address)
	if err != nil {
		return err
	}
	if _, err := gh.rest(ctx, p, "GET", "labels/"+url.PathEscape(label), nil); err != nil { // GitHub would make one that is not there
		return fmt.Errorf("looking for the label %q: %w", label, err)
	}
	_, err = gh.rest(ctx, p, "POST", "issues/"+number+"/labels", map[string][]string{"labels": {label}})
	return err
}

// AskReview asks somebody, or a team (ORG/TEAM), to review. To ask twice does no harm.
func (gh *Client) AskReview(ctx context.Context, address, who string) error {
	p, number, err := parsePullURL(address)
	if err != nil {
		return err
	}
	kind := "reviewers"
	if _, team, is := strings.Cut(who, "/"); is {
		kind, who = "team_reviewers", team
	}
	_, err = gh.rest(ctx, p, "POST", "pulls/"+number+"/requested_reviewers", map[string][]string{kind: {who}})
	return err
}
