package forge_test

import (
	"context"
	"errors"
	"testing"

	"github.com/trellis-tasks/trellis/internal/forge"
	"github.com/trellis-tasks/trellis/internal/forge/forgetest"
)

var plan = forge.NewIssue{Title: "-n $(x)", Body: "# Plan\n<!-- mark a/1 -->\n", Label: "trellis plan", Mark: "<!-- mark a/1 -->"}

// The same plan gets one issue, whatever happened to the answer or the caller.
func TestEnsureIssue(t *testing.T) {
	gh := forgetest.Install(t, forgetest.State{})
	f := &forge.Forge{Dir: checkout(t), Env: gh.Env}
	for range 2 {
		i, err := f.EnsureIssue(context.Background(), plan)
		if err != nil || i.Number != 101 || i.URL == "" || i.State != forge.Open {
			t.Fatalf("got %+v, %v", i, err)
		}
	}
	other := plan
	other.Body, other.Mark = "<!-- mark a/2 -->", "<!-- mark a/2 -->"
	if i, err := f.EnsureIssue(context.Background(), other); err != nil || i.Number != 102 {
		t.Errorf("another: %+v, %v", i, err)
	}
	s := gh.State(t)
	if len(s.Issues) != 2 || s.Issues[0]["body"] != plan.Body || s.Issues[0]["title"] != plan.Title || s.Issues[0]["label"] != plan.Label {
		t.Errorf("got %v", s.Issues)
	}
}

func TestEnsureIssueWhoseAnswerIsLost(t *testing.T) {
	gh := forgetest.Install(t, forgetest.State{Broken: 3})
	f := &forge.Forge{Dir: checkout(t), Env: gh.Env}
	if i, err := f.EnsureIssue(context.Background(), plan); err != nil || i.Number != 101 {
		t.Errorf("got %+v, %v", i, err)
	}
	if got := len(gh.State(t).Issues); got != 1 {
		t.Errorf("%d issues", got)
	}
}

func TestEnsureIssueFails(t *testing.T) {
	gh := forgetest.Install(t, forgetest.State{FailFrom: 2, FailTo: 9})
	f := &forge.Forge{Dir: checkout(t), Env: gh.Env}
	var failed *forge.Error
	if i, err := f.EnsureIssue(context.Background(), plan); !errors.As(err, &failed) || i != nil {
		t.Errorf("got %+v, %v", i, err)
	}
	gh.Change(t, func(s *forgetest.State) { s.SignedOut = true })
	if _, err := f.EnsureIssue(context.Background(), plan); !errors.Is(err, forge.ErrNotSignedIn) {
		t.Errorf("signed out: %v", err)
	}
	f.Env = []string{"PATH=" + t.TempDir()}
	if _, err := f.EnsureIssue(context.Background(), plan); !errors.Is(err, forge.ErrNoProgram) {
		t.Errorf("without gh: %v", err)
	}
}
