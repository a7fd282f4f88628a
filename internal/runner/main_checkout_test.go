package runner_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"

	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// mainState returns what a person sees of the main checkout: the branch, its commit, and uncommitted changes.
func (w *world) mainState() string {
	w.Helper()
	return w.Git("symbolic-ref", "HEAD") + w.Git("rev-parse", "HEAD", "main") + w.Git("status", "--porcelain", "--", ":!.trellis/tasks")
}

// Edge A3: if an agent moves a branch or HEAD in the main checkout, its run fails, and the commands in the failure undo it without losing a
// person's uncommitted changes.
func TestAgentMovesTheMainCheckout(t *testing.T) {
	t.Parallel()
	for name, script := range soak.Rows(t, map[string]string{
		"commits there":    "cd $TRELLIS_REPO; echo y > more.txt; git add more.txt; git commit -q -m mine more.txt",
		"merges its work":  "git add notes.txt; git commit -q -m work; git -C $TRELLIS_REPO merge -q feature/bye",
		"takes back":       "git -C $TRELLIS_REPO reset -q --soft HEAD~1",
		"checks out":       "git -C $TRELLIS_REPO checkout -q -b side",
		"and fails itself": "git -C $TRELLIS_REPO commit -q --allow-empty -m mine; exit 3",
	}, "merges its work", "checks out", "and fails itself") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, "echo x > notes.txt; "+script)
			w.Git("commit", "-q", "--allow-empty", "-m", "second")
			w.Write("README.md", "a person's\n")
			dir := w.Hand("02-01-bye", lyingPRD)
			before := w.mainState()
			res := w.Start(dir)
			if res.Status != trellis.Failed || res.Failure == nil || res.Failure.Code != string(trellis.ProtectedPath) || !strings.Contains(res.Failure.Detail, "in the main checkout") {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			_, undo, _ := strings.Cut(res.Failure.Detail, "undo it with `")
			undo, _, _ = strings.Cut(undo, "`;")
			for _, line := range strings.Split(undo, "`, `") {
				if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
					t.Errorf("%s: %v: %s", line, err, out)
				}
			}
			if now := w.mainState(); now != before {
				t.Errorf("it was\n%s\nand is after %s\n%s", before, undo, now)
			}
		})
	}
}

// Edges A3, S10: changes in the repository that may be a person's are reported, moved branches with a command to undo them, and fail no run.
func TestMovesOfUnknownHandsAreTold(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct{ script, says string }{
		"a branch by force":  {"git commit -q --allow-empty -m mine; git branch -q -f side HEAD", "somebody moved side from"},
		"main by plumbing":   {"git update-ref refs/heads/main $(git commit-tree -p HEAD -m mine HEAD^{tree})", "somebody moved main from"},
		"a branch is gone":   {"git branch -q -D side", "branch side "},
		"a file":             {"echo y > $TRELLIS_REPO/README.md", "README.md of the main checkout was changed while the implement agent was at work"},
		"many files":         {"cd $TRELLIS_REPO; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22; do echo y > n$i; done", "and 2 more of the main checkout were changed while the implement agent was at work"},
		"what is staged":     {"cd $TRELLIS_REPO; echo y > new.txt; git add new.txt", "new.txt of the main checkout was changed"},
		"a hook":             {"h=$(git rev-parse --git-path hooks); echo exit 1 > $h/pre-push", "hooks/pre-push"},
		"a folder for hooks": {"git config core.hooksPath /nowhere", "core.hookspath"},
	}, "a branch by force", "a hook", "many files", "what is staged") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, "echo x > notes.txt; "+c.script)
			w.Git("branch", "side")
			dir := w.Hand("02-01-bye", lyingPRD)
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.holds("report.md", w.File(dir, "report.md"), c.says)
		})
	}
}

// Edge S1: if an agent makes git read objects from its own folder, the run fails: the agent could change these objects at any time, and
// commits would need them.
func TestObjectsOfAnotherFolder(t *testing.T) {
	t.Parallel()
	w := cheat(t, "echo x > notes.txt; cp -r $(git rev-parse --git-path objects) ../own; GIT_OBJECT_DIRECTORY=$PWD/../own git add -A; (cd ../own && pwd) > $(git rev-parse --git-path objects/info/alternates)")
	dir := w.Hand("02-01-bye", lyingPRD)
	res := w.Start(dir)
	if res.Failure == nil || res.Failure.Code != string(trellis.ProtectedPath) || !strings.Contains(res.Failure.Detail, "objects/info/alternates`") {
		t.Errorf("got %s, %v, want it refused", res.Status, res.Failure)
	}
}

// Edge A3: a person who commits, switches and resets in the main checkout while an agent works fails no run. That is reported.
func TestPersonAtWorkInTheMainCheckout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Program("events", `cat > /dev/null
cd $TRELLIS_REPO
unset GIT_REFLOG_ACTION
echo $TRELLIS_ROLE >> person.txt
git add person.txt
git -c user.name=Ann -c user.email=ann@example.org commit -q -m "by Ann for $TRELLIS_ROLE"
git checkout -q -b ann-$TRELLIS_ROLE
git -c user.name=Ann -c user.email=ann@example.org commit -q --allow-empty -m "aside"
git reset -q --hard HEAD~1
git checkout -q main
cd - > /dev/null
test "$TRELLIS_ROLE" = implement && echo x > notes.txt
test "$TRELLIS_ROLE" = accept && echo '{"type": "result", "text": "{\"criteria\": [{\"id\": \"A1\", \"verdict\": \"met\", \"evidence\": \"notes.txt:1\"}]}"}' || echo '{"type": "result", "text": "done"}'
`)
	res := w.Start(w.Hand("02-01-bye", lyingPRD))
	if res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.holds("report.md", w.Read(".trellis/tasks/02-01-bye/report.md"), "somebody moved main from", "by Ann for implement")
	if got := w.Git("log", "--format=%s", "-1", "main"); got != "by Ann for accept" {
		t.Errorf("main ends in %q", got)
	}
}

// If an agent commits and then leaves its branch, the worktree is put back on the branch with the commit, and the run continues.
func TestAgentLeavesItsBranch(t *testing.T) {
	t.Parallel()
	w := cheat(t, "echo x > notes.txt; git add notes.txt; git commit -q -m mine; git checkout -q -b fix/bye")
	dir := w.Hand("02-01-bye", lyingPRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.holds("report.md", w.File(dir, "report.md"), "had left its branch", "it was put back")
	if got := w.Git("show", "feature/bye:notes.txt"); strings.TrimSpace(got) != "x" {
		t.Errorf("the branch has %q", got)
	}
}

// Edge A3: hooks that an agent wrote or changed do not run when Trellis commits. Unchanged hooks of the user do.
func TestHooksOfAgentsAreNotRun(t *testing.T) {
	t.Parallel()
	hook := "printf '#!/bin/sh\\ntouch $TRELLIS_REPO/../ran\\n' > %s/pre-commit; chmod +x %s/pre-commit"
	at := func(folder string) string { return strings.ReplaceAll(hook, "%s", folder) }
	for name, c := range soak.Rows(t, map[string]struct {
		prepare func(w *world)
		script  string
		runs    bool
	}{
		"in git's folder":          {script: at("$(git rev-parse --git-path hooks)")},
		"in a folder of its own":   {script: "mkdir ../h; " + at("../h") + "; git config core.hooksPath $PWD/../h"},
		"in the project's folder":  {prepare: func(w *world) { w.Git("config", "core.hooksPath", ".githooks") }, script: "mkdir -p .githooks; " + at(".githooks")},
		"there before":             {prepare: func(w *world) { w.hookThatRan() }, script: "true", runs: true},
		"there before and changed": {prepare: func(w *world) { w.hookThatRan() }, script: "echo '# more' >> $(git rev-parse --git-path hooks)/pre-commit"},
	}, "in the project's folder", "in git's folder", "there before and changed") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, "echo x > notes.txt; "+c.script)
			if c.prepare != nil {
				c.prepare(w)
			}
			dir := w.Hand("02-01-bye", lyingPRD)
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			if _, err := os.Stat(w.Dir + "/../ran"); (err == nil) != c.runs {
				t.Errorf("the hook ran: %v", err == nil)
			}
			if !c.runs {
				w.holds("report.md", w.File(dir, "report.md"), "hooks were changed during the run")
			}
		})
	}
}

// hookThatRan adds a hook of the user that leaves a file behind.
func (w *world) hookThatRan() {
	w.Helper()
	w.Write(".git/hooks/pre-commit", "#!/bin/sh\ntouch "+w.Dir+"/../ran\n")
	if err := os.Chmod(w.Dir+"/.git/hooks/pre-commit", 0o755); err != nil {
		w.Fatal(err)
	}
}

// Edge S1: a repository in which a link to /dev/null switches hooks off works like any other.
func TestHooksThatAreNoFolder(t *testing.T) {
	t.Parallel()
	w := cheat(t, "echo x > notes.txt")
	hooks := filepath.Join(w.Dir, ".git", "hooks")
	if err := errors.Join(os.RemoveAll(hooks), os.Symlink(os.DevNull, hooks)); err != nil {
		t.Fatal(err)
	}
	dir := w.Hand("02-01-bye", lyingPRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}

// If a person checks out a branch without a file that context files name, no run fails: the file is read in the worktree.
func TestContextOfAnotherBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{run: [\"mv $TRELLIS_REPO/greet.sh $TRELLIS_REPO/../away.sh\"], "+strings.TrimPrefix(runnertest.Mend, "[{")+"\n  check: [{answer: fine}]\n  "+runnertest.Met+"\n")
	if res := w.Start(w.Hand("02-01-bye", lyingPRD)); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}
