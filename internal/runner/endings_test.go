package runner_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	lyingPRD = "# Say bye\n\n## Acceptance Criteria\n\n- [ ] greet.sh says bye\n"
)

// Each way in which a run can end, by what its agents do. Only a run that ends in review has a commit.
func TestEndings(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		roles  string // lines of the script, below roles:
		prd    string
		verify []string
		files  map[string]string
		code   trellis.Code
		status trellis.Status
	}{
		"lies about everything, the check fails": {
			roles: "implement: [{files: {greet.sh: \"echo nonsense\\n\"}, answer: All done and tested.}]\ncheck: [{answer: perfect}]\ndebug: [{answer: fixed}]\n" + runnertest.Met,
			prd:   lyingPRD, code: trellis.NoProgress},
		"lies, and changes something each round": {
			roles: "implement: [{files: {greet.sh: \"echo nonsense\\n\"}, answer: All done.}]\ncheck: [{answer: perfect}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: fixed}]\n" + runnertest.Met,
			prd:   lyingPRD, code: trellis.VerifyFailed},
		"lies, the check passes, the criterion's command does not": {
			roles: "implement: [{files: {notes.txt: \"x\\n\"}, answer: All done.}]\ncheck: [{answer: perfect}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: fixed}]\n" + runnertest.Met,
			prd:   runnertest.ProvenPRD, code: trellis.AcceptanceUnmet},
		"does nothing, says nothing": {
			roles: "implement: [{}]\ncheck: [{}]\ndebug: [{}]\naccept: [{}]", prd: lyingPRD, code: trellis.EmptyDiff},
		"does nothing, says that all is done": {
			roles: "implement: [{answer: All done.}]\ncheck: [{answer: perfect}]\ndebug: [{answer: done}]\n" + runnertest.Met, prd: lyingPRD, code: trellis.EmptyDiff},
		"nobody can tell": {
			roles: "implement: " + runnertest.Mend + "\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\naccept: [{answer: {criteria: [{id: A1, verdict: unknown}]}}]",
			prd:   lyingPRD, code: trellis.AcceptanceUnmet},
		"the judge talks nonsense": {
			roles: "implement: " + runnertest.Mend + "\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\naccept: [{answer: I like it.}]",
			prd:   lyingPRD, code: trellis.AcceptanceUnmet},
		"the judge answers to what nobody asked": {
			roles: "implement: " + runnertest.Mend + "\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\naccept: [{answer: {criteria: [{id: A7, verdict: met}]}}]",
			prd:   lyingPRD, code: trellis.AcceptanceUnmet},
		"no change is needed, and a command proves it": {
			roles: "implement: [{answer: Nothing to do.}]\ncheck: [{answer: fine}]", status: trellis.Completed,
			prd: "# Say hello\n\n## Acceptance Criteria\n\n- [ ] it says hello\n  verify: `sh greet.sh | grep -q Hello`\n"},
		"no command, no marker": {
			roles: "implement: " + runnertest.Mend + "\ncheck: [{answer: looks good}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\n" + runnertest.Met, prd: lyingPRD,
			verify: []string{}, code: trellis.VerifyFailed},
		"no command, with the marker": {
			roles: "implement: " + runnertest.Mend + "\ncheck: [{answer: \"looks good\\n\\nALL_CHECKS_FINISH\"}]\n" + runnertest.Met, prd: lyingPRD, verify: []string{}, status: trellis.Review},
		"a protected path": {
			roles: "implement: [{files: {go.sum: \"x\\n\"}, answer: done}]\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\n" + runnertest.Met, prd: lyingPRD, code: trellis.ProtectedPath},
		"a hook refuses, debug mends": {
			roles: "implement: " + runnertest.Mend + "\ncheck: [{answer: fine}]\ndebug: [{files: {CHANGES: \"bye\\n\"}, answer: wrote it}]\n" + runnertest.Met, prd: lyingPRD,
			files: map[string]string{".git/hooks/pre-commit": "#!/bin/sh\ntest -f CHANGES || { echo 'CHANGES is missing'; exit 1; }\n"}, status: trellis.Review},
		"a hook refuses for good": {
			roles: "implement: " + runnertest.Mend + "\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\n" + runnertest.Met, prd: lyingPRD,
			files: map[string]string{".git/hooks/pre-commit": "#!/bin/sh\necho no\nexit 1\n"}, code: trellis.CommitFailed},
		"the agent fails": {
			roles: "implement: [{fail: {code: agent_auth, detail: not signed in}}]", prd: lyingPRD, code: trellis.AgentAuth},
		"the agent writes into the task's directory": {
			roles: "implement: [{run: [\"mkdir -p .trellis/tasks/x && echo hi > .trellis/tasks/x/task.json\"], files: {notes.txt: \"x\\n\"}, answer: done}]\ncheck: [{answer: fine}]\n" +
				"accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"notes.txt:1\"}]}}]", prd: lyingPRD, status: trellis.Review},
		"the agent commits by itself": {
			roles: "implement: [{run: [\"echo 'echo Bye # Hello, Ada!' > bye.sh && git add bye.sh && git commit -q -m mine\"], answer: done}]\ncheck: [{answer: fine}]\n" + runnertest.Met,
			prd:   lyingPRD, status: trellis.Review},
	}, "does nothing, says nothing", "lies about everything, the check fails", "a hook refuses, debug mends", "nobody can tell", "a protected path", "the judge talks nonsense", "no command, no marker", "no change is needed, and a command proves it", "the agent fails", "the agent commits by itself") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles:\n  "+strings.ReplaceAll(c.roles, "\n", "\n  ")+"\n")
			for path, text := range c.files {
				w.Write(path, text)
				if err := os.Chmod(filepath.Join(w.Dir, path), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			w.Site.Config.Limits.Rounds = 2
			w.Site.Config.Protected = append(w.Site.Config.Protected, "go.sum")
			if c.verify != nil {
				w.Site.Config.Verify = c.verify
			}
			dir := w.Hand("02-01-bye", c.prd)
			res := w.Start(dir)
			want := c.status
			if want == "" {
				want = trellis.Failed
			}
			if res.Status != want {
				t.Fatalf("got %s (%v), want %s", res.Status, res.Failure, want)
			}
			if c.code != "" && (res.Failure == nil || res.Failure.Code != string(c.code)) {
				t.Errorf("got %v, want %s", res.Failure, c.code)
			}
			if got := w.Task(dir).Pipeline.Failure.Code; got != c.code {
				t.Errorf("task.json says %q, want %q", got, c.code)
			}
			commits := w.Git("rev-list", "--count", "--branches", "^main")
			if want := map[bool]string{true: "1", false: "0"}[c.status == trellis.Review]; commits != want {
				t.Errorf("got %s commits, want %s", commits, want)
			}
			if got := w.Git("ls-tree", "-r", "--name-only", "HEAD"); strings.Contains(got, "tasks/x") {
				t.Errorf("task state was committed: %s", got)
			}
			if report := w.Read(".trellis/tasks/02-01-bye/report.md"); c.code != "" && !strings.Contains(report, string(c.code)) {
				t.Errorf("report.md does not name %s:\n%s", c.code, report)
			}
		})
	}
}

// A retry of a failed run continues in the same worktree and does not repeat implement.
func TestRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `
roles:
  implement: [{run: ["echo implement >> $TRELLIS_REPO/../calls.log"], files: {greet.sh: "echo Bye\n"}, answer: done}]
  check: [{answer: fine}]
  debug: [{run: ["echo debug >> $TRELLIS_REPO/../calls.log"], answer: hm}]
  `+runnertest.Met+"\n")
	dir := w.Hand("02-01-bye", lyingPRD)
	if res := w.Start(dir); res.Status != trellis.Failed {
		t.Fatalf("got %s", res.Status)
	}
	if _, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{}); err == nil {
		t.Error("a failed task was started without a retry")
	}
	w.Write(".trellis/rehearsal.yaml", strings.ReplaceAll(runnertest.Working, "implement:\n    - files:", "implement:\n    - run: [\"echo again >> $TRELLIS_REPO/../calls.log\"]\n      files:"))
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if calls := w.Calls(); calls["implement"] != 1 || calls["again"] != 0 {
		t.Errorf("got calls %v", calls)
	}
	if task := w.Task(dir); task.Pipeline.Attempt < 1 || task.Pipeline.Failure.Code != "" {
		t.Errorf("got %+v", task.Pipeline)
	}
}

func TestRetryFresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{files: {greet.sh: \"echo Bye\\n\", left.txt: \"x\\n\"}, answer: done}]\n  check: [{answer: fine}]\n  debug: [{answer: hm}]\n  "+runnertest.Met+"\n")
	dir := w.Hand("02-01-bye", lyingPRD)
	w.Start(dir)
	w.Write(".trellis/rehearsal.yaml", runnertest.Working)
	if err := w.Site.Orders().Retry(context.Background(), dir, true, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if got := w.Git("ls-tree", "--name-only", "feature/bye"); strings.Contains(got, "left.txt") {
		t.Errorf("the branch holds what was left: %s", got)
	}
	ref := w.Git("for-each-ref", "--format=%(refname)", "refs/trellis/backup")
	if got := w.Git("ls-tree", "--name-only", ref); !strings.Contains(got, "left.txt") {
		t.Errorf("the backup %s holds %s", ref, got)
	}
}

// If a program fails on a full disk, the run does not end: start returns the disk error, and resumes the run once there is space.
func TestProgramThatFailsOnAFullDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	w.Site.Config.Worktree.Setup = []string{"test -f ../../../room"}
	full := true
	w.Site.Disk = &durable.Disk{Fault: func(_, path string) error {
		if full && filepath.Base(path) == durable.TempPrefix+"room" {
			return syscall.ENOSPC
		}
		return nil
	}}
	dir := w.Hand("02-01-bye", lyingPRD)
	if res, err := w.Site.Starter().Start(t.Context(), dir, runner.RunOptions{}); !durable.IsDiskError(err) || !strings.Contains(err.Error(), "test -f") || res.Status != trellis.InProgress {
		t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
	}
	full = false
	w.Write("../room", "")
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}
