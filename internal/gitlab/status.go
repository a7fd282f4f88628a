package gitlab

import (
	"context"
	"net/http"
	"strconv"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/rest"
)

// Status reads the checks and reviews of a merge request.
func (c *Client) Status(ctx context.Context, pr *forge.PR) (s forge.PRStatus, err error) {
	project, path, err := c.locate(pr.URL)
	if err != nil {
		return s, err
	}
	var r mergeRequest
	if _, err := c.requestProject(ctx, project, http.MethodGet, path, nil, &r); err != nil {
		return s, err
	}
	if err := c.addChecks(ctx, project, &r, &s); err != nil {
		return s, err
	}
	s.OfCommit(r.SHA, pr)
	return s, c.addReviews(ctx, project, path, &s)
}

// approvals is the approval state of a merge request. If no approvals are required, Approved is always true.
type approvals struct {
	Approved   bool
	Required   int                     `json:"approvals_required"`
	ApprovedBy []struct{ User person } `json:"approved_by"`
}

// reviewer is a requested reviewer and the state of the review. GitLab has the state requested_changes since 16.9.
type reviewer struct {
	User  person
	State string
}

// addReviews adds to s what reviewers say.
func (c *Client) addReviews(ctx context.Context, project, path string, s *forge.PRStatus) error {
	var a approvals
	if _, err := c.requestProject(ctx, project, http.MethodGet, path+"/approvals", nil, &a); err != nil && rest.StatusOf(err) != http.StatusNotFound {
		return err
	}
	asked, _, err := listAll[reviewer](ctx, c, project, path+"/reviewers", pageSize)
	if err != nil && rest.StatusOf(err) != http.StatusNotFound {
		return err
	}
	refused, approved := false, false // by somebody who belongs to the project
	for _, r := range asked {
		if r.State != "requested_changes" {
			continue
		}
		trusted, err := c.mayPush(ctx, project, r.User)
		if err != nil {
			return err
		}
		w, err := c.requestedChanges(ctx, project, path, r.User)
		if err != nil {
			return err
		}
		w.Trusted, refused = trusted, refused || trusted
		s.Wanted = append(s.Wanted, w)
	}
	for _, by := range a.ApprovedBy {
		trusted, err := c.mayPush(ctx, project, by.User)
		if err != nil {
			return err
		}
		approved = approved || trusted
	}
	switch {
	case refused:
		s.Review = forge.ChangesWanted
	case a.Required > 0 && !a.Approved:
		s.Review = forge.ReviewRequired
	case a.Required > 0, approved:
		s.Review = forge.Approved
	}
	return nil
}

// requestedChanges returns the review of a person who requested changes: the comments on the merge request as a whole that they
// wrote since their previous request for changes. Its ID is that of the system note about the request, so that the next request
// is another review.
func (c *Client) requestedChanges(ctx context.Context, project, path string, who person) (forge.Review, error) {
	notes, _, err := listAll[note](ctx, c, project, path+"/notes?sort=desc&order_by=created_at", maxNotes)
	if err != nil {
		return forge.Review{}, err
	}
	w := forge.Review{ID: "of " + strconv.Itoa(who.ID), Author: who.Username}
	asked := false
	for _, n := range notes { // the newest comes first
		switch {
		case n.Author.ID != who.ID:
		case n.System && n.Body == "requested changes" && asked:
			return w, nil
		case n.System && n.Body == "requested changes":
			w.ID, asked = strconv.Itoa(n.ID), true
		case !n.System && n.Type != "DiffNote":
			if w.Text != "" {
				w.Text = "\n\n" + w.Text
			}
			w.Text = n.Body + w.Text
		}
	}
	return w, nil
}
