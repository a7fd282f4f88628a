package gitlab

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/rest"
)

// maxChecks is the number of checks of a commit after which no more pages are read.
const maxChecks = 2000

// pipeline is a run of a project's CI.
type pipeline struct {
	ID       int
	Ref, SHA string
	Status   string
	WebURL   string `json:"web_url"`
}

// job is a job of a pipeline, or a status that an external service set on a commit, which has a target_url.
type job struct {
	ID            int
	Name, Status  string
	WebURL        string `json:"web_url"`
	TargetURL     string `json:"target_url"`
	AllowFailure  bool   `json:"allow_failure"`
	FailureReason string `json:"failure_reason"`
	PipelineID    int    `json:"pipeline_id"` // of a status; 0 from older versions of GitLab
}

// verdict maps the status of a job or a pipeline to a forge verdict. A job that waits to be started by hand passes.
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
	return forge.Failed // anything that is not known to be good
}

// fixable reports whether a change of the code may make a failed job pass. That is not so if it was cancelled, or no runner ran it.
func (j job) fixable() bool {
	return j.Status == "failed" && slices.Contains([]string{"", "script_failure", "job_execution_timeout", "unknown_failure"}, j.FailureReason)
}

// addChecks adds to s the jobs of the newest pipeline of the merge request's head commit, and the statuses that other services reported
// for that commit. Of a job that was retried GitLab returns the last try alone.
func (c *Client) addChecks(ctx context.Context, project string, r *mergeRequest, s *forge.PRStatus) error {
	p := r.HeadPipeline
	if now, err := c.isOfHead(ctx, project, p, r.SHA); err != nil {
		return err
	} else if !now {
		p = nil
	}
	known := map[int]bool{}
	unread := false
	if p != nil {
		jobs, truncated, err := listAll[job](ctx, c, project, fmt.Sprintf("/pipelines/%d/jobs", p.ID), maxChecks)
		if err != nil {
			return err
		}
		unread = truncated
		for _, j := range jobs {
			known[j.ID] = true
			if j.Status == "created" && p.Status == "manual" { // it depends on a job that waits for somebody to start it
				j.Status = "manual"
			}
			s.Note(verdict(j.Status, j.AllowFailure), forge.Check{Name: j.Name, URL: j.WebURL}, j.fixable())
		}
	}
	others, truncated, err := c.externalStatuses(ctx, project, r.SHA, p, known)
	if err != nil {
		return err
	}
	if unread || truncated {
		s.Unread = fmt.Sprintf("GitLab has more than %d checks of commit %.12s: the rest was not read, and counts as pending", maxChecks, r.SHA)
		s.Note(forge.Pending, forge.Check{}, false)
	}
	for _, j := range others {
		s.Note(verdict(j.Status, j.AllowFailure), forge.Check{Name: j.Name, URL: j.TargetURL}, j.fixable())
	}
	if p == nil {
		return nil
	}
	whole := verdict(p.Status, false)
	if whole == forge.Pending || whole == forge.Failed && s.Checks != forge.Failed { // because of a child pipeline, or a job that is not listed yet
		s.Note(whole, forge.Check{Name: "pipeline " + strconv.Itoa(p.ID), URL: p.WebURL}, false)
	}
	return nil
}

// isOfHead reports whether p ran for sha, the head commit of a merge request: until a new pipeline is created, GitLab returns that of the
// previous head. A merged-results pipeline (its ref ends with /merge) runs on a merge commit, so sha has to be one of that commit's
// parents. The pipeline of a merge train (another ref) is taken as it is.
func (c *Client) isOfHead(ctx context.Context, project string, p *pipeline, sha string) (bool, error) {
	switch {
	case p == nil:
		return false, nil
	case p.SHA == "" || p.SHA == sha:
		return true, nil
	case !strings.HasPrefix(p.Ref, "refs/merge-requests/") || strings.HasSuffix(p.Ref, "/head"):
		return false, nil
	case !strings.HasSuffix(p.Ref, "/merge"):
		return true, nil
	}
	var made struct {
		Parents []string `json:"parent_ids"`
	}
	_, err := c.requestProject(ctx, project, http.MethodGet, "/repository/commits/"+url.PathEscape(p.SHA), nil, &made)
	if rest.StatusOf(err) == http.StatusNotFound { // GitLab has created another one meanwhile, for a base that has moved
		return true, nil
	}
	return len(made.Parents) < 2 || slices.Contains(made.Parents, sha), err
}

// externalStatuses returns the statuses of a commit that other services reported, the last one of each name. GitLab lists the jobs of all
// pipelines of the commit among them; where newest is not nil, jobs of older pipelines are left out. known has the ids of the jobs of the
// newest. cut: there are more than were read.
func (c *Client) externalStatuses(ctx context.Context, project, sha string, newest *pipeline, known map[int]bool) (list []job, truncated bool, err error) {
	if sha == "" {
		return nil, false, nil
	}
	list, truncated, err = listAll[job](ctx, c, project, "/repository/commits/"+sha+"/statuses", maxChecks)
	if err != nil && rest.StatusOf(err) != http.StatusNotFound {
		return nil, false, err
	}
	list = slices.DeleteFunc(list, func(j job) bool { return known[j.ID] })
	if newest == nil {
		return list, truncated, nil
	}
	for _, j := range list {
		if verdict(j.Status, j.AllowFailure) != forge.Passed {
			if err := c.addPipelineJobs(ctx, project, sha, list, known); err != nil {
				return nil, false, err
			}
			break
		}
	}
	list = slices.DeleteFunc(list, func(j job) bool { return known[j.ID] })
	last := map[string]int{}
	for _, j := range list {
		last[j.Name] = max(last[j.Name], j.ID)
	}
	return slices.DeleteFunc(list, func(j job) bool { return j.ID < last[j.Name] }), truncated, nil
}

// addPipelineJobs adds to known the ids of those statuses in list that are jobs of pipelines, or bridges, which start other pipelines.
func (c *Client) addPipelineJobs(ctx context.Context, project, sha string, list []job, known map[int]bool) error {
	ids := map[int]bool{}
	for _, j := range list {
		ids[j.PipelineID] = true
	}
	if ids[0] {
		pipelines, _, err := listAll[pipeline](ctx, c, project, "/pipelines?sha="+sha, pageSize)
		if err != nil {
			return err
		}
		for _, p := range pipelines {
			ids[p.ID] = true
		}
		delete(ids, 0)
	}
	for _, id := range slices.Sorted(maps.Keys(ids)) {
		for _, kind := range []string{"jobs", "bridges"} {
			jobs, _, err := listAll[job](ctx, c, project, fmt.Sprintf("/pipelines/%d/%s", id, kind), maxChecks)
			if err != nil && rest.StatusOf(err) != http.StatusNotFound {
				return err
			}
			for _, j := range jobs {
				known[j.ID] = true
			}
		}
	}
	return nil
}
