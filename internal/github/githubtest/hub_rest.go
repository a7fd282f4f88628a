package githubtest

import (
	"archive/zip"
	"bytes"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// rest answers a request about the repository; path is the part after the repository.
func (s *State) rest(method, path string, query url.Values, in m) reply {
	words := strings.Split(path, "/")
	for i, w := range words {
		words[i], _ = url.PathUnescape(w) // it comes from a URL that was parsed
	}
	at := method + " " + words[0]
	switch {
	case at == "GET issues" && len(words) == 1:
		return s.restIssues(query)
	case at == "POST issues" && len(words) == 1:
		return s.restIssue(in)
	case at == "GET labels" && len(words) == 2:
		if !slices.Contains(s.Labels, words[1]) {
			return notFound()
		}
		return reply{code: http.StatusOK, body: m{"name": words[1]}}
	case at == "GET actions", at == "GET check-runs":
		return s.restRun(words)
	}
	if len(words) < 2 || s.findPR(words[1]) == nil {
		return notFound()
	}
	return s.restPR(s.findPR(words[1]), method+" "+words[0]+" "+strings.Join(words[2:], "/"), in)
}

// restPR changes a pull request. A label that the repository doesn't have is created, as GitHub does.
func (s *State) restPR(pr m, what string, in m) reply {
	list := func(name string) (names []any) { names, _ = in[name].([]any); return names }
	switch what {
	case "PATCH pulls ":
		if text, is := in["body"].(string); is {
			pr["body"] = text
		}
		return reply{code: http.StatusOK, body: m{"number": pr["number"], "html_url": pr["url"]}}
	case "POST issues labels":
		for _, l := range list("labels") {
			if name := fmt.Sprint(l); !slices.Contains(s.Labels, name) {
				s.Labels = append(s.Labels, name)
			}
			Add(pr, "labels", l)
		}
		return reply{code: http.StatusOK, body: []any{}}
	case "POST pulls requested_reviewers":
		all := append(list("reviewers"), list("team_reviewers")...)
		for _, who := range all {
			if !slices.Contains(s.Users, fmt.Sprint(who)) {
				return reply{code: http.StatusUnprocessableEntity, body: m{"message": "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the " + hubRepo + " repository."}}
			}
		}
		for _, who := range all {
			Add(pr, "reviewRequests", who)
		}
		return reply{code: http.StatusCreated, body: m{"number": pr["number"]}}
	}
	return notFound()
}

// Add adds an element to a list of a pull request, unless it is in there.
func Add(pr m, field string, what any) {
	have, _ := pr[field].([]any)
	if !slices.Contains(have, what) {
		pr[field] = append(have, what)
	}
}

// restIssues returns the issues that have the label, the newest first, including pull requests.
func (s *State) restIssues(query url.Values) reply {
	number := func(name string, standard int) int {
		n, err := strconv.Atoi(query.Get(name))
		if err != nil {
			return standard
		}
		return n
	}
	list := []any{}
	for _, i := range slices.Backward(s.Issues) {
		if i["label"] == query.Get("labels") && (query.Get("state") == "all" || i["state"] == "OPEN") {
			list = append(list, restIssue(i))
		}
	}
	size := min(number("per_page", 30), 100)
	from := min((number("page", 1)-1)*size, len(list))
	return reply{code: http.StatusOK, body: list[from:min(from+size, len(list))]}
}

// restIssue creates an issue, and its label if that doesn't exist.
func (s *State) restIssue(in m) reply {
	label := fmt.Sprint(in["labels"].([]any)[0])
	if !slices.Contains(s.Labels, label) {
		s.Labels = append(s.Labels, label)
	}
	number := 100 + len(s.Issues) + 1
	issue := m{"number": number, "url": fmt.Sprintf("%s/issues/%d", s.home(), number), "state": "OPEN", "title": in["title"], "body": in["body"], "label": label}
	s.Issues = append(s.Issues, issue)
	return s.loseIfAsked(reply{code: http.StatusCreated, body: restIssue(issue)})
}

func restIssue(i m) m {
	one := m{"number": i["number"], "html_url": i["url"], "state": strings.ToLower(fmt.Sprint(i["state"])), "title": i["title"], "body": i["body"]}
	if i["pull_request"] != nil {
		one["pull_request"] = i["pull_request"]
	}
	return one
}

// restRun returns data of a job of GitHub Actions. Each job is the only one of its run, which has the same number, and has two
// steps; the second failed and printed the log in the state.
func (s *State) restRun(words []string) reply {
	if words[1] == "workflows" {
		return reply{code: http.StatusOK, body: m{"id": 1, "name": "ci", "state": "active"}}
	}
	var id, what string
	for _, w := range words {
		if _, err := strconv.Atoi(w); err == nil && id == "" {
			id = w
		} else {
			what += "/" + w
		}
	}
	number, _ := strconv.Atoi(id) // 0 has no log
	if _, is := s.Logs[id]; !is {
		return notFound()
	}
	step := func(n int, name, conclusion string) m {
		return m{"name": name, "status": "completed", "conclusion": conclusion, "number": n}
	}
	job := m{"id": number, "run_id": number, "name": "test", "status": "completed", "conclusion": "failure", "started_at": "2026-02-01T10:00:00Z", "completed_at": "2026-02-01T10:01:00Z",
		"html_url": fmt.Sprintf("%s/actions/runs/%s/job/%[2]s", hubHome, id), "steps": []any{step(1, "Set up job", "success"), step(2, "Run", "failure")}}
	switch what {
	case "/actions/jobs":
		return reply{code: http.StatusOK, body: job}
	case "/actions/runs":
		return reply{code: http.StatusOK, body: m{"id": number, "name": "ci", "status": "completed", "conclusion": "failure", "workflow_id": 1, "run_attempt": 1, "event": "push",
			"created_at": "2026-02-01T10:00:00Z", "updated_at": "2026-02-01T10:01:00Z", "run_started_at": "2026-02-01T10:00:00Z", "head_branch": "work", "head_sha": strings.Repeat("0", 40),
			"jobs_url": fmt.Sprintf("http://api.%s/repos/%s/actions/runs/%s/jobs", hubHost, hubRepo, id), "html_url": hubHome + "/actions/runs/" + id, "repository": m{"name": "greet", "owner": m{"login": "ann"}}}}
	case "/actions/runs/jobs":
		return reply{code: http.StatusOK, body: m{"total_count": 1, "jobs": []any{job}}}
	case "/actions/runs/logs":
		return reply{code: http.StatusOK, raw: s.logArchive(id)}
	case "/actions/jobs/logs":
		return reply{code: http.StatusOK, raw: []byte("all of it\n" + s.Logs[id])}
	case "/check-runs/annotations":
		return reply{code: http.StatusOK, body: []any{}}
	}
	return notFound()
}

// logArchive returns a zip archive with a job's log, as a whole and by step.
func (s *State) logArchive(id string) []byte {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	files := [][2]string{{"0_test.txt", "all of it\n" + s.Logs[id]}, {"test/1_Set up job.txt", "fine\n"}, {"test/2_Run.txt", s.Logs[id]}}
	if s.Stepless {
		files = files[:1]
	}
	for _, f := range files {
		w, err := z.Create(f[0])
		if err == nil {
			_, err = w.Write([]byte(f[1]))
		}
		if err != nil {
			panic(err)
		}
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}
