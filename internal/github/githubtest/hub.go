package githubtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hub imitates GitHub for the real gh: a proxy on loopback that answers only for github.localhost, with which gh speaks plain
// HTTP. It answers from the state file, and serves the repository ann/greet by git http-backend.
type hub struct {
	t    testing.TB
	file string
	git  http.Handler
}

const (
	hubHost = "github.localhost"
	hubRepo = "ann/greet"
	hubHome = "http://" + hubHost + "/" + hubRepo
)

// startHub returns the address of a hub that is closed when the test ends. The bare repository must be at root/ann/greet.git.
func startHub(t testing.TB, file, root string) string {
	t.Helper()
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		t.Fatal(err)
	}
	h := &hub{t: t, file: file, git: &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"), Dir: root, Stderr: io.Discard,
		Env: []string{"GIT_PROJECT_ROOT=" + root, "GIT_HTTP_EXPORT_ALL=1", "REMOTE_USER=ann", "PATH=" + os.Getenv("PATH")}}}
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.Host {
	case hubHost:
		h.git.ServeHTTP(w, r)
	case "api." + hubHost:
		h.api(w, r)
	default:
		h.t.Errorf("gh asks %s for %s", r.Host, r.URL)
		http.Error(w, "there is no other host", http.StatusBadGateway)
	}
}

// reply is a response of the API.
type reply struct {
	code int
	body any
	raw  []byte // instead of body
	lost string // how the response gets lost, see State.Lost
}

func (h *hub) api(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client is gone
	}
	var is reply
	err = updateState(h.file, func(s *State) {
		if is = s.faultReply(r); is.code == 0 {
			s.updateHeads()
			is = s.serve(r, body)
		}
	})
	if err != nil {
		h.t.Errorf("state of the hub: %v", err)
	}
	is.write(w, r)
}

// faultReply returns the response to a bad token, or that of the fault that the state asks for.
func (s *State) faultReply(r *http.Request) reply {
	message := func(code int, text string) reply {
		return reply{code: code, body: m{"message": text, "documentation_url": "https://docs.github.com/rest"}}
	}
	switch {
	case !strings.HasSuffix(r.Header.Get("Authorization"), " "+token) || s.Fault == "401":
		return message(http.StatusUnauthorized, "Bad credentials")
	case s.Fault == "403":
		return message(http.StatusForbidden, "API rate limit exceeded for user ID 1.")
	case s.Fault == "429":
		return message(http.StatusTooManyRequests, "You have exceeded a secondary rate limit. Please wait a few minutes before you try again.")
	case s.Fault == "502":
		return message(http.StatusBadGateway, "Server Error")
	case s.Fault == "cut" || s.Fault == "hang":
		return reply{code: http.StatusOK, body: m{"data": m{}}, lost: s.Fault}
	}
	return reply{}
}

func (s *State) serve(r *http.Request, body []byte) reply {
	var in m
	if len(body) > 0 {
		if err := json.Unmarshal(body, &in); err != nil {
			return reply{code: http.StatusBadRequest, body: m{"message": "Problems parsing JSON"}}
		}
	}
	if r.URL.Path == "/graphql" {
		return s.hubQuery(in)
	}
	path, ok := strings.CutPrefix(r.URL.EscapedPath(), "/repos/"+hubRepo+"/")
	if !ok || s.Unknown {
		return notFound()
	}
	return s.rest(r.Method, path, r.URL.Query(), in)
}

func notFound() reply { return reply{code: http.StatusNotFound, body: m{"message": "Not Found"}} }

func (a reply) write(w http.ResponseWriter, r *http.Request) {
	data := a.raw
	if data == nil {
		var err error
		if data, err = json.Marshal(a.body); err != nil {
			panic(err)
		}
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
	}
	w.Header().Set("X-Oauth-Scopes", "repo, read:org, workflow")
	Send(w, r, a.code, data, a.lost)
}

// Send writes a response, or loses it as State.Lost says.
func Send(w http.ResponseWriter, r *http.Request, code int, data []byte, lost string) {
	switch lost {
	case "hang":
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case "cut":
		w.Header().Set("Content-Length", fmt.Sprint(len(data)+100))
		w.WriteHeader(code)
		_, _ = w.Write(data[:len(data)/2])
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(code)
	_, _ = w.Write(data) // the client may be gone
}
