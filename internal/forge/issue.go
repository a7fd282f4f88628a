package forge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Issue is an issue. Nothing that people wrote in it is read.
type Issue struct {
	Number     int
	URL, State string
}

// NewIssue is an issue to be made.
type NewIssue struct {
	Title, Body string
	Label       string // made where there is none of that name
	Mark        string // a part of Body that no other issue with that label has: by it the issue is found again
}

// maxIssues is among how many issues with a label one is looked for, the newest first.
const maxIssues = 1000

// EnsureIssue is the issue with that mark, open or closed, and makes it when there is none. It may be called again after
// it was cut off: then it finds what was made. Search is not asked, which learns of an issue some time after it
// was made.
func (f *Forge) EnsureIssue(ctx context.Context, n NewIssue) (*Issue, error) {
	if n.Mark == "" || !strings.Contains(n.Body, n.Mark) {
		return nil, errors.New("making an issue: its text lacks its mark")
	}
	found, err := f.marked(ctx, n)
	if err != nil || found != nil {
		return found, err
	}
	if _, err := f.call(ctx, []string{"label", "create", n.Label}, ""); err != nil && !errors.As(err, new(*Error)) {
		return nil, err
	} // else it is there, or making the issue says what is wrong
	out, err := f.call(ctx, []string{"issue", "create", "--title=" + n.Title, "--label=" + quoted(n.Label), "--body-file=-"}, n.Body)
	if errors.Is(err, ErrNoProgram) || errors.Is(err, ErrNotSignedIn) || err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err == nil {
		if url, number := numbered(out, "/issues/"); number > 0 {
			return &Issue{Number: number, URL: url, State: Open}, nil
		}
		err = errors.New("gh issue create: it named no issue, and there is none")
	}
	found, findErr := f.marked(ctx, n) // the answer may have been lost
	if findErr != nil || found == nil {
		return nil, err
	}
	return found, nil
}

// marked is the issue with a mark, the oldest of several.
func (f *Forge) marked(ctx context.Context, n NewIssue) (*Issue, error) {
	out, err := f.call(ctx, []string{"issue", "list", "--label=" + quoted(n.Label), "--state=all", "--limit=" + strconv.Itoa(maxIssues), "--json=number,url,state,body"}, "")
	if err != nil {
		return nil, err
	}
	var list []struct {
		Issue
		Body string
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return nil, fmt.Errorf("reading what gh says of the issues labelled %s: %w", n.Label, err)
	}
	var best *Issue
	for _, i := range list {
		if strings.Contains(i.Body, n.Mark) && i.Number > 0 && address(i.URL) && (best == nil || i.Number < best.Number) {
			best = &i.Issue
		}
	}
	return best, nil
}
