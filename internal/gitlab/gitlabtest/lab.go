// Package gitlabtest imitates a GitLab server for tests, on loopback. It is as strict as the real one is known to be, and can
// fail or kill its caller at any request. Its state is that of githubtest, so that one test can be run against both.
package gitlabtest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

// Token is the token that the server accepts.
const Token = "glpat-0123456789abcdefghij"

// Lab is the server of one test. Of githubtest.State it uses PRs, Labels, Users, Logs, Calls, FailFrom, FailTo, Fault, SignedOut,
// Lost, Unknown, Before and After. PRs have additional fields for GitLab: pipeline, jobs, bridges, earlier (pipelines of the same
// commit), commits (their parents), statuses, older and unlicensed (say that the server is), approvals, reviewers, notes,
// discussions. The id of a user is the position in Users, from 1; those whose name begins with x are not members of any project.
type Lab struct {
	URL      string
	Projects map[string]string // bare repositories, by path of the project
	Kill     func()            // kills the caller
	Scopes   []string          // scopes of the token; nil: the server doesn't tell

	t     testing.TB
	mu    sync.Mutex
	state githubtest.State
}

// Serve starts a server that is closed when the test ends.
func Serve(t testing.TB, s githubtest.State, projects map[string]string) *Lab {
	l := &Lab{Projects: projects, t: t, state: s}
	server := httptest.NewServer(l)
	t.Cleanup(server.Close)
	l.URL = server.URL
	return l
}

// Change changes the state.
func (l *Lab) Change(_ testing.TB, do func(*githubtest.State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	do(&l.state)
}

// State returns the current state.
func (l *Lab) State(testing.TB) githubtest.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Address returns the address of a project's repository.
func (l *Lab) Address(project string) string { return l.URL + "/" + project + ".git" }

type m = map[string]any

type answer struct {
	code int
	body any
	raw  string // instead of body
	list bool   // body is a list that is returned page by page
	lost string // how the response gets lost, see githubtest.State.Lost
}

func failure(code int, message any) answer { return answer{code: code, body: m{"message": message}} }

func (l *Lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	l.mu.Lock()
	s := &l.state
	s.Calls = append(s.Calls, []string{r.Method, r.URL.EscapedPath()})
	n := len(s.Calls)
	kill := s.Before == n
	a := answer{}
	if !kill {
		if a = l.fault(r, n); a.code == 0 {
			a = l.serve(r, data)
			kill = s.After == n
		}
	}
	l.mu.Unlock()
	if kill {
		l.Kill()
		panic(http.ErrAbortHandler)
	}
	a.write(w, r)
}

// fault returns the response to a bad token, or that of the fault that the state asks for.
func (l *Lab) fault(r *http.Request, n int) answer {
	s := &l.state
	known := r.Header.Get("PRIVATE-TOKEN") == Token || r.Header.Get("Authorization") == "Bearer "+Token
	switch {
	case !known || s.SignedOut || s.Fault == "401":
		return failure(http.StatusUnauthorized, "401 Unauthorized")
	case s.FailFrom > 0 && n >= s.FailFrom && n <= s.FailTo || s.Fault == "502":
		return answer{code: http.StatusBadGateway, raw: "<html>Waiting for GitLab to boot</html>"}
	case s.Fault == "403":
		return answer{code: http.StatusForbidden, body: m{"error": "insufficient_scope", "error_description": "The request requires higher privileges than provided by the access token.", "scope": "api"}}
	case s.Fault == "429":
		return answer{code: http.StatusTooManyRequests, raw: "Retry later\n"}
	case s.Fault == "cut" || s.Fault == "hang":
		return answer{code: http.StatusOK, body: m{}, lost: s.Fault}
	}
	return answer{}
}

// projectPath matches paths below a project. Slashes in the project's own path must be escaped, else it is not found.
var projectPath = regexp.MustCompile(`^/api/v4/projects/([^/]+)(?:/(.*))?$`)

func (l *Lab) serve(r *http.Request, data []byte) answer {
	in := m{}
	if len(data) > 0 {
		if r.Header.Get("Content-Type") != "application/json" || json.Unmarshal(data, &in) != nil {
			return answer{code: http.StatusBadRequest, body: m{"error": "body is invalid"}}
		}
	}
	if r.URL.EscapedPath() == "/api/v4/personal_access_tokens/self" && l.Scopes != nil {
		return answer{code: http.StatusOK, body: m{"scopes": l.Scopes, "active": true}}
	}
	if r.URL.EscapedPath() == "/api/v4/users" {
		return l.users(r.URL.Query().Get("username"))
	}
	found := projectPath.FindStringSubmatch(r.URL.EscapedPath())
	if found == nil {
		return answer{code: http.StatusNotFound, body: m{"error": "404 Not Found"}}
	}
	name, err := url.PathUnescape(found[1])
	bare := l.Projects[name]
	if err != nil || bare == "" || l.state.Unknown {
		return failure(http.StatusNotFound, "404 Project Not Found")
	}
	at := &project{l, name, bare}
	at.updateHeads()
	words := strings.Split(found[2], "/")
	switch {
	case found[2] == "" && r.Method == http.MethodGet:
		return answer{code: http.StatusOK, body: m{"path_with_namespace": name, "merge_requests_access_level": "enabled", "archived": false}}
	case words[0] == "merge_requests" && len(words) == 1 && r.Method == http.MethodGet:
		return at.list(r.URL.Query())
	case words[0] == "merge_requests" && len(words) == 1 && r.Method == http.MethodPost:
		return at.create(in)
	case words[0] == "merge_requests":
		return at.request(r, words[1:], in)
	case words[0] == "labels" && len(words) == 2 && r.Method == http.MethodGet:
		name, _ := url.PathUnescape(words[1]) // an invalid name is the name of no label
		if !slices.Contains(l.state.Labels, name) {
			return failure(http.StatusNotFound, "404 Label Not Found")
		}
		return answer{code: http.StatusOK, body: m{"name": name}}
	case words[0] == "members" && len(words) == 3 && words[1] == "all":
		return l.member(words[2])
	case words[0] == "pipelines" && len(words) == 1:
		return at.commitPipelines(r.URL.Query().Get("sha"))
	case words[0] == "pipelines" && len(words) == 3 && (words[2] == "jobs" || words[2] == "bridges"):
		return at.pipelineJobs(words[1], words[2])
	case words[0] == "repository" && len(words) == 3 && words[1] == "commits":
		return at.commit(words[2])
	case words[0] == "repository" && len(words) == 4 && words[3] == "statuses":
		return at.commitStatuses(words[2])
	case words[0] == "jobs" && len(words) == 3 && words[2] == "trace":
		log, is := l.state.Logs[words[1]]
		if !is {
			return failure(http.StatusNotFound, "404 Not found")
		}
		return answer{code: http.StatusOK, raw: log}
	}
	return answer{code: http.StatusNotFound, body: m{"error": "404 Not Found"}}
}

func (l *Lab) users(name string) answer {
	list := []any{}
	if i := slices.Index(l.state.Users, name); i >= 0 {
		list = append(list, l.person(i+1))
	}
	return answer{code: http.StatusOK, body: list, list: true}
}

func (l *Lab) person(id int) m {
	return m{"id": id, "username": l.state.Users[id-1], "state": "active"}
}

func (l *Lab) member(number string) answer {
	id, err := strconv.Atoi(number)
	if err != nil || id < 1 || id > len(l.state.Users) || strings.HasPrefix(l.state.Users[id-1], "x") {
		return failure(http.StatusNotFound, "404 Not found")
	}
	p := l.person(id)
	p["access_level"] = 40
	return answer{code: http.StatusOK, body: p}
}

func (a answer) write(w http.ResponseWriter, r *http.Request) {
	if a.list {
		list := a.body.([]any)
		size, page := number(r, "per_page", 20), number(r, "page", 1)
		size = min(size, 100)
		from := min((page-1)*size, len(list))
		to := min(from+size, len(list))
		if to < len(list) {
			w.Header().Set("X-Next-Page", strconv.Itoa(page+1))
		}
		a.body = list[from:to]
	}
	data := []byte(a.raw)
	if a.raw == "" {
		var err error
		if data, err = json.Marshal(a.body); err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json")
	}
	if a.code == http.StatusTooManyRequests {
		w.Header().Set("Retry-After", "60")
	}
	githubtest.Send(w, r, a.code, data, a.lost)
}

func number(r *http.Request, name string, standard int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 1 {
		return standard
	}
	return n
}

// tip returns the commit at which a branch of a bare repository ends, "" if it doesn't exist.
func tip(bare, branch string) string {
	out, err := exec.Command("git", "--git-dir="+bare, "rev-parse", "-q", "--verify", "refs/heads/"+branch).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}
