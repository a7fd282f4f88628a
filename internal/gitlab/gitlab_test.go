package gitlab_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/gitlab"
	"github.com/trellis-tasks/trellis/internal/gitlab/gitlabtest"
	"github.com/trellis-tasks/trellis/internal/rest"
)

type m = map[string]any

const project = "ann/shop/greet"

// world is a project whose repository has the branches main and, one commit above it, work.
type world struct {
	*testing.T
	*gitlabtest.Lab
	*gitlab.Client
	bare string
}

func newWorld(t *testing.T, s githubtest.State) *world {
	t.Helper()
	root := t.TempDir()
	dir, bare := filepath.Join(root, "repo"), filepath.Join(root, "bare")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, Lab: gitlabtest.Serve(t, s, map[string]string{project: bare}), bare: bare}
	for _, words := range []string{"init -q --bare -b main ../bare", "init -q -b main", "commit -q --allow-empty -m first", "push -q ../bare main", "checkout -q -b work", "commit -q --allow-empty -m second", "push -q ../bare work"} {
		w.git(dir, words)
	}
	w.Client = gitlab.NewClient(w.place(gitlabtest.Token), []string{w.Address(project)})
	return w
}

func (w *world) git(dir, words string) string {
	w.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, strings.Fields(words)...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.Fatalf("git %s: %v\n%s", words, err, out)
	}
	return strings.TrimSpace(string(out))
}

// place returns the server with a token, or without one if token is "".
func (w *world) place(token string) gitlab.Place {
	return gitlab.Place{URL: w.URL, Connect: func(context.Context) (*rest.Server, string, error) {
		if token == "" {
			return nil, "", rest.ErrNoToken
		}
		s := &rest.Server{Name: "GitLab", Base: w.URL + "/api/v4", Sign: func(h http.Header) { h.Set("PRIVATE-TOKEN", token) }}
		switch now := w.State(w.T); {
		case now.Fault == "hang":
			s.Wall = time.Second
		case now.Lost == "hang": // later requests get an answer
			s.Wall = 5 * time.Second
		}
		return s, "GITLAB_TOKEN", nil
	}}
}

func (w *world) create() *forge.PR {
	w.Helper()
	pr, err := w.Create(w.Context(), forge.NewPR{Title: "feat: Say bye", Body: "It does.", Base: "main", Head: "work", Draft: true})
	if err != nil {
		w.Fatal(err)
	}
	return pr
}

// The address of the remote says where a repository is, in each of the forms that git knows; no other host gets the token.
func TestNewClient(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://gitlab.com/ann/greet.git": "ours", "https://GitLab.com/ann/sub/greet": "ours", "git@gitlab.com:ann/greet.git": "ours", "gitlab.com:ann/greet": "ours",
		"ssh://git@gitlab.com/ann/greet.git": "ours", "ssh://git@gitlab.com:22/ann/greet.git": "ours", "ssh://git@altssh.gitlab.com:443/ann/greet.git": "ours", "git+ssh://git@gitlab.com/ann/greet.git": "ours",
		"git@gitlab.acme.org:ann/greet.git": "foreign", "https://gitlab.com.evil.example/ann/greet.git": "foreign", "https://gitlab.com:8443/ann/greet.git": "foreign",
		"https://evil.example/gitlab.com/ann/greet.git": "none", "git@github.com:ann/greet.git": "none", "https://gitlab.com/greet.git": "none", "../bare.git": "none", "/srv/gitlab.com:x/y": "none",
		"file:///srv/ann/greet.git": "none", "https://evil.example@gitlab.com/ann/greet.git": "ours", "https://gitlab.com@evil.example/ann/greet.git": "none", "": "none", "https://gitlab.com/ann/gre%20et": "none",
	} {
		c := gitlab.NewClient(gitlab.Place{URL: "https://gitlab.com"}, []string{address})
		got := "none"
		if c != nil {
			got = map[bool]string{true: "ours", false: "foreign"}[strings.HasPrefix(c.SignInCommand(), "export ")]
		}
		if got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
	below := gitlab.Place{URL: "https://acme.org/gitlab"}
	for address, want := range map[string]bool{"https://acme.org/gitlab/ann/greet.git": true, "https://acme.org/ann/greet.git": false, "git@acme.org:ann/greet.git": true} {
		if got := gitlab.NewClient(below, []string{address}) != nil; got != want {
			t.Errorf("%s below a path: %v", address, got)
		}
	}
}

// A person may write the address of their GitLab in any way: the case of a host does not matter, and default ports may be given.
func TestAddressAsWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, githubtest.State{Logs: map[string]string{"12": "it is broken\n"}})
	w.URL = strings.Replace(w.URL, "127.0.0.1", "localhost", 1) // the name that the server has for itself
	place := w.place(gitlabtest.Token)
	place.URL = strings.Replace(w.URL, "localhost", "LocalHost", 1) + "/"
	w.Client = gitlab.NewClient(place, []string{w.Address(project)})
	pr := w.create()
	if _, err := w.Status(t.Context(), pr); err != nil {
		t.Error(err)
	}
	if err := w.EditBody(t.Context(), pr.URL, "new"); err != nil {
		t.Error(err)
	}
	if log, err := w.Log(t.Context(), forge.Check{URL: w.URL + "/ann/shop/greet/-/jobs/12"}); err != nil || log == "" {
		t.Errorf("got %q, %v", log, err)
	}
	for site, address := range map[string]string{"https://git.acme.org:443": "https://git.acme.org/ann/greet.git", "https://git.acme.org": "https://git.acme.org:443/ann/greet.git", "http://git.acme.org:80/lab/": "http://git.acme.org/lab/ann/greet.git"} {
		if gitlab.NewClient(gitlab.Place{URL: site}, []string{address}) == nil {
			t.Errorf("%s is not at %s", address, site)
		}
	}
}

func TestFindAndCreate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, githubtest.State{})
	if pr, err := w.Find(t.Context(), "work"); pr != nil || err != nil {
		t.Fatalf("got %+v, %v", pr, err)
	}
	pr := w.create()
	if pr.Number != 1 || pr.URL != w.URL+"/ann/shop/greet/-/merge_requests/1" || !pr.Draft || pr.Title != "feat: Say bye" || pr.HeadSHA != w.git(w.bare, "rev-parse work") || pr.BaseRef != "main" || pr.Body != "It does." {
		t.Errorf("got %+v", pr)
	}
	if again := w.create(); again.Number != 1 || len(w.State(t).PRs) != 1 {
		t.Errorf("got %+v", again)
	}
	w.Change(t, func(s *githubtest.State) { s.PRs[0]["state"] = "CLOSED" })
	if pr, err := w.Find(t.Context(), "work"); err != nil || pr.State != forge.Closed {
		t.Errorf("got %+v, %v", pr, err)
	}
	if second := w.create(); second.Number != 2 {
		t.Errorf("got %+v", second)
	}
	w.Change(t, func(s *githubtest.State) { s.PRs[1]["isCrossRepository"] = true })
	if pr, err := w.Find(t.Context(), "work"); err != nil || pr.Number != 1 {
		t.Errorf("that of a fork is taken: %+v, %v", pr, err)
	}
	if _, err := w.Create(t.Context(), forge.NewPR{Title: "x", Base: "main", Head: "gone"}); rest.StatusOf(err) != http.StatusBadRequest || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("got %v", err)
	}
}

// Even if the answer is lost, there is one merge request.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"cut", "hang"} {
		w := newWorld(t, githubtest.State{Lost: lost})
		if pr := w.create(); pr.Number != 1 || len(w.State(t).PRs) != 1 {
			t.Errorf("%s: got %+v", lost, pr)
		}
	}
}

// A token that may only read is reported before anything is paid for.
func TestScopes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scopes []string
		says   string
	}{{nil, ""}, {[]string{"api"}, ""}, {[]string{"read_api", "read_user"}, "the token of GITLAB_TOKEN may read_api, read_user, and merge requests need api"}, {[]string{}, "may nothing, and"}} {
		w := newWorld(t, githubtest.State{})
		w.Scopes = c.scopes
		err := w.SignedIn(t.Context())
		if c.says == "" && err != nil || c.says != "" && (!errors.Is(err, forge.ErrNotSignedIn) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q: got %v", c.scopes, err)
		}
	}
}

// Each obstacle is reported as what it is, and never with the token.
func TestObstacles(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		state githubtest.State
		token string
		kind  error
		says  string
	}{
		"no token":     {githubtest.State{}, "", forge.ErrNoProgramOrToken, "there is no token"},
		"wrong token":  {githubtest.State{}, "glpat-wrong", forge.ErrNotSignedIn, "does not take the token of GITLAB_TOKEN"},
		"no project":   {githubtest.State{Unknown: true}, gitlabtest.Token, forge.ErrUnsupportedRepository, "has no project ann/shop/greet, or the token of GITLAB_TOKEN can't see it"},
		"scope":        {githubtest.State{Fault: "403"}, gitlabtest.Token, nil, "higher privileges"},
		"too often":    {githubtest.State{Fault: "429"}, gitlabtest.Token, nil, "it asks to wait 1m0s"},
		"out of order": {githubtest.State{Fault: "502"}, gitlabtest.Token, nil, "answers 502"},
		"cut":          {githubtest.State{Fault: "cut"}, gitlabtest.Token, rest.ErrNoAnswer, "EOF"},
		"hang":         {githubtest.State{Fault: "hang"}, gitlabtest.Token, rest.ErrNoAnswer, "deadline"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, c.state)
			client := gitlab.NewClient(w.place(c.token), []string{w.Address(project)})
			err := client.SignedIn(t.Context())
			if err == nil || c.kind != nil && !errors.Is(err, c.kind) || c.kind == nil && errors.As(err, new(*forge.Obstacle)) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "glpat") {
				t.Errorf("got %v", err)
			}
			if _, err := client.Create(t.Context(), forge.NewPR{Title: "x", Base: "main", Head: "work"}); err == nil || len(w.State(t).PRs) > 0 {
				t.Errorf("it made one: %v", err)
			}
		})
	}
	if err := newWorld(t, githubtest.State{}).SignedIn(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestEdit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, githubtest.State{Labels: []string{"size::s"}, Users: []string{"ann", "bob", "xavier"}})
	url := w.create().URL
	for range 2 {
		if err := errors.Join(w.EditBody(t.Context(), url, "New."), w.Label(t.Context(), url, "size::s"), w.AskReview(t.Context(), url, "bob"), w.AskReview(t.Context(), url, "ann")); err != nil {
			t.Fatal(err)
		}
	}
	pr := w.State(t).PRs[0]
	if labels, asked := pr["labels"].([]any), pr["reviewRequests"].([]any); pr["body"] != "New." || pr["isDraft"] != true || len(labels) != 1 || len(asked) != 2 {
		t.Errorf("got %v", pr)
	}
	for what, err := range map[string]error{
		"label \"nope\"": w.Label(t.Context(), url, "nope"), "no user of that name": w.AskReview(t.Context(), url, "ghost"), "members of the project alone": w.AskReview(t.Context(), url, "xavier"), "no groups": w.AskReview(t.Context(), url, "acme/team"),
		"is not at": w.EditBody(t.Context(), "https://gitlab.com/ann/shop/greet/-/merge_requests/1", "x"), "is not the address": w.EditBody(t.Context(), w.URL+"/ann/shop/greet/issues/1", "x"),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want %s", err, what)
		}
	}
	if pr := w.State(t).PRs[0]; len(pr["reviewRequests"].([]any)) != 2 || len(w.State(t).Labels) != 1 {
		t.Errorf("got %v, labels %q", pr, w.State(t).Labels)
	}
}

// If GitLab lets only one person be asked, the one who was asked first stays.
func TestOneReviewer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, githubtest.State{Users: []string{"ann", "bob"}})
	url := w.create().URL
	w.Change(t, func(s *githubtest.State) { s.PRs[0]["unlicensed"] = true })
	if err := w.AskReview(t.Context(), url, "bob"); err != nil {
		t.Fatal(err)
	}
	err := w.AskReview(t.Context(), url, "ann")
	if asked := w.State(t).PRs[0]["reviewRequests"].([]any); err == nil || !strings.Contains(err.Error(), "it may ask one person alone") || len(asked) != 1 || asked[0] != "bob" {
		t.Errorf("got %v, asked are %v", err, asked)
	}
}
