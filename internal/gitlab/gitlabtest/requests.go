package gitlabtest

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

type project struct {
	*Lab
	path, bare string
}

// pullRequests returns the pull requests of the project.
func (p *project) pullRequests() (list []m) {
	for _, pr := range p.state.PRs {
		if pr["repository"] == nil || pr["repository"] == p.path {
			list = append(list, pr)
		}
	}
	return list
}

// updateHeads moves open merge requests to the current tips of their branches. Their checks are removed: the new commits have none yet.
func (p *project) updateHeads() {
	for _, pr := range p.pullRequests() {
		if at := tip(p.bare, fmt.Sprint(pr["headRefName"])); pr["state"] == "OPEN" && at != "" && at != pr["headRefOid"] {
			pr["headRefOid"] = at
			delete(pr, "pipeline")
			delete(pr, "statuses")
		}
	}
}

// find returns the merge request with that number, nil if there is none.
func (p *project) find(number string) m {
	for _, pr := range p.pullRequests() {
		if fmt.Sprint(pr["number"]) == number {
			return pr
		}
	}
	return nil
}

var states = map[string]string{"OPEN": "opened", "CLOSED": "closed", "MERGED": "merged"}

// mergeRequestJSON returns a merge request as the server returns it.
func (p *project) mergeRequestJSON(pr m) m {
	title := pr["title"]
	if pr["isDraft"] == true {
		title = fmt.Sprint("Draft: ", title)
	}
	source := 1
	if pr["isCrossRepository"] == true {
		source = 2
	}
	reviewers := []any{}
	asked, _ := pr["reviewRequests"].([]any)
	for _, name := range asked {
		if i := slices.Index(p.state.Users, fmt.Sprint(name)); i >= 0 {
			reviewers = append(reviewers, p.person(i+1))
		}
	}
	return m{"iid": pr["number"], "web_url": pr["url"], "state": states[fmt.Sprint(pr["state"])], "draft": pr["isDraft"] == true, "sha": pr["headRefOid"], "source_branch": pr["headRefName"], "target_branch": pr["baseRefName"],
		"source_project_id": source, "target_project_id": 1, "title": title, "description": pr["body"], "labels": pr["labels"], "reviewers": reviewers, "head_pipeline": pr["pipeline"]}
}

func (p *project) list(query url.Values) answer {
	list := []any{}
	for _, pr := range slices.Backward(p.pullRequests()) {
		if branch := query.Get("source_branch"); (branch == "" || branch == pr["headRefName"]) && (query.Get("state") == "all" || query.Get("state") == states[fmt.Sprint(pr["state"])]) {
			list = append(list, p.mergeRequestJSON(pr))
		}
	}
	return answer{code: http.StatusOK, body: list, list: true}
}

var isDraft = regexp.MustCompile(`(?i)^(?:draft:|\[draft\]|\(draft\))\s*`)

// create opens a merge request.
func (p *project) create(in m) answer {
	for _, name := range []string{"source_branch", "target_branch", "title"} {
		if text, _ := in[name].(string); text == "" {
			return answer{code: http.StatusBadRequest, body: m{"error": name + " is missing"}}
		}
	}
	head, base := fmt.Sprint(in["source_branch"]), fmt.Sprint(in["target_branch"])
	at := tip(p.bare, head)
	switch {
	case at == "":
		return failure(http.StatusBadRequest, []string{`Source branch "` + head + `" does not exist`})
	case tip(p.bare, base) == "":
		return failure(http.StatusBadRequest, []string{`Target branch "` + base + `" does not exist`})
	}
	for _, pr := range p.pullRequests() {
		if pr["headRefName"] == head && pr["baseRefName"] == base && pr["state"] == "OPEN" {
			return failure(http.StatusConflict, []string{fmt.Sprintf("Another open merge request already exists for this source branch: !%v", pr["number"])})
		}
	}
	n := len(p.pullRequests()) + 1
	pr := m{"repository": p.path, "number": n, "url": fmt.Sprintf("%s/%s/-/merge_requests/%d", p.URL, p.path, n), "state": "OPEN", "headRefName": head, "headRefOid": at, "baseRefName": base}
	p.setText(pr, in)
	p.state.PRs = append(p.state.PRs, pr)
	lost := p.state.Lost
	p.state.Lost = ""
	return answer{code: http.StatusCreated, body: p.mergeRequestJSON(pr), lost: lost}
}

// quickAction matches a quick action: a line that GitLab executes in the name of its author.
var quickAction = regexp.MustCompile(`(?m)^/[a-z_]+`)

func (p *project) setText(pr, in m) {
	if title, is := in["title"].(string); is {
		pr["isDraft"] = isDraft.MatchString(title)
		pr["title"] = isDraft.ReplaceAllString(title, "")
	}
	if text, is := in["description"].(string); is {
		if found := quickAction.FindString(text); found != "" {
			p.t.Errorf("a description gives the order %s", found)
		}
		pr["body"] = text
	}
}

// request answers a request about a merge request.
func (p *project) request(r *http.Request, words []string, in m) answer {
	pr := p.find(words[0])
	if pr == nil {
		return failure(http.StatusNotFound, "404 Not found")
	}
	ok := func(body any) answer { return answer{code: http.StatusOK, body: body} }
	list := func(of string) answer {
		all, _ := pr[of].([]any)
		return answer{code: http.StatusOK, body: append([]any{}, all...), list: true}
	}
	switch what := r.Method + " " + strings.Join(words[1:], "/"); what {
	case "GET ":
		return ok(p.mergeRequestJSON(pr))
	case "PUT ":
		return p.updateMergeRequest(pr, in)
	case "GET approvals":
		if pr["approvals"] == nil {
			return ok(m{"approved": true, "approvals_required": 0, "approved_by": []any{}})
		}
		return ok(pr["approvals"])
	case "GET reviewers", "GET notes", "GET discussions":
		return list(words[1])
	}
	return answer{code: http.StatusMethodNotAllowed, body: m{"error": "405 Not Allowed"}}
}

func (p *project) updateMergeRequest(pr, in m) answer {
	given := 0
	for name := range in {
		if !slices.Contains([]string{"title", "description", "add_labels", "reviewer_ids"}, name) {
			return answer{code: http.StatusBadRequest, body: m{"error": name + " does not have a valid value"}}
		}
		given++
	}
	if given == 0 {
		return answer{code: http.StatusBadRequest, body: m{"error": "title, description are missing, at least one parameter must be provided"}}
	}
	p.setText(pr, in)
	if text, is := in["add_labels"].(string); is {
		for _, name := range strings.Split(text, ",") {
			if !slices.Contains(p.state.Labels, name) {
				p.state.Labels = append(p.state.Labels, name) // as GitLab does, which callers have to take into account
			}
			githubtest.Add(pr, "labels", name)
		}
	}
	if ids, is := in["reviewer_ids"].([]any); is {
		if pr["reviewRequests"] = []any{}; pr["unlicensed"] == true { // without a licence only the first person is requested
			ids = ids[:min(1, len(ids))]
		}
		for _, id := range ids {
			if n, _ := id.(float64); n >= 1 && int(n) <= len(p.state.Users) && !strings.HasPrefix(p.state.Users[int(n)-1], "x") {
				githubtest.Add(pr, "reviewRequests", p.state.Users[int(n)-1])
			}
		}
	}
	return answer{code: http.StatusOK, body: p.mergeRequestJSON(pr)}
}

// pipelineJobs returns the jobs of a pipeline, or its bridges, which are jobs that start other pipelines.
func (p *project) pipelineJobs(id, what string) answer {
	for _, pr := range p.pullRequests() {
		for _, of := range pipelines(pr) {
			if fmt.Sprint(of["id"]) == id {
				all, _ := of[what].([]any)
				return answer{code: http.StatusOK, body: append([]any{}, all...), list: true}
			}
		}
	}
	return failure(http.StatusNotFound, "404 Not found")
}

// pipelines returns the pipelines of a pull request: that of its head, with the pull request's jobs and bridges, and earlier ones.
func pipelines(pr m) (list []m) {
	if head, is := pr["pipeline"].(m); is {
		list = append(list, m{"id": head["id"], "sha": head["sha"], "status": head["status"], "jobs": pr["jobs"], "bridges": pr["bridges"]})
	}
	earlier, _ := pr["earlier"].([]any)
	for _, of := range earlier {
		list = append(list, of.(m))
	}
	return list
}

func (p *project) commitPipelines(sha string) answer {
	list := []any{}
	for _, pr := range p.pullRequests() {
		for _, of := range pipelines(pr) {
			if of["sha"] == sha || of["sha"] == nil && pr["headRefOid"] == sha {
				list = append(list, m{"id": of["id"], "sha": sha, "status": of["status"]})
			}
		}
	}
	return answer{code: http.StatusOK, body: list, list: true}
}

// commitStatuses returns the statuses of a commit: the jobs and bridges of all its pipelines, without their addresses, and those of
// external services. Older versions of GitLab don't say to which pipeline a job belongs.
func (p *project) commitStatuses(sha string) answer {
	list := []any{}
	for _, pr := range p.pullRequests() {
		if pr["headRefOid"] != sha {
			continue
		}
		for _, of := range pipelines(pr) {
			if of["sha"] != nil && of["sha"] != sha {
				continue
			}
			jobs, _ := of["jobs"].([]any)
			bridges, _ := of["bridges"].([]any)
			for _, j := range slices.Concat(jobs, bridges) {
				j := maps.Clone(j.(m))
				delete(j, "web_url")
				delete(j, "failure_reason")
				if pr["older"] != true {
					j["pipeline_id"] = of["id"]
				}
				list = append(list, j)
			}
		}
		others, _ := pr["statuses"].([]any)
		list = append(list, others...)
	}
	return answer{code: http.StatusOK, body: list, list: true}
}

// commit returns a commit that the server created, as it does for the result of a merge.
func (p *project) commit(sha string) answer {
	for _, pr := range p.pullRequests() {
		if made, _ := pr["commits"].(m); made[sha] != nil {
			return answer{code: http.StatusOK, body: m{"id": sha, "parent_ids": made[sha]}}
		}
	}
	return failure(http.StatusNotFound, "404 Commit Not Found")
}
