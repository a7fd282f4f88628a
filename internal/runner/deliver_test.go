package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// there checks that the branch was pushed once and has one pull request, with its current commit.
func (w *world) there(gh *githubtest.GH, dir string) {
	w.Helper()
	tip := w.Git("rev-parse", "feature/bye")
	task, list := w.Task(dir), gh.State(w.T).PRs
	if len(list) != 1 || list[0]["headRefOid"] != tip || task.PRURL != list[0]["url"] || task.Status != trellis.Review || task.Commit != tip || task.Pipeline.Outcome != trellis.Delivered {
		w.Fatalf("it is %s with %q, commit %s of %s; there are %v", task.Status, task.PRURL, task.Commit, tip, list)
	}
	if got := w.Read("../received"); strings.Count(got, "refs/heads/feature/bye") != 1 || !strings.Contains(got, tip) {
		w.Errorf("pushed was %s", got)
	}
	if report := w.Read(".trellis/tasks/02-01-bye/report.md"); !strings.Contains(report, "- Pushed to: origin\n- Pull request: "+task.PRURL+"\n") {
		w.Errorf("report.md is\n%s", report)
	}
}

func TestDelivered(t *testing.T) {
	t.Parallel()
	w, gh := hosted(t, githubtest.State{})
	dir := w.Hand("02-01-bye", runnertest.ByePRD)
	if res := w.Start(dir); res.Status != trellis.Review || res.Report.Delivery.Number != 1 || res.Report.Delivery.PRURL == "" {
		t.Fatalf("got %s, %v, %+v", res.Status, res.Failure, res.Report.Delivery)
	}
	w.there(gh, dir)
	pr := gh.State(t).PRs[0]
	body := pr["body"].(string)
	for _, want := range []string{"People leave, too.\n", "| A1 | it says bye | must | met | ", "| `sh test.sh` | 0 | ", "- Task: `.trellis/tasks/02-01-bye`\n", "- Rounds: 2\n", "- Agents: "} {
		if !strings.Contains(body, want) {
			t.Errorf("there is no %q in\n%s", want, body)
		}
	}
	if pr["title"] != "feat: Say bye" || pr["isDraft"] != true || pr["baseRefName"] != "main" {
		t.Errorf("got %v", pr)
	}
}

// Texts that look like secrets are masked in the title and the body of a pull request, and in a preview.
func TestDeliveredWithoutSecrets(t *testing.T) {
	t.Parallel()
	w, gh := hosted(t, githubtest.State{})
	token, other := "ghp_"+"wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO2mCqe0"[:36], "ghp_"+"aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"[:36]
	dir := w.Hand("02-01-bye", strings.NewReplacer("# Say bye", "# Say bye to "+token, "People leave, too.", "People leave, too: "+token+" and "+other+".", "it says bye", "it says bye, not "+token).Replace(runnertest.ByePRD))
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	pr := gh.State(t).PRs[0]
	text := pr["title"].(string) + "\n" + pr["body"].(string)
	for _, want := range []string{"feat: Say bye to ***\n", "People leave, too: \\*\\*\\* and \\*\\*\\*.", "it says bye, not \\*"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	d, err := w.Site.Deliveries().Preview(context.Background(), dir)
	for _, part := range []string{token[10:], other[10:]} {
		if err != nil || strings.Contains(text+d.Title+d.Body+strings.Join(d.Commands, " "), part) {
			t.Errorf("a secret is told, or %v:\n%s", err, text)
		}
	}
}

// If a delivery fails, the commit is kept, and a retry or another delivery continues without calling an agent.
func TestDeliveryGoesOn(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(w *world, dir string) (runner.Result, error){
		"retry": func(w *world, dir string) (runner.Result, error) {
			if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
				return runner.Result{}, err
			}
			return w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
		},
		"deliver": func(w *world, dir string) (runner.Result, error) {
			w.Site.Config.Delivery.PR = false
			return w.Site.Deliveries().Deliver(context.Background(), dir)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, gh := hosted(t, githubtest.State{FailFrom: 1, FailTo: 1})
			dir := w.Hand("02-01-bye", runnertest.ByePRD)
			res := w.Start(dir)
			if res.Status != trellis.Failed || res.Failure.Code != string(trellis.PRFailed) || w.Task(dir).Commit != w.Git("rev-parse", "feature/bye") {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.Write(".trellis/rehearsal.yaml", "roles: {}\n") // any call of an agent fails now
			w.Site.Available = func(context.Context, string) error { return flow.Fail(string(trellis.AgentMissing), "no such program") }
			if res, err := again(w, dir); err != nil || res.Status != trellis.Review || res.Report.Delivery.PRURL == "" {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			w.there(gh, dir)
		})
	}
}

// If the worktree changed after a delivery failed, the run verifies the work again before it is delivered.
func TestChangedSinceDeliveryFailed(t *testing.T) {
	t.Parallel()
	w, gh := hosted(t, githubtest.State{FailFrom: 1, FailTo: 1})
	dir := w.Hand("02-01-bye", runnertest.ByePRD)
	w.Start(dir)
	if d, err := w.Site.Deliveries().Preview(context.Background(), dir); err != nil || len(d.Notes) != 0 {
		t.Errorf("before anything is changed: %q, %v", d.Notes, err)
	}
	w.Write("../repo-worktrees/feature/bye/more.sh", "echo more\n")
	if d, err := w.Site.Deliveries().Preview(context.Background(), dir); err != nil || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "its worktree was changed") {
		t.Errorf("it is foretold as %q, %v", d.Notes, err)
	}
	said := ""
	w.Site.Event = func(e runner.Event) { said += e.Message + "\n" }
	if res, err := w.Site.Deliveries().Deliver(context.Background(), dir); err != nil || res.Status != trellis.Review {
		t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
	}
	if !strings.HasPrefix(said, "02-01-bye: its worktree was changed since it was verified: it runs again first") {
		t.Errorf("it said\n%s", said)
	}
	if got := w.Git("-C", "../origin.git", "ls-tree", "--name-only", "feature/bye"); !strings.Contains(got, "more.sh") || len(gh.State(t).PRs) != 1 {
		t.Errorf("the branch holds %s", got)
	}
}

// A task in review is delivered when a person asks for it. Asking again changes nothing.
func TestDeliverInReview(t *testing.T) {
	t.Parallel()
	w, gh := hosted(t, githubtest.State{})
	w.Site.Config.Delivery.PR = false
	dir := w.Hand("02-01-bye", runnertest.ByePRD)
	var refused *runner.RefusedError
	if _, err := w.Site.Deliveries().Deliver(context.Background(), dir); !errors.As(err, &refused) {
		t.Errorf("got %v before there is a run", err)
	}
	w.Start(dir)
	if len(gh.State(t).Calls) != 0 || w.Task(dir).PRURL != "" {
		t.Fatal("it is delivered although nobody asked for it")
	}
	for range 2 {
		if res, err := w.Site.Deliveries().Deliver(context.Background(), dir); err != nil || res.Status != trellis.Review || res.Report.Delivery.Number != 1 {
			t.Fatalf("got %+v, %v", res, err)
		}
		w.there(gh, dir)
	}
}

// If the base branch was renamed after the run, the pull request goes to the branch that task.json names.
func TestDeliverToARenamedBase(t *testing.T) {
	soak.Only(t, "TestDelivered")
	t.Parallel()
	w, gh := hosted(t, githubtest.State{})
	w.Site.Config.Delivery.PR = false
	dir := w.Hand("02-01-bye", runnertest.ByePRD)
	w.Start(dir)
	w.Git("branch", "-m", "main", "trunk")
	w.Git("-C", "../origin.git", "branch", "-m", "main", "trunk")
	w.Git("fetch", "-q", "--prune", "origin")
	w.Edit(dir, `"base_branch": "main"`, `"base_branch": "trunk"`)
	if res, err := w.Site.Deliveries().Deliver(t.Context(), dir); err != nil || res.Report.Delivery.Number != 1 {
		t.Fatalf("got %+v, %v", res, err)
	}
	if pr := gh.State(t).PRs[0]; pr["baseRefName"] != "trunk" {
		t.Errorf("got %v", pr)
	}
}

// If Trellis is killed at any record around the delivery, there is one push and one pull request, and task.json names it.
func TestKilledWhileItDelivers(t *testing.T) {
	t.Parallel()
	const records = 14 // from the last one before the delivery to the end
	plain, _ := hosted(t, githubtest.State{})
	_, steps := plain.delivers(0)
	every := 3
	if testing.Short() {
		every = 5
	}
	for at := steps - records; at <= steps; at += every {
		w, gh := hosted(t, githubtest.State{})
		if killed, took := w.delivers(at); !killed && took >= at {
			t.Errorf("it was not killed at %d of %d", at, steps)
		}
		w.delivers(0)
		w.there(gh, filepath.Join(w.Dir, ".trellis/tasks/02-01-bye"))
	}
}

// delivers runs the task in a separate process.
func (w *world) delivers(kill int) (killed bool, steps int) {
	w.Helper()
	dir := filepath.Join(w.Dir, ".trellis/tasks/02-01-bye")
	if _, err := os.Stat(dir); err != nil {
		w.Hand("02-01-bye", runnertest.ByePRD)
	}
	w.Env = append(w.Env, runnertest.ChildPR+"=1")
	return w.Child(dir, kill)
}
