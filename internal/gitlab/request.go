package gitlab

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/rest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// draftPrefix is the prefix of the title of a draft.
const draftPrefix = "Draft: "

// mergeRequest is a merge request as GitLab's API returns it.
type mergeRequest struct {
	IID             int
	WebURL          string `json:"web_url"`
	State           string // opened, closed, merged, or locked while it is being merged
	Draft           bool
	SHA             string
	SourceBranch    string `json:"source_branch"`
	TargetBranch    string `json:"target_branch"`
	SourceProjectID int    `json:"source_project_id"`
	TargetProjectID int    `json:"target_project_id"`
	Title           string
	Description     string
	Reviewers       []person
	HeadPipeline    *pipeline `json:"head_pipeline"`
}

type person struct {
	ID       int
	Username string
}

func (r *mergeRequest) toPR() (*forge.PR, error) {
	state := map[string]string{"opened": forge.Open, "locked": forge.Open, "closed": forge.Closed, "merged": forge.Merged}[r.State]
	switch {
	case r.IID < 1:
		return nil, errors.New("a merge request has no number")
	case state == "":
		return nil, fmt.Errorf("a merge request has the unknown state %q", r.State)
	}
	if _, _, err := parsePullURL(r.WebURL); err != nil {
		return nil, err
	}
	return &forge.PR{Number: r.IID, URL: r.WebURL, State: state, Draft: r.Draft, HeadSHA: r.SHA, BaseRef: r.TargetBranch,
		Title: strings.TrimPrefix(r.Title, draftPrefix), Body: r.Description}, nil
}

// Find returns the merge request of a branch of this project: the open one, else the newest; nil if there never was one.
func (c *Client) Find(ctx context.Context, head string) (best *forge.PR, err error) {
	list, _, err := listAll[mergeRequest](ctx, c, c.project, "/merge_requests?state=all&scope=all&order_by=created_at&sort=desc&source_branch="+url.QueryEscape(head), pageSize)
	if err != nil {
		return nil, c.explainNotFound(err)
	}
	for _, r := range list {
		if r.SourceProjectID != r.TargetProjectID || r.SourceBranch != head {
			continue
		}
		pr, err := r.toPR()
		if err != nil {
			return nil, fmt.Errorf("reading what GitLab says of the merge requests of %s: %w", head, err)
		}
		if best == nil || pr.State == forge.Open && best.State != forge.Open || (pr.State == forge.Open) == (best.State == forge.Open) && pr.Number > best.Number {
			best = pr
		}
	}
	return best, nil
}

// Create opens a merge request. Callers call Find first. If GitLab refuses because an interrupted call has opened one
// meanwhile, Create returns that one.
func (c *Client) Create(ctx context.Context, n forge.NewPR) (*forge.PR, error) {
	title := n.Title
	if n.Draft {
		title = draftPrefix + title
	}
	var made mergeRequest
	_, err := c.requestOwn(ctx, http.MethodPost, "/merge_requests", map[string]string{"source_branch": n.Head, "target_branch": n.Base, "title": title, "description": n.Body}, &made)
	if err == nil {
		return made.toPR()
	}
	if errors.As(err, new(*forge.Obstacle)) || ctx.Err() != nil {
		return nil, err
	}
	if pr, findErr := c.Find(ctx, n.Head); findErr == nil && pr != nil && pr.State == forge.Open {
		return pr, nil
	}
	return nil, err
}

// pullURL matches the address of a merge request, and captures its number and the project's path, including the site's.
var pullURL = trellis.Pattern(`^https?://[^/\s]+/((?:[\w.+-]+/)+[\w.+-]+)/-/merge_requests/([1-9][0-9]{0,9})$`)

func parsePullURL(address string) (project, number string, err error) {
	found := pullURL().FindStringSubmatch(address)
	if found == nil {
		return "", "", fmt.Errorf("%q is not the address of a merge request", address)
	}
	return found[1], found[2], nil
}

// locate returns the project of the merge request with that address, and the path of the merge request in the API. An address of another
// server is an error.
func (c *Client) locate(address string) (project, path string, err error) {
	project, number, err := parsePullURL(address)
	if err != nil {
		return "", "", err
	}
	site, err := url.Parse(c.place.URL)
	if err != nil {
		return "", "", err
	}
	ours := strings.HasPrefix(address, c.place.URL+"/")
	project, below := strings.CutPrefix("/"+project, site.Path+"/")
	if !ours || !below {
		return "", "", fmt.Errorf("%s is not at %s", address, c.place.URL)
	}
	return project, "/merge_requests/" + number, nil
}

func (c *Client) updateMergeRequest(ctx context.Context, address string, with map[string]any) (*mergeRequest, error) {
	project, path, err := c.locate(address)
	if err != nil {
		return nil, err
	}
	var now mergeRequest
	_, err = c.requestProject(ctx, project, http.MethodPut, path, with, &now)
	return &now, err
}

// EditBody replaces the text of the merge request with that address.
func (c *Client) EditBody(ctx context.Context, address, body string) error {
	_, err := c.updateMergeRequest(ctx, address, map[string]any{"description": body})
	return err
}

// Label adds a label that the project or one of its groups has. It may be repeated without harm.
func (c *Client) Label(ctx context.Context, address, label string) error {
	project, _, err := c.locate(address)
	if err != nil {
		return err
	}
	if _, err := c.requestProject(ctx, project, http.MethodGet, "/labels/"+url.PathEscape(label), nil, nil); err != nil { // GitLab would create a missing label
		return fmt.Errorf("looking for the label %q: %w", label, err)
	}
	_, err = c.updateMergeRequest(ctx, address, map[string]any{"add_labels": label})
	return err
}

// AskReview requests a review from a person in addition to the current reviewers. It may be repeated without harm.
func (c *Client) AskReview(ctx context.Context, address, who string) error {
	if strings.Contains(who, "/") {
		return errors.New("GitLab asks people to review, and no groups")
	}
	project, path, err := c.locate(address)
	if err != nil {
		return err
	}
	var found []person
	if _, err := c.request(ctx, http.MethodGet, "/users?username="+url.QueryEscape(who), nil, &found); err != nil {
		return err
	}
	if len(found) == 0 {
		return fmt.Errorf("GitLab has no user of that name: %s", who)
	}
	var now mergeRequest
	if _, err := c.requestProject(ctx, project, http.MethodGet, path, nil, &now); err != nil {
		return err
	}
	var ids []int
	for _, p := range now.Reviewers {
		if p.ID == found[0].ID {
			return nil
		}
		ids = append(ids, p.ID)
	}
	ids = append(ids, found[0].ID) // a GitLab that allows only one reviewer takes the first
	after, err := c.updateMergeRequest(ctx, address, map[string]any{"reviewer_ids": ids})
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(after.Reviewers, func(p person) bool { return p.ID == found[0].ID }) {
		return errors.New("GitLab did not take them: it may ask one person alone, or members of the project alone")
	}
	return nil
}

// mayPush reports whether a person is a member of the project, or of one of its groups, with the right to push.
func (c *Client) mayPush(ctx context.Context, project string, p person) (bool, error) {
	c.mu.Lock()
	yes, known := c.pushAccess[p.ID]
	c.mu.Unlock()
	if known {
		return yes, nil
	}
	var member struct {
		AccessLevel int    `json:"access_level"`
		State       string // of the account
	}
	const developer = 30
	_, err := c.requestProject(ctx, project, http.MethodGet, fmt.Sprintf("/members/all/%d", p.ID), nil, &member)
	if err != nil && rest.StatusOf(err) != http.StatusNotFound {
		return false, err
	}
	yes = err == nil && member.AccessLevel >= developer && (member.State == "" || member.State == "active")
	c.mu.Lock()
	c.pushAccess[p.ID] = yes
	c.mu.Unlock()
	return yes, nil
}
