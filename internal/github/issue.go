package github

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Issue is an issue, without anything that people wrote in it.
type Issue struct {
	Number     int
	URL, State string
}

// NewIssue is an issue to be created.
type NewIssue struct {
	Title, Body string
	Label       string // created if it doesn't exist; must not contain a comma
	Mark        string // a part of Body that no other issue with that label contains; identifies the issue later
}

// maxIssues is how many issues with a label are searched, the newest first. pageSize is how many are requested at once: so few
// that their texts stay below maxAnswer.
const maxIssues, pageSize = 1000, 50

// EnsureIssue returns the issue with that mark, open or closed, and creates it if there is none. It may be repeated after an
// interruption, and then finds what was created. It doesn't use GitHub's search, whose index is updated with a delay.
func (gh *Client) EnsureIssue(ctx context.Context, n NewIssue) (*Issue, error) {
	if n.Mark == "" || !strings.Contains(n.Body, n.Mark) {
		return nil, errors.New("making an issue: its text lacks its mark")
	}
	if strings.Contains(n.Label, ",") {
		return nil, fmt.Errorf("making an issue: there is a comma in its label %q", n.Label)
	}
	p, err := gh.repository(ctx)
	if err != nil {
		return nil, err
	}
	found, err := gh.findMarked(ctx, p, n)
	if err != nil || found != nil {
		return found, err
	}
	i, err := gh.createIssue(ctx, p, n)
	if err == nil || errors.Is(err, ErrNoProgram) || errors.Is(err, ErrNotSignedIn) || ctx.Err() != nil {
		return i, err
	}
	found, findErr := gh.findMarked(ctx, p, n) // the answer may have been lost
	if findErr != nil || found == nil {
		return nil, err
	}
	return found, nil
}

// issue is an issue in the JSON of GitHub.
type issue struct {
	Number      int
	Address     string `json:"html_url"`
	State, Body string
	Pull        any `json:"pull_request"` // GitHub lists pull requests as issues too
}

func (i issue) toIssue() (*Issue, error) {
	if i.Number < 1 || !isAddress(i.Address) {
		return nil, fmt.Errorf("issue %d at %q: that is none", i.Number, i.Address)
	}
	return &Issue{Number: i.Number, URL: i.Address, State: strings.ToUpper(i.State)}, nil
}

// createIssue creates the issue, and its label if that doesn't exist.
func (gh *Client) createIssue(ctx context.Context, p repository, n NewIssue) (*Issue, error) {
	out, err := gh.callAPI(ctx, p, "POST", "issues", map[string]any{"title": n.Title, "body": n.Body, "labels": []string{n.Label}})
	if err != nil {
		return nil, err
	}
	var made issue
	if err := decode(out, "a new issue", &made); err != nil {
		return nil, err
	}
	return made.toIssue()
}

// findMarked returns the oldest issue with a mark. It doesn't use gh issue list, which uses the search if it is given a label.
func (gh *Client) findMarked(ctx context.Context, p repository, n NewIssue) (best *Issue, err error) {
	for at := 1; at <= maxIssues/pageSize; at++ {
		out, err := gh.callAPI(ctx, p, "GET", fmt.Sprintf("issues?state=all&per_page=%d&page=%d&labels=%s", pageSize, at, url.QueryEscape(n.Label)), nil)
		if err != nil {
			return nil, err
		}
		var list []issue
		if err := decode(out, "the issues labelled "+n.Label, &list); err != nil {
			return nil, err
		}
		for _, i := range list {
			if i.Pull != nil || !strings.Contains(i.Body, n.Mark) {
				continue
			}
			if best, err = i.toIssue(); err != nil { // the newest come first
				return nil, err
			}
		}
		if len(list) < pageSize {
			break
		}
	}
	return best, nil
}
