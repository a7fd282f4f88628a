package github_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/github"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
)

var plan = github.NewIssue{Title: "-n $(x)", Body: "# Plan\n<!-- mark a/1 -->\n", Label: "trellis plan", Mark: "<!-- mark a/1 -->"}

// A plan gets one issue, however often EnsureIssue is called.
func TestEnsureIssue(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{}, func(w *world) {
		for range 2 {
			i, err := w.EnsureIssue(w.Context(), plan)
			if err != nil || i.Number != 101 || i.URL != w.Home+"/issues/101" || i.State != forge.Open {
				w.Fatalf("got %+v, %v", i, err)
			}
		}
		other := plan
		other.Body, other.Mark = "<!-- mark a/2 -->", "<!-- mark a/2 -->"
		if i, err := w.EnsureIssue(w.Context(), other); err != nil || i.Number != 102 {
			w.Errorf("another: %+v, %v", i, err)
		}
		s := w.State(w.T)
		if len(s.Issues) != 2 || s.Issues[0]["body"] != plan.Body || s.Issues[0]["title"] != plan.Title || s.Issues[0]["label"] != plan.Label {
			w.Errorf("got %v", s.Issues)
		}
	})
}

// A closed issue is found behind many others; a pull request with the same text is not an issue.
func TestIssueAmongMany(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{}, func(w *world) {
		w.Change(w.T, func(s *githubtest.State) {
			for n := range 120 {
				i := m{"number": 101 + n, "url": fmt.Sprintf("%s/issues/%d", w.Home, 101+n), "state": "OPEN", "title": "T", "body": fmt.Sprint("other ", n), "label": plan.Label}
				switch n {
				case 1:
					i["body"], i["pull_request"] = plan.Body, m{}
				case 2:
					i["body"], i["state"] = plan.Body, "CLOSED"
				}
				s.Issues = append(s.Issues, i)
			}
		})
		if i, err := w.EnsureIssue(w.Context(), plan); err != nil || i.Number != 103 || i.State != forge.Closed || len(w.State(w.T).Issues) != 120 {
			w.Errorf("got %+v, %v", i, err)
		}
	})
}

func TestEnsureIssueWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	each(t, githubtest.State{Lost: "cut"}, func(w *world) {
		if i, err := w.EnsureIssue(w.Context(), plan); err != nil || i.Number != 101 {
			w.Errorf("got %+v, %v", i, err)
		}
		if got := len(w.State(w.T).Issues); got != 1 {
			w.Errorf("%d issues", got)
		}
	})
}

func TestEnsureIssueFails(t *testing.T) {
	t.Parallel()
	gh := githubtest.Install(t, githubtest.State{FailFrom: 3, FailTo: 9})
	f := &github.Client{Dir: checkout(t, gh), Env: gh.Env}
	var failed *github.Error
	if i, err := f.EnsureIssue(t.Context(), plan); !errors.As(err, &failed) || i != nil {
		t.Errorf("got %+v, %v", i, err)
	}
	f.Env = []string{"PATH=" + t.TempDir()}
	if _, err := f.EnsureIssue(t.Context(), plan); !errors.Is(err, github.ErrNoProgram) {
		t.Errorf("without gh: %v", err)
	}
	for name, n := range map[string]github.NewIssue{"mark": {Body: "x", Mark: "y"}, "comma": {Body: "x", Mark: "x", Label: "a,b"}} {
		if i, err := f.EnsureIssue(t.Context(), n); err == nil || errors.Is(err, github.ErrNoProgram) {
			t.Errorf("%s: got %+v, %v", name, i, err)
		}
	}
}
