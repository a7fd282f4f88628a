package gitlab

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/rest"
)

// maxChecks is of how many checks of a commit one hears.
const maxChecks = 500

// pipeline is a run of a project's CI.
type pipeline struct {
	ID       int
	Ref, SHA string
	Status   string
	WebURL   string `json:"web_url"`
}

// of reports whether it is one of a commit that a merge request has now. One that runs on what a merge would make has a commit of its own, on
// a ref refs/merge-requests/N/merge or /train.
func (p *pipeline) of(sha string) bool {
	return p != nil && (p.SHA == "" || p.SHA == sha || strings.HasPrefix(p.Ref, "refs/merge-requests/") && !strings.HasSuffix(p.Ref, "/head"))
}

// job is a job of a pipeline, or what something outside of GitLab says of a commit, which has a target_url.
type job struct {
	ID            int
	Name, Status  string
	WebURL        string `json:"web_url"`
	TargetURL     string `json:"target_url"`
	AllowFailure  bool   `json:"allow_failure"`
	FailureReason string `json:"failure_reason"`
}

// verdict is what a status of a job or a pipeline comes to. A job that waits until somebody starts it is no check.
func verdict(status string, mayFail bool) string {
	switch status {
	case "success", "skipped", "manual":
		return forge.Passed
	case "created", "waiting_for_resource", "waiting_for_callback", "preparing", "pending", "running", "scheduled", "canceling":
		return forge.Pending
	}
	if mayFail {
		return forge.Passed
	}
	return forge.Failed // what is not known to be good
}

// fixable reports whether a change of the code may make a failed job pass: not when it was cancelled, or no machine ran it.
func (j job) fixable() bool {
	return j.Status == "failed" && slices.Contains([]string{"", "script_failure", "job_execution_timeout", "unknown_failure"}, j.FailureReason)
}

// Status asks for the checks and reviews of a merge request.
func (c *Client) Status(ctx context.Context, pr *forge.PR) (s forge.PRStatus, err error) {
	project, path, err := c.named(pr.URL)
	if err != nil {
		return s, err
	}
	var r request
	if _, err := c.about(ctx, project, http.MethodGet, path, nil, &r); err != nil {
		return s, err
	}
	if err := c.checks(ctx, project, &r, &s); err != nil {
		return s, err
	}
	return s, c.reviews(ctx, project, path, &s)
}

// checks are the jobs of the commit's newest pipeline, and what others say of the commit. GitLab may still tell of the pipeline of the one
// before for a moment after a push. What is retried is told by its last try alone.
func (c *Client) checks(ctx context.Context, project string, r *request, s *forge.PRStatus) error {
	var known []int
	if p := r.HeadPipeline; p.of(r.SHA) {
		jobs, err := all[job](ctx, c, project, fmt.Sprintf("/pipelines/%d/jobs", p.ID), maxChecks)
		if err != nil {
			return err
		}
		for _, j := range jobs {
			known = append(known, j.ID)
			s.Note(verdict(j.Status, j.AllowFailure), forge.Check{Name: j.Name, URL: j.WebURL}, j.fixable())
		}
		if whole := verdict(p.Status, false); whole != forge.Passed && s.Checks != forge.Failed { // by a pipeline below it, or a job that is not there yet
			s.Note(whole, forge.Check{Name: "pipeline " + strconv.Itoa(p.ID), URL: p.WebURL}, false)
		}
	}
	if r.SHA == "" {
		return nil
	}
	others, err := all[job](ctx, c, project, "/repository/commits/"+r.SHA+"/statuses", maxChecks)
	if err != nil && rest.StatusOf(err) != http.StatusNotFound {
		return err
	}
	for _, j := range others {
		if !slices.Contains(known, j.ID) {
			s.Note(verdict(j.Status, j.AllowFailure), forge.Check{Name: j.Name, URL: j.TargetURL}, j.fixable())
		}
	}
	return nil
}

// approvals are what a merge request needs to be approved. Where nobody has to approve, it always is.
type approvals struct {
	Approved   bool
	Required   int                     `json:"approvals_required"`
	ApprovedBy []struct{ User person } `json:"approved_by"`
}

// reviewer is somebody who was asked to review, and what came of it: GitLab knows requested_changes since 16.9.
type reviewer struct {
	User  person
	State string
}

// reviews are what reviewers say.
func (c *Client) reviews(ctx context.Context, project, path string, s *forge.PRStatus) error {
	var a approvals
	if _, err := c.about(ctx, project, http.MethodGet, path+"/approvals", nil, &a); err != nil && rest.StatusOf(err) != http.StatusNotFound {
		return err
	}
	asked, err := all[reviewer](ctx, c, project, path+"/reviewers", pageSize)
	if err != nil && rest.StatusOf(err) != http.StatusNotFound {
		return err
	}
	refused, approved := false, false // by somebody who belongs to the project
	for _, r := range asked {
		if r.State != "requested_changes" {
			continue
		}
		trusted, err := c.belongs(ctx, project, r.User)
		if err != nil {
			return err
		}
		w, err := c.wanted(ctx, project, path, r.User)
		if err != nil {
			return err
		}
		w.Trusted, refused = trusted, refused || trusted
		s.Wanted = append(s.Wanted, w)
	}
	for _, by := range a.ApprovedBy {
		trusted, err := c.belongs(ctx, project, by.User)
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

// wanted is the last word of somebody who asks for changes: what they wrote to the merge request as a whole since they did not. It is named by
// the note in which GitLab says that they ask, so that another one is news.
func (c *Client) wanted(ctx context.Context, project, path string, who person) (forge.Review, error) {
	notes, err := all[note](ctx, c, project, path+"/notes?sort=desc&order_by=created_at", maxNotes)
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
