package runner_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const tree = "../repo-worktrees/feature/bye"

// ann commits a file in a checkout, as a person would.
func (w *world) ann(dir, file, text string) string {
	w.Helper()
	w.Write(dir+"/"+file, text)
	w.Git("-C", dir, "add", file)
	w.Git("-C", dir, "-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "-q", "-m", "mine: "+file)
	return w.Git("-C", dir, "rev-parse", "HEAD")
}

// reviewer returns a clone with the task's branch checked out.
func (w *world) reviewer() string {
	w.Helper()
	w.Git("clone", "-q", "-b", "feature/bye", "../origin.git", "../eve")
	return "../eve"
}

// Commits that people pushed or made on the branch are kept. Local ones are checked before they are pushed.
func TestDeliverWithPeoplesCommits(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		do     func(w *world)
		want   string // subjects of the remote branch's commits above main
		checks int    // calls of the check agent during the delivery
		note   string
	}{
		"pushed": {func(w *world) {
			dir := w.reviewer()
			w.ann(dir, "eve.txt", "eve\n")
			w.Git("-C", dir, "push", "-q")
		}, "mine: eve.txt\nfeat: Say bye", 0, "branch feature/bye of origin has 1 commit of Ann on top of "},
		"pushed and pulled": {func(w *world) {
			dir := w.reviewer()
			w.ann(dir, "eve.txt", "eve\n")
			w.Git("-C", dir, "push", "-q")
			w.Git("fetch", "-q", "origin")
			w.Git("-C", tree, "merge", "-q", "--ff-only", "origin/feature/bye")
		}, "mine: eve.txt\nfeat: Say bye", 0, "branch feature/bye of origin has 1 commit of Ann on top of "},
		"committed here": {func(w *world) { w.ann(tree, "ann.txt", "ann\n") }, "mine: ann.txt\nfeat: Say bye", 1, ""},
		"both": {func(w *world) {
			dir := w.reviewer()
			w.ann(dir, "eve.txt", "eve\n")
			w.Git("-C", dir, "push", "-q")
			w.ann(tree, "ann.txt", "ann\n")
		}, "Merge branch 'feature/bye' of origin\nmine: eve.txt\nmine: ann.txt\nfeat: Say bye", 1, ""},
		"the worktree is gone": {func(w *world) {
			dir := w.reviewer()
			w.ann(dir, "eve.txt", "eve\n")
			w.Git("-C", dir, "push", "-q")
			w.ann(tree, "ann.txt", "ann\n")
			w.Git("worktree", "remove", "--force", tree)
		}, "Merge branch 'feature/bye' of origin\nmine: eve.txt\nmine: ann.txt\nfeat: Say bye", 1, ""},
	}, "both", "the worktree is gone", "pushed") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, gh, dir := reviewed(t, strings.Replace(runnertest.Mending, "check: [{answer: fine}]", `check: [{run: ["echo check >> $TRELLIS_REPO/../calls.log"], answer: fine}]`, 1))
			before := w.Calls()["check"]
			c.do(w)
			if d, err := w.Site.Deliveries().Preview(t.Context(), dir); err != nil || strings.Contains(strings.Join(d.Notes, ""), "that nobody verified: a run checks what is there") != (c.checks > 0) || (d.Push == "") != (c.checks > 0) {
				t.Errorf("a preview is %q, %q, %v", d.Push, d.Notes, err)
			}
			res, err := w.Site.Deliveries().Deliver(t.Context(), dir)
			if err != nil || res.Status != trellis.Review || res.Failure != nil {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			if got := w.Git("-C", "../origin.git", "log", "--topo-order", "--format=%s", "main..feature/bye"); got != c.want {
				t.Errorf("the remote has\n%s\nwant\n%s", got, c.want)
			}
			if got := w.Calls()["check"] - before; got != c.checks {
				t.Errorf("it was checked %d times, want %d", got, c.checks)
			}
			if got := strings.Join(res.Report.Delivery.Notes, "\n"); !strings.Contains(got, c.note) {
				t.Errorf("notes are %q", got)
			}
			if c.checks > 0 && w.Task(dir).Commit != w.pushed() {
				t.Errorf("task.json has %s of %s", w.Task(dir).Commit, w.pushed())
			}
			if list := gh.State(t).PRs; len(list) != 1 {
				t.Errorf("there are %v", list)
			}
			if again, err := w.Site.Deliveries().Deliver(t.Context(), dir); err != nil || again.Failure != nil || w.Calls()["check"]-before != c.checks {
				t.Errorf("again: got %v, %v", again.Failure, err)
			}
		})
	}
}

// If the base moved and a person pushed a commit meanwhile, the delivery merges both.
func TestDeliverBehindPeoplesCommits(t *testing.T) {
	soak.Only(t, "TestDeliverWithPeoplesCommits")
	t.Parallel()
	w, _, dir := behind(t, map[string]string{"new.txt": "new\n"})
	eve := w.reviewer()
	theirs := w.ann(eve, "eve.txt", "eve\n")
	w.Git("-C", eve, "push", "-q")
	res, err := w.Site.Deliveries().Deliver(t.Context(), dir)
	if err != nil || res.Status != trellis.Review || res.Failure != nil {
		t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
	}
	if got, want := w.Git("log", "-1", "--format=%P", w.pushed()), theirs+" "+w.Git("-C", "../ann", "rev-parse", "main"); got != want {
		t.Errorf("the remote has a commit with parents %s, want %s", got, want)
	}
}

// If a delivery can't merge, it leaves everything as it is and names the command to do it by hand. That command works.
func TestDeliverAgainstPeoplesCommits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		do     func(w *world, eve string)
		want   string
		byHand func(w *world)
	}{
		"the same lines": {func(w *world, eve string) {
			w.ann(eve, "both.txt", "eve\n")
			w.Git("-C", eve, "push", "-q")
			w.ann(tree, "both.txt", "ann\n")
		}, "both changed the same lines of both.txt; `git -C ", func(w *world) {
			w.Write(tree+"/both.txt", "both\n")
			w.Git("-C", tree, "add", "both.txt")
			w.Git("-C", tree, "-c", "user.name=Ann", "-c", "user.email=a@example.org", "commit", "-q", "-m", "together")
		}},
		"work that is not committed": {func(w *world, eve string) {
			w.ann(eve, "eve.txt", "eve\n")
			w.Git("-C", eve, "push", "-q")
			w.ann(tree, "ann.txt", "ann\n")
			w.Write(tree+"/greet.sh", w.Read(tree+"/greet.sh")+"# more\n")
		}, "the worktree holds what is not committed, or is not on that branch; `git -C ", nil},
		"a commit that was made anew": {func(w *world, eve string) {
			w.Git("-C", eve, "-c", "user.name=Eve", "-c", "user.email=e@example.org", "commit", "-q", "--amend", "-m", "hers")
			w.Git("-C", eve, "push", "-q", "--force")
		}, "somebody else pushed: it is not written over; `git -C ", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _, dir := reviewed(t, runnertest.Mending)
			eve := w.reviewer()
			c.do(w, eve)
			there, here := w.pushed(), w.Git("rev-parse", "feature/bye")
			_, err := w.Site.Deliveries().Deliver(t.Context(), dir)
			fail := (*flow.Failure)(nil)
			if !errors.As(err, &fail) || fail.Code != string(trellis.PushFailed) || !strings.Contains(fail.Detail, c.want) {
				t.Fatalf("got %v", err)
			}
			if task := w.Task(dir); task.Status != trellis.Review || w.pushed() != there || w.Git("rev-parse", "feature/bye") != here {
				t.Errorf("it is %s with %+v", task.Status, task.Pipeline.Failure)
			}
			if c.byHand == nil {
				return
			}
			_, pull, _ := strings.Cut(fail.Detail, "`git ")
			pull, _, _ = strings.Cut(pull, "`")
			cmd := exec.Command("sh", "-c", "git "+pull)
			cmd.Dir = w.Dir
			if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "Merge conflict in both.txt") {
				t.Fatalf("`git %s`: %v\n%s", pull, err, out)
			}
			c.byHand(w)
			if res, err := w.Site.Deliveries().Deliver(t.Context(), dir); err != nil || res.Failure != nil || w.pushed() != w.Git("rev-parse", "feature/bye") {
				t.Errorf("by hand: got %v, %v", res.Failure, err)
			}
		})
	}
}

// Work whose pull request was merged is not updated to a changed base: no agent is called.
func TestDeliverOfWhatWasMerged(t *testing.T) {
	t.Parallel()
	w, gh, dir := behind(t, map[string]string{"greet.sh": "echo \"Hi, ${1:-world}!\"\n"})
	gh.Change(t, func(s *githubtest.State) { s.PRs[0]["state"] = "MERGED" })
	tip := w.Git("rev-parse", "feature/bye")
	if d, err := w.Site.Deliveries().Preview(t.Context(), dir); err != nil || len(d.Notes) != 1 || !strings.HasPrefix(d.Notes[0], "the pull request of 02-01-bye was merged: https://") {
		t.Errorf("a preview is %+v, %v", d, err)
	}
	var refused *runner.RefusedError
	if _, err := w.Site.Deliveries().Deliver(t.Context(), dir); !errors.As(err, &refused) || !strings.Contains(refused.Why, "was merged: https://") || refused.Hint != "trellis status --refresh 02-01-bye" {
		t.Errorf("got %v", err)
	}
	if w.Task(dir).Status != trellis.Review || w.Git("rev-parse", "feature/bye") != tip || w.Debugs() != 0 {
		t.Errorf("it is %s", w.Task(dir).Status)
	}
}

// If commits that people pushed fail the checks, they stay on the branch and the task has the failure.
func TestPeoplesCommitsThatDoNotPass(t *testing.T) {
	t.Parallel()
	w, _, dir := behind(t, map[string]string{"new.txt": "new\n"})
	eve := w.reviewer()
	theirs := w.ann(eve, "test.sh", "exit 1\n")
	w.Git("-C", eve, "push", "-q")
	w.Write(".trellis/rehearsal.yaml", strings.Replace(runnertest.Mending, `when: "# From the pull request"`, `when: ""`, 1))
	res, err := w.Site.Deliveries().Deliver(t.Context(), dir)
	if err != nil || res.Status != trellis.Review || res.Failure == nil || w.pushed() != theirs {
		t.Errorf("got %s, %v, %v, the remote has %s", res.Status, res.Failure, err, w.pushed())
	}
	if task := w.Task(dir); task.Commit != theirs || task.Pipeline.Failure.Code == "" {
		t.Errorf("task.json has %s, %+v", task.Commit, task.Pipeline.Failure)
	}
	if _, err := os.Stat(w.Dir + "/" + tree + "/test.sh"); err != nil {
		t.Error(err)
	}
}

// After its pull request was merged or closed, the branch is not pushed again and gets no other pull request, even if the branch was deleted.
func TestDeliverOfADeletedBranch(t *testing.T) {
	soak.Only(t, "TestDeliverOfWhatWasMerged")
	t.Parallel()
	for _, state := range soak.Of([]string{"MERGED", "CLOSED"}, "MERGED") {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			w, gh, dir := reviewed(t, runnertest.Mending)
			eve := w.reviewer()
			theirs := w.ann(eve, "eve.txt", "eve\n")
			w.Git("-C", eve, "push", "-q")
			gh.Change(t, func(s *githubtest.State) { s.PRs[0]["state"], s.PRs[0]["headRefOid"] = state, theirs })
			w.Git("-C", "../origin.git", "branch", "-q", "-D", "feature/bye")
			var refused *runner.RefusedError
			if _, err := w.Site.Deliveries().Deliver(t.Context(), dir); !errors.As(err, &refused) || !strings.Contains(refused.Why, "was "+strings.ToLower(state)+": https://") {
				t.Errorf("got %v", err)
			}
			if there := w.Git("-C", "../origin.git", "branch", "--list", "feature/bye"); there != "" || len(gh.State(t).PRs) != 1 {
				t.Errorf("the remote has %q, there are %v", there, gh.State(t).PRs)
			}
		})
	}
}
