package github_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

// programs are what the contract is tested with: the fake gh, which all other tests use, and the real one.
var programs = map[string]func(testing.TB, githubtest.State) *githubtest.GH{"fake": githubtest.Install, "real": githubtest.Real}

// world is a checkout of the repository ann/greet, whose origin has the branches main and, one commit above it, work.
type world struct {
	*testing.T
	*githubtest.GH
	*github.Client
}

// each runs a test with each program.
func each(t *testing.T, s githubtest.State, test func(w *world)) {
	t.Helper()
	for name, install := range programs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &world{T: t, GH: install(t, s)}
			w.Client = &github.Client{Dir: checkout(t, w.GH), Env: w.GH.Env}
			test(w)
		})
	}
}

func checkout(t *testing.T, gh *githubtest.GH) string {
	t.Helper()
	root := t.TempDir()
	dir, bare := filepath.Join(root, "repo"), filepath.Join(root, "bare")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{"init -q --bare -b main ../bare", "init -q -b main", "remote add origin ../bare", "commit -q --allow-empty -m first", "push -q origin main",
		"checkout -q -b work", "commit -q --allow-empty -m second", "push -q origin work"} {
		run(t, dir, words)
	}
	gh.Host(t, dir, bare)
	return dir
}

func run(t *testing.T, dir, words string) {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Ann", "-c", "user.email=ann@example.org"}, strings.Fields(words)...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("git %s: %v\n%s", words, err, out)
	}
}

// pr returns a pull request of the branch work; fields are set on top of the usual ones.
func (w *world) pr(number int, fields m) m {
	tip, err := exec.Command("git", "-C", w.Client.Dir, "rev-parse", "work").Output()
	if err != nil {
		w.Fatal(err)
	}
	pr := m{"headRefOid": strings.TrimSpace(string(tip)), "number": number, "url": w.Home + "/pull/" + string(rune('0'+number)), "state": "OPEN", "headRefName": "work", "baseRefName": "main", "title": "T", "body": "B", "isDraft": false, "isCrossRepository": false}
	for k, v := range fields {
		pr[k] = v
	}
	return pr
}

// has makes list the pull requests of the repository.
func (w *world) has(list ...m) {
	w.Helper()
	w.Change(w.T, func(s *githubtest.State) { s.PRs = list })
}

// create opens the pull request of work.
func (w *world) create() *forge.PR {
	w.Helper()
	pr, err := w.Create(w.Context(), forge.NewPR{Title: "T", Body: "B", Base: "main", Head: "work"})
	if err != nil {
		w.Fatal(err)
	}
	return pr
}

func TestCreateFindEdit(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{Labels: []string{"to be/seen", "trellis"}, Users: []string{"bob", "core"}}, func(w *world) {
		ctx := w.Context()
		if err := w.SignedIn(ctx); err != nil {
			w.Fatal(err)
		}
		if pr, err := w.Find(ctx, "work"); pr != nil || err != nil {
			w.Fatalf("got %+v, %v before there is one", pr, err)
		}
		text := "--title $(touch x) `id`\n\"quoted\"\n"
		made, err := w.Create(ctx, forge.NewPR{Title: "-n \"$HOME\"", Body: text, Base: "main", Head: "work", Draft: true})
		if err != nil {
			w.Fatal(err)
		}
		found, err := w.Find(ctx, "work")
		if err != nil || found.Number != 1 || found.Number != made.Number || found.URL != made.URL || found.URL != w.Home+"/pull/1" || !found.Draft || !made.Draft || found.State != forge.Open ||
			found.Body != text || found.Title != "-n \"$HOME\"" || found.BaseRef != "main" || len(found.HeadSHA) != 40 {
			w.Fatalf("got %+v, made %+v, %v", found, made, err)
		}
		for range 2 {
			for name, do := range map[string]func() error{
				"body":     func() error { return w.EditBody(ctx, made.URL, "new\n{owner} @x") },
				"label":    func() error { return w.Label(ctx, made.URL, "to be/seen") },
				"reviewer": func() error { return w.AskReview(ctx, made.URL, "bob") },
				"team":     func() error { return w.AskReview(ctx, made.URL, "ann/core") },
			} {
				if err := do(); err != nil {
					w.Errorf("%s: %v", name, err)
				}
			}
		}
		if pr := w.State(w.T).PRs[0]; pr["body"] != "new\n{owner} @x" || len(pr["labels"].([]any)) != 1 || len(pr["reviewRequests"].([]any)) != 2 {
			w.Errorf("got %v", pr)
		}
		if found, err := w.Find(ctx, "work"); err != nil || found.Body != "new\n{owner} @x" {
			w.Errorf("got %+v, %v", found, err)
		}
	})
}

// What GitHub does not know is refused in GitHub's words, and nothing is created.
func TestRefused(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{}, func(w *world) {
		ctx, url := w.Context(), w.create().URL
		for want, err := range map[string]error{
			`looking for the label "nope": gh api --hostname=`:  w.Label(ctx, url, "nope"),
			"Not Found (HTTP 404)":                              w.Label(ctx, url, "nope"),
			"Reviews may only be requested from collaborators.": w.AskReview(ctx, url, "ghost"),
			"gh: Not Found (HTTP 404)":                          w.EditBody(ctx, w.Home+"/pull/9", "x"),
			"No commits between main and main":                  second(w.Create(ctx, forge.NewPR{Title: "T", Body: "B", Base: "main", Head: "main"})),
			"number of 9":                                       second(w.Status(ctx, &forge.PR{Number: 9})),
			"PullRequest with the number of 9":                  second(w.Details(ctx, w.Home+"/pull/9")),
		} {
			var failed *github.Error
			if !errors.As(err, &failed) || failed.Code != 1 || !strings.Contains(err.Error(), want) {
				w.Errorf("got %v, want %q", err, want)
			}
		}
		if s := w.State(w.T); len(s.Labels) != 0 || len(s.PRs) != 1 {
			w.Errorf("got %+v", s)
		}
		if err := w.EditBody(ctx, "https://github.example/x", "x"); err == nil || errors.As(err, new(*github.Error)) {
			w.Errorf("got %v", err)
		}
	})
}

func second[T any](_ T, err error) error { return err }

// If the answer is lost, or another process was faster, there is one pull request all the same.
func TestCreateTwice(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{Lost: "cut"}, func(w *world) {
		for range 2 {
			if pr := w.create(); pr.Number != 1 || pr.URL != w.Home+"/pull/1" {
				w.Fatalf("got %+v", pr)
			}
		}
		if list := w.State(w.T).PRs; len(list) != 1 {
			w.Errorf("got %v", list)
		}
	})
}

// If gh is killed after its request reached GitHub, the next call finds what gh created.
func TestCreateIsEnded(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{Lost: "hang"}, func(w *world) {
		ctx, cancel := context.WithCancel(w.Context())
		defer cancel()
		ended := make(chan error, 1)
		go func() {
			ended <- second(w.Create(ctx, forge.NewPR{Title: "T", Body: "B", Base: "main", Head: "work"}))
		}()
		for len(w.State(w.T).PRs) == 0 && len(ended) == 0 { // until it is made
			time.Sleep(time.Millisecond)
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			w.Fatalf("got %v", err)
		}
		if pr := w.create(); pr.Number != 1 || len(w.State(w.T).PRs) != 1 {
			w.Errorf("got %+v, %v", pr, w.State(w.T).PRs)
		}
	})
}

func TestFindTheRightOne(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{}, func(w *world) {
		pr := func(n int, state string, cross bool) m { return w.pr(n, m{"state": state, "isCrossRepository": cross}) }
		for name, c := range map[string]struct {
			list []m
			want int
		}{
			"open before newer":  {[]m{pr(1, "OPEN", false), pr(2, "MERGED", false)}, 1},
			"newest":             {[]m{pr(3, "CLOSED", false), pr(4, "MERGED", false)}, 4},
			"none of a fork":     {[]m{pr(3, "CLOSED", false), pr(4, "OPEN", true)}, 3},
			"only one of a fork": {[]m{pr(4, "OPEN", true)}, 0},
			"of another branch":  {[]m{w.pr(5, m{"headRefName": "work2"})}, 0},
		} {
			w.has(c.list...)
			got, err := w.Find(w.Context(), "work")
			if err != nil || (got == nil) != (c.want == 0) || got != nil && got.Number != c.want {
				w.Errorf("%s: got %+v, %v, want %d", name, got, err, c.want)
			}
		}
		w.has(w.pr(1, m{"state": "MERGED", "headRefOid": "4567"}))
		if got, err := w.Find(w.Context(), "work"); err != nil || got.HeadSHA != "4567" || got.State != forge.Merged {
			w.Errorf("got %+v, %v", got, err)
		}
	})
}

// Errors that every call can have: those of access, and those that may pass.
func TestOutOfOrder(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{}, func(w *world) {
		url := w.create().URL
		calls := map[string]func() error{
			"signed in": func() error { return w.SignedIn(w.Context()) },
			"find":      func() error { return second(w.Find(w.Context(), "work")) },
			"create": func() error {
				return second(w.Create(w.Context(), forge.NewPR{Title: "T", Body: "B", Base: "main", Head: "work"}))
			},
			"look":    func() error { return second(w.Status(w.Context(), &forge.PR{Number: 1})) },
			"details": func() error { return second(w.Details(w.Context(), url)) },
			"body":    func() error { return w.EditBody(w.Context(), url, "new") },
			"label":   func() error { return w.Label(w.Context(), url, "new") },
			"issue":   func() error { return second(w.EnsureIssue(w.Context(), plan)) },
		}
		for name, c := range map[string]struct {
			state githubtest.State
			is    error  // nil: an *Error of gh
			says  string // part of the error of each call
		}{
			"signed out":   {githubtest.State{SignedOut: true}, github.ErrNotSignedIn, "gh auth login"},
			"old token":    {githubtest.State{Fault: "401"}, github.ErrNotSignedIn, "HTTP 401"},
			"limited":      {githubtest.State{Fault: "403"}, nil, "HTTP 403"},
			"slowed down":  {githubtest.State{Fault: "429"}, nil, "HTTP 429"},
			"broken":       {githubtest.State{Fault: "502"}, nil, "HTTP 502"},
			"cut off":      {githubtest.State{Fault: "cut"}, nil, "unexpected EOF"},
			"unknown repo": {githubtest.State{Unknown: true}, nil, ""},
		} {
			w.Change(w.T, func(s *githubtest.State) {
				s.Fault, s.SignedOut, s.Unknown = c.state.Fault, c.state.SignedOut, c.state.Unknown
			})
			for call, do := range calls {
				if c.is == nil && call != "find" && call != "body" {
					continue // one call of each kind is enough
				}
				err, failed := do(), (*github.Error)(nil)
				if c.is != nil && !errors.Is(err, c.is) || c.is == nil && (!errors.As(err, &failed) || failed.Code != 1) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
					w.Errorf("%s, %s: got %v", name, call, err)
				}
			}
		}
		if s := w.State(w.T); len(s.PRs) != 1 || s.PRs[0]["body"] != "B" || len(s.Issues) != 0 {
			w.Errorf("got %+v", s)
		}
	})
}

// A call to a host that gives no answer is ended after some time.
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{Fault: "hang"}, func(w *world) {
		w.Wall = time.Second
		var failed *github.Error
		if _, err := w.Find(w.Context(), "work"); !errors.As(err, &failed) || failed.Code != 124 || !strings.Contains(err.Error(), "no answer in time") {
			w.Errorf("got %v", err)
		}
	})
}

// If a host can't be reached, that is an error of gh, and not one of signing in.
func TestNoHost(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{Fault: "away"}, func(w *world) {
		for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"} {
			w.Client.Env = append(w.Client.Env, name+"=http://127.0.0.1:1")
		}
		for call, err := range map[string]error{"signed in": w.SignedIn(w.Context()), "find": second(w.Find(w.Context(), "work")), "body": w.EditBody(w.Context(), w.Home+"/pull/1", "x")} {
			var failed *github.Error
			if !errors.As(err, &failed) || failed.Code != 1 || !strings.Contains(err.Error(), "connect") {
				w.Errorf("%s: got %v", call, err)
			}
		}
	})
}

// In a repository without a remote that gh knows, calls return ErrNoRemote.
func TestNoRemote(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{Elsewhere: []string{"other"}}, func(w *world) {
		run(t, w.Client.Dir, "remote set-url origin https://git.example/ann/other.git")
		if _, err := w.Find(w.Context(), "work"); !errors.Is(err, github.ErrNoRemote) {
			w.Errorf("got %v", err)
		}
		run(t, w.Client.Dir, "remote remove origin")
		if err := w.SignedIn(w.Context()); !errors.Is(err, github.ErrNoRemote) {
			w.Errorf("got %v without a remote", err)
		}
	})
}
