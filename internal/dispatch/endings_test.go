package dispatch_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const (
	lyingPRD  = "# Say bye\n\n## Acceptance Criteria\n\n- [ ] greet.sh says bye\n"
	provenPRD = "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n"
	met       = "accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"it is all there\"}]}}]"
	mend      = "[{files: {greet.sh: \"if [ \\\"$1\\\" = --bye ]; then echo Bye; else echo \\\"Hello, ${1:-world}!\\\"; fi\\n\"}, answer: done}]"
)

// Each way in which a run can end, by what its agents do. Nothing is committed unless it ends well.
func TestEndings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		roles  string // lines of the script below roles:
		prd    string
		verify []string
		files  map[string]string
		code   trellis.Code
		status trellis.Status
	}{
		"lies about everything, the check fails": {
			roles: "implement: [{files: {greet.sh: \"echo nonsense\\n\"}, answer: All done and tested.}]\ncheck: [{answer: perfect}]\ndebug: [{answer: fixed}]\n" + met,
			prd:   lyingPRD, code: trellis.NoProgress},
		"lies, and changes something each round": {
			roles: "implement: [{files: {greet.sh: \"echo nonsense\\n\"}, answer: All done.}]\ncheck: [{answer: perfect}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: fixed}]\n" + met,
			prd:   lyingPRD, code: trellis.VerifyFailed},
		"lies, the check passes, the criterion's command does not": {
			roles: "implement: [{files: {notes.txt: \"x\\n\"}, answer: All done.}]\ncheck: [{answer: perfect}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: fixed}]\n" + met,
			prd:   provenPRD, code: trellis.AcceptanceUnmet},
		"does nothing, says nothing": {
			roles: "implement: [{}]\ncheck: [{}]\ndebug: [{}]\naccept: [{}]", prd: lyingPRD, code: trellis.EmptyDiff},
		"does nothing, says that all is done": {
			roles: "implement: [{answer: All done.}]\ncheck: [{answer: perfect}]\ndebug: [{answer: done}]\n" + met, prd: lyingPRD, code: trellis.EmptyDiff},
		"nobody can tell": {
			roles: "implement: " + mend + "\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\naccept: [{answer: {criteria: [{id: A1, verdict: unknown}]}}]",
			prd:   lyingPRD, code: trellis.AcceptanceUnmet},
		"the judge talks nonsense": {
			roles: "implement: " + mend + "\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\naccept: [{answer: I like it.}]",
			prd:   lyingPRD, code: trellis.AcceptanceUnmet},
		"the judge answers to what nobody asked": {
			roles: "implement: " + mend + "\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\naccept: [{answer: {criteria: [{id: A7, verdict: met}]}}]",
			prd:   lyingPRD, code: trellis.AcceptanceUnmet},
		"no change is needed, and a command proves it": {
			roles: "implement: [{answer: Nothing to do.}]\ncheck: [{answer: fine}]", status: trellis.Completed,
			prd: "# Say hello\n\n## Acceptance Criteria\n\n- [ ] it says hello\n  verify: `sh greet.sh | grep -q Hello`\n"},
		"no command, no marker": {
			roles: "implement: " + mend + "\ncheck: [{answer: looks good}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\n" + met, prd: lyingPRD,
			verify: []string{}, code: trellis.VerifyFailed},
		"no command, with the marker": {
			roles: "implement: " + mend + "\ncheck: [{answer: \"looks good\\n\\nALL_CHECKS_FINISH\"}]\n" + met, prd: lyingPRD, verify: []string{}, status: trellis.Review},
		"a protected path": {
			roles: "implement: [{files: {go.sum: \"x\\n\"}, answer: done}]\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\n" + met, prd: lyingPRD, code: trellis.ProtectedPath},
		"a hook refuses, debug mends": {
			roles: "implement: " + mend + "\ncheck: [{answer: fine}]\ndebug: [{files: {CHANGES: \"bye\\n\"}, answer: wrote it}]\n" + met, prd: lyingPRD,
			files: map[string]string{".git/hooks/pre-commit": "#!/bin/sh\ntest -f CHANGES || { echo 'CHANGES is missing'; exit 1; }\n"}, status: trellis.Review},
		"a hook refuses for good": {
			roles: "implement: " + mend + "\ncheck: [{answer: fine}]\ndebug: [{run: [\"date +%N >> notes.txt\"], answer: hm}]\n" + met, prd: lyingPRD,
			files: map[string]string{".git/hooks/pre-commit": "#!/bin/sh\necho no\nexit 1\n"}, code: trellis.CommitFailed},
		"the agent fails": {
			roles: "implement: [{fail: {code: agent_auth, detail: not signed in}}]", prd: lyingPRD, code: trellis.AgentAuth},
		"the agent writes into the task's directory": {
			roles: "implement: [{run: [\"mkdir -p .trellis/tasks/x && echo hi > .trellis/tasks/x/task.json\"], files: {notes.txt: \"x\\n\"}, answer: done}]\ncheck: [{answer: fine}]\n" +
				"accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: \"notes.txt:1\"}]}}]", prd: lyingPRD, status: trellis.Review},
		"the agent commits by itself": {
			roles: "implement: [{run: [\"echo 'echo Bye # Hello, Ada!' > bye.sh && git add bye.sh && git commit -q -m mine\"], answer: done}]\ncheck: [{answer: fine}]\n" + met,
			prd:   lyingPRD, status: trellis.Review},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "roles:\n  "+strings.ReplaceAll(c.roles, "\n", "\n  ")+"\n")
			for path, text := range c.files {
				w.write(path, text)
				if err := os.Chmod(filepath.Join(w.Dir, path), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			w.Site.Config.Limits.Rounds = 2
			w.Site.Config.Protected = append(w.Site.Config.Protected, "go.sum")
			if c.verify != nil {
				w.Site.Config.Verify = c.verify
			}
			dir := w.hand("02-01-bye", c.prd)
			res := w.start(dir)
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
			if got := w.task(dir).Pipeline.Failure.Code; got != c.code {
				t.Errorf("task.json says %q, want %q", got, c.code)
			}
			commits := w.git("rev-list", "--count", "--branches", "^main")
			if want := map[bool]string{true: "1", false: "0"}[c.status == trellis.Review]; commits != want {
				t.Errorf("got %s commits, want %s", commits, want)
			}
			if got := w.git("ls-tree", "-r", "--name-only", "HEAD"); strings.Contains(got, "tasks/x") {
				t.Errorf("task state was committed: %s", got)
			}
			if report := w.read(".trellis/tasks/02-01-bye/report.md"); c.code != "" && !strings.Contains(report, string(c.code)) {
				t.Errorf("report.md does not name %s:\n%s", c.code, report)
			}
		})
	}
}

// A failed run goes on in the same worktree when it is retried, and does not implement again what was not edited.
func TestRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, `
roles:
  implement: [{run: ["echo implement >> $TRELLIS_REPO/../calls.log"], files: {greet.sh: "echo Bye\n"}, answer: done}]
  check: [{answer: fine}]
  debug: [{run: ["echo debug >> $TRELLIS_REPO/../calls.log"], answer: hm}]
  `+met+"\n")
	dir := w.hand("02-01-bye", lyingPRD)
	if res := w.start(dir); res.Status != trellis.Failed {
		t.Fatalf("got %s", res.Status)
	}
	if _, err := w.Site.Start(context.Background(), dir, dispatch.RunOptions{}); err == nil {
		t.Error("a failed task was started without a retry")
	}
	w.write(".trellis/rehearsal.yaml", strings.ReplaceAll(working, "implement:\n    - files:", "implement:\n    - run: [\"echo again >> $TRELLIS_REPO/../calls.log\"]\n      files:"))
	if err := w.Site.Retry(context.Background(), dir, false, dispatch.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if calls := w.calls(); calls["implement"] != 1 || calls["again"] != 0 {
		t.Errorf("got calls %v", calls)
	}
	if task := w.task(dir); task.Pipeline.Attempt < 1 || task.Pipeline.Failure.Code != "" {
		t.Errorf("got %+v", task.Pipeline)
	}
}

func TestRetryFresh(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{files: {greet.sh: \"echo Bye\\n\", left.txt: \"x\\n\"}, answer: done}]\n  check: [{answer: fine}]\n  debug: [{answer: hm}]\n  "+met+"\n")
	dir := w.hand("02-01-bye", lyingPRD)
	w.start(dir)
	w.write(".trellis/rehearsal.yaml", working)
	if err := w.Site.Retry(context.Background(), dir, true, dispatch.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if got := w.git("ls-tree", "--name-only", "feature/bye"); strings.Contains(got, "left.txt") {
		t.Errorf("the branch holds what was left: %s", got)
	}
	ref := w.git("for-each-ref", "--format=%(refname)", "refs/trellis/backup")
	if got := w.git("ls-tree", "--name-only", ref); !strings.Contains(got, "left.txt") {
		t.Errorf("the backup %s holds %s", ref, got)
	}
}

// A finished task that someone sets ready by hand, or that git takes back, is not run again.
func TestFinishedIsNotRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, counted())
	dir := w.hand("02-01-bye", provenPRD)
	if res := w.start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	before := w.calls()
	for name, change := range map[string]func(){
		"set ready by hand": func() { w.edit(dir, `"review"`, `"ready"`) },
		"taken back by git": func() { w.write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready"}`) },
		"without its journal": func() {
			w.edit(dir, `"review"`, `"ready"`)
			if err := os.RemoveAll(filepath.Join(dir, "run")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		saved, journal := w.read(".trellis/tasks/02-01-bye/task.json"), w.read(".trellis/tasks/02-01-bye/run/journal.jsonl")
		change()
		res, err := w.Site.Watch(context.Background(), dispatch.WatchOptions{Once: true, Parallel: 1, Rescan: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if after := w.calls(); after["implement"] != before["implement"] {
			t.Errorf("%s: it was run again: %+v", name, res)
		}
		if !strings.Contains(strings.Join(w.said, "\n"), "trellis retry 02-01-bye") {
			t.Errorf("%s: said %q", name, w.said)
		}
		w.said = nil
		w.write(".trellis/tasks/02-01-bye/task.json", saved)
		w.write(".trellis/tasks/02-01-bye/run/journal.jsonl", journal)
	}
}

func (w *world) edit(dir, from, to string) {
	w.Helper()
	path := filepath.Join(dir, "task.json")
	data, err := os.ReadFile(path)
	if err != nil {
		w.Fatal(err)
	}
	if !strings.Contains(string(data), from) {
		w.Fatalf("%s does not hold %s: %s", path, from, data)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(data), from, to, 1)), 0o644); err != nil {
		w.Fatal(err)
	}
}
