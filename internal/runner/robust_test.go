package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/agents"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const noteDone = "check: [{answer: fine}]\naccept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"notes.txt:1\"}]}}]"

func roles(lines string) string { return "roles:\n  " + strings.ReplaceAll(lines, "\n", "\n  ") + "\n" }

// Whatever an agent does with git in its worktree, the commit is the verified work, on the base.
func TestAgentsThatMeddleWithGit(t *testing.T) {
	t.Parallel()
	for name, script := range soak.Rows(t, map[string]string{
		"takes the base away":    "git reset -q --hard HEAD~1; echo x > notes.txt",
		"switches the branch":    "echo x > notes.txt; git checkout -q -b elsewhere; git add -A; git commit -q -m elsewhere",
		"detaches HEAD":          "echo x > notes.txt; git checkout -q --detach",
		"forges our trailers":    "echo y > other.txt; git add other.txt; git commit -q -m 'x' -m 'Trellis-Task: 02-01-x' -m 'Trellis-Call: 02-01-x/1/round-1/commit#1'; echo x > notes.txt",
		"stages some of it":      "echo x > notes.txt; echo y > more.txt; git add more.txt",
		"leaves an ignored file": "echo ignored.log > .git/info/exclude 2>/dev/null; echo x > notes.txt",
	}, "takes the base away", "forges our trailers", "switches the branch") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, roles(fmt.Sprintf("implement: [{run: [%q], answer: done}]\n", script)+noteDone))
			w.Write("second.txt", "x\n")
			w.Git("add", "-A")
			w.Git("commit", "-q", "-m", "second")
			dir := w.Hand("02-01-x", lyingPRD)
			res := w.Start(dir)
			if res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.Git("merge-base", "--is-ancestor", "main", "feature/x")
			if got := w.Git("show", "feature/x:notes.txt"); got != "x" {
				t.Errorf("the branch holds %q", got)
			}
			if got := w.Git("-C", res.Report.Worktree, "status", "--porcelain", "--", ":!.trellis"); got != "" {
				t.Errorf("the worktree is left with %s", got)
			}
			if task := w.Task(dir); task.Commit != w.Git("rev-parse", "feature/x") {
				t.Errorf("task.json says %s", task.Commit)
			}
		})
	}
}

// A commit of an earlier run without a journal does not count as the commit of this run.
func TestCommitOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: [{files: {notes.txt: \"old\\n\"}, answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}]\n"+
		"accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"notes.txt:1\"}]}}]"))
	dir := w.Hand("02-01-x", lyingPRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s", res.Status)
	}
	if err := os.RemoveAll(filepath.Join(dir, "run")); err != nil {
		t.Fatal(err)
	}
	w.Write(".trellis/rehearsal.yaml", roles("implement: [{files: {notes.txt: \"new\\n\"}, answer: done}]\n"+noteDone))
	w.Edit(dir, `"review"`, `"failed"`)
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("again: %s, %v", res.Status, res.Failure)
	}
	if got := w.Git("show", "feature/x:notes.txt"); got != "new" {
		t.Errorf("the branch holds %q", got)
	}
	if n := w.Git("rev-list", "--count", "main..feature/x"); n != "1" {
		t.Errorf("%s commits", n)
	}
}

// A retry with --fresh begins at the base and keeps a backup of the work, even without a worktree.
func TestFreshWithoutWorktree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: [{run: [\"echo x > left.txt; git add -A; git commit -q -m mine; echo Bye > greet.sh\"], answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}]"))
	dir := w.Hand("02-01-x", lyingPRD)
	res := w.Start(dir)
	if res.Status != trellis.Failed {
		t.Fatalf("got %s", res.Status)
	}
	w.Git("worktree", "remove", "--force", res.Report.Worktree)
	w.Write(".trellis/rehearsal.yaml", roles("implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\n"+noteDone))
	if err := w.Site.Orders().Retry(context.Background(), dir, true, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("fresh: %s, %v", res.Status, res.Failure)
	}
	if got := w.Git("ls-tree", "--name-only", "feature/x"); strings.Contains(got, "left.txt") {
		t.Errorf("the branch holds %s", got)
	}
	if ref := w.Git("for-each-ref", "--format=%(refname)", "refs/trellis/backup"); ref == "" || !strings.Contains(w.Git("ls-tree", "--name-only", ref), "left.txt") {
		t.Errorf("the backups are %q", ref)
	}
}

// Trellis does not follow links that an agent puts into its worktree.
func TestLinksInTheWorktree(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: [{run: [\"rm -rf .trellis/.runtime && ln -s $TRELLIS_REPO/../victim .trellis/.runtime && ln -sf $TRELLIS_REPO/../victim/file .trellis/.current-task\"], files: {notes.txt: \"x\\n\"}, answer: done}]\n"+noteDone))
	w.Write("../victim/task/precious.txt", "precious")
	w.Write("../victim/file", "precious")
	dir := w.Hand("02-01-x", lyingPRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if w.Read("../victim/task/precious.txt") != "precious" || w.Read("../victim/file") != "precious" {
		t.Error("a file outside of the worktree was changed")
	}
	entries, err := os.ReadDir(filepath.Join(w.Dir, "..", "victim", "task"))
	if err != nil || len(entries) != 1 {
		t.Errorf("outside of the worktree is %v, %v", entries, err)
	}
}

// Files that the checks change are not in the commit: the checks run in another checkout, or their changes are undone.
func TestChecksThatWrite(t *testing.T) {
	t.Parallel()
	for _, fresh := range []bool{true, false} {
		w := newWorld(t, roles("implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\n"+noteDone))
		w.Site.Config.VerifyFresh = fresh
		w.Site.Config.Verify = []string{"date +%N >> README.md; echo log > out.log; sh test.sh"}
		dir := w.Hand("02-01-x", lyingPRD)
		if res := w.Start(dir); res.Status != trellis.Review {
			t.Fatalf("fresh %v: got %s, %v", fresh, res.Status, res.Failure)
		}
		if got := w.Git("show", "--name-only", "--format=", "feature/x"); got != "notes.txt" {
			t.Errorf("fresh %v: the commit holds %q", fresh, got)
		}
		if report := w.Read(".trellis/tasks/02-01-x/report.md"); strings.Contains(report, "which was undone") == fresh {
			t.Errorf("fresh %v: report.md says\n%s", fresh, report)
		}
	}
}

// However much output and however many criteria there are, the journal can record them, and the run ends with its own failure code.
func TestMuchToSay(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<very> & long ", 400)
	var prd strings.Builder
	prd.WriteString("# Much\n\n## Acceptance Criteria\n\n")
	for i := range 70 {
		fmt.Fprintf(&prd, "- [ ] criterion %d %s\n", i, long[:80])
	}
	w := newWorld(t, roles("implement: [{run: [\"mkdir many; cd many; mkdir $(seq 1500); for i in *; do echo {} > $i/package.json; done\"], answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}]\naccept: [{answer: nonsense}]"))
	var verify []string
	for i := range 20 {
		verify = append(verify, fmt.Sprintf("seq -f '<very> & long %%g' 1 2000; exit %d", i%2))
	}
	w.Site.Config.Verify, w.Site.Config.Limits.Rounds = verify, 2
	w.Site.Config.Baseline = "false"
	dir := w.Hand("02-01-much", prd.String())
	res := w.Start(dir)
	if res.Status != trellis.Failed || res.Failure == nil || res.Failure.Code == string(trellis.Internal) {
		t.Errorf("with failing checks: %s, %v", res.Status, res.Failure)
	}
	w.Site.Config.Verify = []string{"true"}
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	res = w.Start(dir)
	if res.Status != trellis.Failed || res.Failure == nil || (res.Failure.Code != string(trellis.AcceptanceUnmet) && res.Failure.Code != string(trellis.NoProgress)) {
		t.Errorf("with unmet criteria: %s, %v", res.Status, res.Failure)
	}
	if got := w.Task(dir).Status; got != trellis.Failed {
		t.Errorf("task.json says %s", got)
	}
}

// Evidence alone does not prove a criterion without a change, and the marker has to be alone on the last line.
func TestClaims(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		verify []string
		code   trellis.Code
	}{
		"evidence names a file":      {"implement: [{answer: done}]\ncheck: [{answer: fine}]\naccept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"greet.sh:1 does it\"}]}}]", []string{"sh test.sh"}, trellis.EmptyDiff},
		"marker in a sentence":       {"implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\ncheck: [{answer: I will not say ALL_CHECKS_FINISH}]\ndebug: [{answer: hm}]", []string{}, trellis.NoProgress},
		"every check failed at base": {"implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}]", []string{"exit 3"}, trellis.NoProgress},
		"a check can't run":          {"implement: [{answer: done}]", []string{"no-such-program-here"}, trellis.HookFailed},
		"its module is missing":      {"implement: [{answer: done}]", []string{"echo \"Error: Cannot find module 'x'\"; exit 1"}, trellis.HookFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, roles(c.script))
			w.Site.Config.Verify = c.verify
			res := w.Start(w.Hand("02-01-x", lyingPRD))
			if res.Failure == nil || res.Failure.Code != string(c.code) {
				t.Errorf("got %s, %v, want %s", res.Status, res.Failure, c.code)
			}
		})
	}
}

// An agent that reports no tool calls, says nothing and changes nothing has failed. One that changed something has not.
func TestSilentAgent(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		does string
		code trellis.Code
	}{"nothing": {"", trellis.EmptyOutput}, "something": {"echo x > notes.txt", ""}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, runnertest.Quickly)
			w.Program("events", `cat > /dev/null
test "$TRELLIS_ROLE" = implement && { true; `+c.does+`
}
test "$TRELLIS_ROLE" = accept && echo '{"type": "result", "text": "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"notes.txt:1\"}]}"}'
test "$TRELLIS_ROLE" = check && echo '{"type": "result", "text": "fine"}'
true
`)
			w.Site.Agent = toolless(w.Site.Agent)
			res := w.Start(w.Hand("02-01-x", lyingPRD))
			if c.code == "" && res.Status != trellis.Review || c.code != "" && (res.Failure == nil || res.Failure.Code != string(c.code)) {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
		})
	}
}

// toolless makes agents report that they called no tool.
func toolless(find func(string) (agents.Agent, error)) func(string) (agents.Agent, error) {
	return func(name string) (agents.Agent, error) {
		a, err := find(name)
		return counting{a}, err
	}
}

type counting struct{ agents.Agent }

func (c counting) Run(ctx context.Context, r agents.Request, emit func(agents.Event)) (*agents.Result, error) {
	res, err := c.Agent.Run(ctx, r, emit)
	if res != nil {
		res.ToolCalls = 0
	}
	return res, err
}

// If two tasks have the same branch, the later one is refused before its run begins.
func TestSameName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\n"+noteDone))
	if res := w.Start(w.Hand("02-01-x", lyingPRD)); res.Status != trellis.Review {
		t.Fatalf("got %s", res.Status)
	}
	dir := w.Hand("02-02-x", lyingPRD)
	_, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
	var not *runner.NotReadyError
	if !errors.As(err, &not) || !strings.Contains(err.Error(), "feature/x belongs to task 02-01-x") || w.Task(dir).Status != trellis.Ready {
		t.Errorf("got %v, status %s", err, w.Task(dir).Status)
	}
}

// A branch with somebody's commits is used only with --adopt-branch.
func TestForeignBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\n"+noteDone))
	w.Git("checkout", "-q", "-b", "feature/x")
	w.Git("commit", "-q", "--allow-empty", "-m", "somebody's")
	w.Git("checkout", "-q", "main")
	dir := w.Hand("02-01-x", lyingPRD)
	var not *runner.NotReadyError
	if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); !errors.As(err, &not) || !strings.Contains(not.Problems[0].Hint, "--adopt-branch") || w.Task(dir).Status != trellis.Ready {
		t.Fatalf("got %v, status %s", err, w.Task(dir).Status)
	}
	w.Write(".trellis/tasks/02-01-x/task.json", `{"status": "ready", "pipeline": {"base_commit": "`+w.Git("rev-parse", "main")+`"}}`) // has begun: its branch is checked by the run
	for range 2 {                                                                                                                     // a retry does not use the branch either
		res := w.Start(dir)
		if res.Failure == nil || res.Failure.Code != string(trellis.WorktreeFailed) || !strings.Contains(res.Failure.Detail, "--adopt-branch") {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
		if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.Git("log", "--format=%s", "-1", "feature/x"); got != "somebody's" {
		t.Errorf("the branch ends in %q", got)
	}
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{Adopt: true}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("adopted: %s, %v", res.Status, res.Failure)
	}
}

// With --adopt-branch, a task without a run begins on an existing branch, whatever its status.
func TestForeignBranchOfATaskWithoutARun(t *testing.T) {
	t.Parallel()
	for _, status := range soak.Of([]trellis.Status{trellis.Ready, trellis.InProgress, trellis.Cancelled, trellis.Failed}, trellis.Ready, trellis.Failed) {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, roles("implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\n"+noteDone))
			w.Git("checkout", "-q", "-b", "feature/x")
			w.Git("commit", "-q", "--allow-empty", "-m", "half of it")
			w.Git("checkout", "-q", "main")
			dir := w.Hand("02-01-x", lyingPRD)
			w.Write(".trellis/tasks/02-01-x/task.json", fmt.Sprintf(`{"status": %q}`, status))
			res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{Adopt: true})
			if err != nil || res.Status != trellis.Review {
				t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
			}
			if got := w.Git("log", "--format=%s", "-1", "feature/x~"); got != "half of it" {
				t.Errorf("the commit is on top of %q", got)
			}
		})
	}
}

// Each run is compared with the baseline of the base: a check that fails because of the work is not forgiven in the next run.
func TestBaselineIsAskedOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles("implement: [{files: {greet.sh: \"echo nonsense\\n\"}, answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}]\n"+runnertest.Met))
	dir := w.Hand("02-01-x", lyingPRD)
	for range 2 {
		res := w.Start(dir)
		if res.Status != trellis.Failed || res.Failure == nil || res.Failure.Code != string(trellis.NoProgress) {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
		if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}
