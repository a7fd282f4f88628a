package runner_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// With update by rebase, commits that people pushed are not rebased when the task is run again: the new base is merged.
func TestPeoplesCommitsStay(t *testing.T) {
	t.Parallel()
	w, gh, dir := reviewed(t, runnertest.Mending)
	w.Site.Config.Delivery.Update = "rebase"
	w.Site.Config.Delivery.PR = true
	w.Git("clone", "-q", "-b", "feature/bye", "../origin.git", "../ann")
	ann := []string{"-C", "../ann", "-c", "user.name=Ann", "-c", "user.email=a@example.org"}
	w.Git(append(ann, "commit", "-q", "--allow-empty", "-m", "theirs")...)
	w.Git("-C", "../ann", "push", "-q")
	theirs := w.Git("-C", "../ann", "rev-parse", "HEAD")
	w.say(gh, runnertest.Failing("ci"))
	if res := w.Start(dir); res.Status != trellis.Review || res.Failure != nil {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	mended := w.Git("rev-parse", "feature/bye")
	w.Git(append(ann, "checkout", "-q", "main")...)
	w.Git(append(ann, "commit", "-q", "--allow-empty", "-m", "went on")...)
	w.Git("-C", "../ann", "push", "-q", "origin", "main")
	if err := w.Site.Orders().Cancel(dir); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Orders().Retry(w.T.Context(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review || res.Failure != nil {
		t.Fatalf("again: got %s, %v", res.Status, res.Failure)
	}
	pushed := w.Git("-C", "../origin.git", "rev-parse", "feature/bye")
	if got, want := w.Git("log", "-1", "--format=%P", pushed), mended+" "+w.Git("-C", "../ann", "rev-parse", "main"); got != want {
		t.Errorf("the remote has a commit with parents %s, want %s", got, want)
	}
	if got := w.Git("log", "--format=%H", pushed); !strings.Contains(got, theirs) {
		t.Errorf("%s is gone from\n%s", theirs, got)
	}
}

// behind returns a world with a task in review, whose base got a commit with these files at the remote.
func behind(t *testing.T, files map[string]string) (w *world, gh *githubtest.GH, dir string) {
	t.Helper()
	w, gh, dir = reviewed(t, runnertest.Mending)
	w.Site.Config.Delivery.Update = "rebase"
	w.Git("clone", "-q", "../origin.git", "../ann")
	for name, text := range files {
		w.Write("../ann/"+name, text)
	}
	w.Git("-C", "../ann", "add", "-A")
	w.Git("-C", "../ann", "-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "-q", "-m", "went on")
	w.Git("-C", "../ann", "push", "-q", "origin", "main")
	return w, gh, dir
}

func (w *world) pushed() string {
	w.Helper()
	return w.Git("-C", "../origin.git", "rev-parse", "feature/bye")
}

// If a delivery can't update the work to its base, the task stays in review as pushed. A delivery and a retry both continue from there.
func TestDeliverThatConflicts(t *testing.T) {
	soak.Only(t, "TestConflictStays")
	t.Parallel()
	for _, again := range soak.Of([]string{"deliver", "retry"}, "deliver") {
		t.Run(again, func(t *testing.T) {
			t.Parallel()
			w, gh, dir := behind(t, map[string]string{"greet.sh": "echo \"Hi, ${1:-world}!\"\n"})
			w.Write(".trellis/rehearsal.yaml", strings.Replace(runnertest.Mending, `when: "# From the pull request"`, `when: "# Both sides"`, 1))
			first, began := w.pushed(), w.Task(dir).Pipeline.BaseCommit
			res, err := w.Site.Deliveries().Deliver(t.Context(), dir)
			task := w.Task(dir)
			if err != nil || res.Status != trellis.Review || res.Failure == nil || res.Failure.Code != string(trellis.Conflict) {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			if task.Commit != first || task.Pipeline.BaseCommit != began || task.PRURL == "" || w.pushed() != first || w.Git("rev-parse", "feature/bye") != first {
				t.Errorf("it has %s and %s, the remote %s, want %s", task.Commit, task.PRURL, w.pushed(), first)
			}
			if w.say(gh, runnertest.Fields{"statusCheckRollup": []any{}}); w.Task(dir).Pipeline.Failure.Code != trellis.Conflict {
				t.Errorf("a look at the pull request made it %+v", w.Task(dir).Pipeline.Failure)
			}
			w.Write(".trellis/rehearsal.yaml", strings.Replace(runnertest.Mending, `when: "# From the pull request"`, `files: {greet.sh: "if [ \"$1\" = --bye ]; then echo Bye; else echo \"Hello, ${1:-world}!\"; fi\n"}`, 1))
			if again == "deliver" {
				res, err = w.Site.Deliveries().Deliver(t.Context(), dir)
			} else if err = w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err == nil {
				res = w.Start(dir)
			}
			if err != nil || res.Status != trellis.Review || res.Failure != nil || w.Task(dir).Pipeline.Failure.Code != "" {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			if got, want := w.Git("log", "-1", "--format=%P", w.pushed()), first+" "+w.Git("-C", "../ann", "rev-parse", "main"); got != want {
				t.Errorf("the remote has a commit with parents %s, want %s", got, want)
			}
		})
	}
}

// A delivery that was interrupted is completed by another deliver, or by start.
func TestDeliverIsCutOff(t *testing.T) {
	t.Parallel()
	for name, again := range map[string]func(w *world, dir string) (runner.Result, error){
		"deliver": func(w *world, dir string) (runner.Result, error) {
			return w.Site.Deliveries().Deliver(w.T.Context(), dir)
		},
		"start": func(w *world, dir string) (runner.Result, error) {
			return w.Site.Starter().Start(w.T.Context(), dir, runner.RunOptions{})
		},
	} {
		for _, at := range []string{"begun", "woken"} {
			if !soak.Asked() && (name == "start") == (at == "begun") { // each command and each moment once
				continue
			}
			t.Run(name+" "+at, func(t *testing.T) {
				t.Parallel()
				w, _, dir := behind(t, map[string]string{"new.txt": "new\n"})
				first := w.pushed()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				old := w.Site.Store.Disk
				w.Site.Store.Disk = &durable.Disk{Fault: func(_, path string) error {
					if at == "begun" && filepath.Base(path) == taskdir.TaskJSON {
						return errors.New("cut off")
					}
					return nil
				}}
				w.Site.Event = func(e runner.Event) {
					if at == "woken" && e.State != nil {
						cancel()
					}
				}
				res, err := w.Site.Deliveries().Deliver(ctx, dir)
				if status := map[string]trellis.Status{"begun": trellis.Review, "woken": trellis.InProgress}[at]; err == nil && !res.Interrupted || w.Task(dir).Status != status {
					t.Fatalf("got %+v, %v: it is %s", res, err, w.Task(dir).Status)
				}
				w.Site.Store.Disk, w.Site.Event = old, nil
				if d, err := w.Site.Deliveries().Preview(t.Context(), dir); err != nil || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "cut off") {
					t.Errorf("a preview is %+v, %v", d, err)
				}
				if res, err = again(w, dir); err != nil || res.Status != trellis.Review || res.Failure != nil {
					t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
				}
				if got, want := w.Git("log", "-1", "--format=%P", w.pushed()), first+" "+w.Git("-C", "../ann", "rev-parse", "main"); got != want {
					t.Errorf("the remote has a commit with parents %s, want %s", got, want)
				}
			})
		}
	}
}

// If the base branch is one of the remote, the run fetches it first.
func TestBaseOfTheRemote(t *testing.T) {
	t.Parallel()
	w, _, dir := behind(t, map[string]string{"new.txt": "new\n"})
	if _, err := w.Site.Store.Update(dir, func(_ *taskdir.Task, e *taskdir.Edit) error { e.Set("base_branch", "origin/main"); return nil }); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Orders().Cancel(dir); err != nil {
		t.Fatal(err)
	}
	if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review || res.Failure != nil {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if got, want := w.Task(dir).Pipeline.BaseCommit, w.Git("-C", "../ann", "rev-parse", "main"); got != want {
		t.Errorf("it stands on %s, want %s", got, want)
	}
}

// If a pull request is closed while its run works on feedback, no other one is made.
func TestClosedWhileItIsMended(t *testing.T) {
	t.Parallel()
	w, gh, dir := reviewed(t, runnertest.Mending)
	w.say(gh, runnertest.Failing("ci"))
	gh.Change(t, func(s *githubtest.State) { s.PRs[0]["state"] = "CLOSED" })
	res := w.Start(dir)
	if list := gh.State(t).PRs; res.Status != trellis.Review || len(list) != 1 || !strings.Contains(strings.Join(res.Report.Notes, "\n"), "pull request 1 was closed: no other one is opened") {
		t.Errorf("got %s, %q; there are %v", res.Status, res.Report.Notes, list)
	}
	if _, _, err := w.Site.PullRequests().Refresh(t.Context(), ""); err != nil || w.Task(dir).Status != trellis.Cancelled {
		t.Errorf("it is %s, %v", w.Task(dir).Status, err)
	}
}
