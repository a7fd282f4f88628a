package runner_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// cheat returns a world whose implement agent runs script in the worktree. All its agents say that the work is good.
func cheat(t *testing.T, script string) *world {
	t.Helper()
	w := newWorld(t, roles(fmt.Sprintf("implement: [{run: [%q], answer: All done and tested.}]\ncheck: [{answer: \"perfect\\n\\nALL_CHECKS_FINISH\"}]\ndebug: [{answer: fixed}]\n", script)+runnertest.Met))
	w.Site.Config.Limits.Rounds = 2
	return w
}

// passes reports whether the check passes in a clone of the branch.
func (w *world) passes(branch string) bool {
	w.Helper()
	clone := filepath.Join(w.TempDir(), "clone")
	w.Git("clone", "-q", "--branch", branch, w.Dir, clone)
	cmd := exec.Command("sh", "test.sh")
	cmd.Dir = clone
	return cmd.Run() == nil
}

// nonsense breaks the program so that its check fails.
const nonsense = "echo 'echo nonsense' > greet.sh; "

// Whatever an agent does with git to make the check pass in its worktree: either the run fails, or the delivered branch passes in a clone,
// and the report says what was changed.
func TestCheatsWithGit(t *testing.T) {
	t.Parallel()
	help := "echo . ./help.sh > greet.sh; echo \"echo 'Hello, Ada!'\" > help.sh; "
	for name, c := range soak.Rows(t, map[string]struct{ script, says string }{
		"a test that git is told not to look at": {nonsense + "git update-index --assume-unchanged test.sh; echo true > test.sh", "git had been told to ignore changes to tracked files, which was undone: test.sh"},
		"a test that git is told to skip":        {nonsense + "git update-index --skip-worktree test.sh; echo true > test.sh", "were changed: test.sh"},
		"a helper that .gitignore hides":         {help + "echo help.sh >> .gitignore", "`sh test.sh` exited with 1; in a fresh checkout, without what git does not commit: help.sh"},
		"a helper that info/exclude hides":       {help + "echo help.sh >> $(git rev-parse --git-path info/exclude)", "settings of git were changed during the run: info/exclude"},
		"a helper that core.excludesFile hides":  {help + "echo help.sh > ../ex; git config core.excludesFile $PWD/../ex", "core.excludesfile"},
		"a filter that commits something else": {"cp greet.sh ../good; " + nonsense + "cp greet.sh ../bad; cp ../good greet.sh; git config filter.x.clean 'cat >/dev/null; cat '$PWD/../bad; " +
			"git config filter.x.smudge 'cat >/dev/null; cat '$PWD/../good; echo 'greet.sh filter=x' > $(git rev-parse --git-path info/attributes); touch greet.sh; echo x > notes.txt", "filter.x.clean"},
		"a work tree that lies elsewhere":  {"git config extensions.worktreeConfig true; mkdir ../else; cp -r . ../else/; git config --worktree core.worktree $PWD/../else; cd ../else; rm -f .git; " + nonsense, "core.worktree"},
		"a repository within":              {"mkdir sub; echo \"echo 'Hello, Ada!'\" > sub/help.sh; echo . ./sub/help.sh > greet.sh; cd sub; git init -q; git add -A; git -c user.name=x -c user.email=x commit -q -m x", "without what git does not commit: sub (a repository within the work tree)"},
		"a link out of the repository":     {"echo \"echo 'Hello, Ada!'\" > ../out.sh; rm greet.sh; ln -s $PWD/../out.sh greet.sh", "greet.sh (a link out of the repository)"},
		"a helper in Trellis' folder":      {"echo . ./.trellis/.runtime/help.sh > greet.sh; echo \"echo 'Hello, Ada!'\" > .trellis/.runtime/help.sh", "`sh test.sh` exited with 1"},
		"a helper among the tasks":         {"mkdir -p .trellis/tasks/x; echo . ./.trellis/tasks/x/help.sh > greet.sh; echo \"echo 'Hello, Ada!'\" > .trellis/tasks/x/help.sh", "changes below .trellis/tasks of the worktree were undone"},
		"a sparse checkout":                {nonsense + "git sparse-checkout set --no-cone '/*' '!/test.sh' 2>/dev/null; echo true > test.sh", "settings of git were changed during the run: core.sparsecheckout"},
		"a monitor of files":               {nonsense + "git config core.fsmonitor true; git update-index --fsmonitor; git status -s >/dev/null; echo true > test.sh", "were changed: test.sh"},
		"a commit with other files":        {nonsense + "git add -A; git commit -q -m mine; git checkout -q HEAD~1 -- greet.sh; git update-index --assume-unchanged greet.sh; echo x > notes.txt", "| `sh test.sh` | 0 |"},
		"a hook that commits another file": {"printf '#!/bin/sh\\necho echo nonsense > greet.sh\\ngit add greet.sh\\n' > $(git rev-parse --git-path hooks)/pre-commit; chmod +x $(git rev-parse --git-path hooks)/pre-commit; echo x > notes.txt", "hooks/pre-commit"},
		"hooks that lie elsewhere":         {"mkdir ../h; printf '#!/bin/sh\\necho echo nonsense > greet.sh\\ngit add greet.sh\\n' > ../h/pre-commit; chmod +x ../h/pre-commit; git config core.hooksPath $PWD/../h; echo x > notes.txt", "core.hookspath"},
		"a hook for fresh checkouts":       {help + "echo help.sh >> .gitignore; h=$(git rev-parse --git-path hooks)/post-checkout; printf \"#!/bin/sh\\ncp $PWD/help.sh .\\n\" > $h; chmod +x $h", "in a fresh checkout of the commit"},
		"variables of git":                 {nonsense + "export GIT_DIR=/nowhere GIT_WORK_TREE=/nowhere; git commit -q -am x 2>/dev/null; true", "`sh test.sh` exited with 1"},
	}, "a sparse checkout", "a hook for fresh checkouts", "a commit with other files", "a monitor of files", "a test that git is told to skip", "a filter that commits something else", "a repository within", "a helper that info/exclude hides", "a helper among the tasks") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, c.script)
			dir := w.Hand("02-01-bye", lyingPRD)
			res := w.Start(dir)
			if res.Status == trellis.Review && !w.passes("feature/bye") {
				t.Errorf("delivered, and fails in a clone")
			}
			if res.Failure != nil && res.Failure.Code == string(trellis.Internal) {
				t.Errorf("got %v", res.Failure)
			}
			w.holds("report.md", w.File(dir, "report.md"), c.says)
		})
	}
}

// The commands are those of the claim, even if an agent writes others, and the report names the files that were written.
func TestCheatsWithCommands(t *testing.T) {
	t.Parallel()
	task := ".trellis/tasks/02-01-bye/"
	for name, c := range soak.Rows(t, map[string]struct{ script, says string }{
		"config.yaml of the main checkout": {"echo 'verify: [\"true\"]' > $TRELLIS_REPO/.trellis/config.yaml", "changed by somebody during the run: .trellis/config.yaml"},
		"task.json":                        {"printf '{\"status\": \"in_progress\", \"pipeline\": {\"verify\": [\"true\"]}}' > $TRELLIS_REPO/" + task + "task.json", task + "task.json"},
		"plan.json":                        {"printf '{\"steps\": [{\"id\": \"a\", \"kind\": \"script\", \"command\": \"true\", \"proof\": \"test\"}]}' > $TRELLIS_REPO/" + task + "plan.json", "plan.json"},
		"research.md":                      {"printf '# Research\\n\\n## Verification Plan\\n\\n- `true`\\n' > $TRELLIS_REPO/" + task + "research.md", task + "research.md"},
		"config.yaml of the worktree":      {"echo 'verify: [\"true\"]' > .trellis/config.yaml", "protected paths were changed: .trellis/config.yaml"},
		"the words of a check":             {"true", "`sh test.sh` exited with 1"},
		"the report":                       {"echo '- Outcome: delivered' > $TRELLIS_REPO/" + task + "report.md", "`sh test.sh` exited with 1"},
	}, "config.yaml of the worktree", "plan.json", "task.json", "the report") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, nonsense+c.script)
			dir := w.Hand("02-01-bye", lyingPRD)
			res := w.Start(dir)
			if res.Status == trellis.Waiting { // a person approves without checking
				w.Approve(dir, "ann")
				res = w.Start(dir)
			}
			if res.Status != trellis.Failed || res.Failure.Code == string(trellis.Internal) {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
			w.holds("report.md", w.File(dir, "report.md"), c.says, "!Outcome: delivered")
			if n := w.Git("rev-list", "--count", "--all", "^main"); n != "0" {
				t.Errorf("%s commits", n)
			}
		})
	}
}

// Files that a check runs are part of the work and may change. The report names those that did.
func TestChangesOfWhatChecksRun(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct{ verify, script, says string }{
		"the script of the command":   {"sh test.sh", "echo true > test.sh", "were changed: test.sh"},
		"the script of a recipe":      {"make -s check", "echo true > tools/check.sh", "were changed: tools/check.sh"},
		"the recipe":                  {"make -s check", "printf 'check:\\n\\ttrue\\n' > Makefile", "were changed: Makefile"},
		"a test that is gone":         {"for t in tests/*.sh; do sh $t || exit 1; done", "echo true > tests/one.sh; rm tests/two.sh", "were changed: tests/two.sh (deleted)"},
		"a test that is emptied":      {"for t in tests/*.sh; do sh $t || exit 1; done", "echo > tests/two.sh", "were changed: tests/two.sh (emptied)"},
		"a program of the path":       {"judge", "echo true > $JUDGE", "these programs, which decide, are not those of the beginning of the run: judge"},
		"settings of the test runner": {"sh test.sh && test -f pytest.ini", "echo x > pytest.ini; " + "echo '# more' >> greet.sh", "were changed: pytest.ini"},
	}, "the script of the command", "the recipe", "a test that is emptied", "a program of the path") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bin := t.TempDir()
			w := cheat(t, strings.ReplaceAll(c.script, "$JUDGE", bin+"/judge")+"; echo x > notes.txt")
			w.Write("Makefile", "check:\n\tsh tools/check.sh\n")
			for _, file := range []string{"tools/check.sh", "tests/one.sh", "tests/two.sh"} {
				w.Write(file, "#!/bin/sh\nsh test.sh\n")
			}
			if err := os.WriteFile(bin+"/judge", []byte("#!/bin/sh\nsh test.sh\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			w.Git("add", "-A")
			w.Git("commit", "-q", "-m", "checks")
			w.Site.Environ = append(w.Site.Environ, "PATH="+bin+":"+envPath(w.Site.Environ))
			w.Site.Config.Verify = []string{c.verify}
			dir := w.Hand("02-01-bye", provenBy("test -f notes.txt"))
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.holds("report.md", w.File(dir, "report.md"), c.says)
		})
	}
}

func envPath(env []string) (path string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	return path
}

func provenBy(command string) string {
	return "# Say bye\n\n## Acceptance Criteria\n\n- [ ] it is done\n  verify: `" + command + "`\n"
}

// Ignored files in the fresh checkout are from worktree.copy and worktree.setup, not from the agent.
func TestCheatsInWhatGitIgnores(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script, says string
		inPlace      bool
		status       trellis.Status
	}{
		"honest work":          {"echo x > notes.txt", "run by Trellis in a fresh checkout of the commit", false, trellis.Review},
		"a fake of a tool":     {nonsense + "echo true > node_modules/.bin/judge", "`PATH=node_modules/.bin:$PATH judge` exited with 1", false, trellis.Failed},
		"where it is let pass": {nonsense + "echo true > node_modules/.bin/judge", "run by Trellis.", true, trellis.Review},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, c.script+"; echo x > notes.txt")
			w.Write(".gitignore", "node_modules/\nsecret.env\n")
			w.Git("add", "-A")
			w.Git("commit", "-q", "-m", "ignore")
			w.Write("secret.env", "x")
			w.Site.Config.VerifyFresh, w.Site.Config.Worktree.Copy = !c.inPlace, []string{"secret.env"}
			w.Site.Config.Worktree.Setup = []string{"mkdir -p node_modules/.bin; test -f secret.env && printf '#!/bin/sh\\nsh test.sh\\n' > node_modules/.bin/judge && chmod +x node_modules/.bin/judge"}
			w.Site.Config.Verify = []string{"PATH=node_modules/.bin:$PATH judge"}
			dir := w.Hand("02-01-bye", provenBy("test -f notes.txt"))
			res := w.Start(dir)
			if res.Status != c.status {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
			w.holds("report.md", w.File(dir, "report.md"), c.says)
			if got := w.Git("worktree", "list"); strings.Contains(got, "~") {
				t.Errorf("the fresh checkout is still there: %s", got)
			}
		})
	}
}

// Protected paths are compared with the base of the claim, even if an agent makes git use another one.
func TestCheatsWithTheBase(t *testing.T) {
	t.Parallel()
	for name, script := range soak.Rows(t, map[string]string{
		"a replacement for the base": "git add go.sum; f=$(git commit-tree $(git write-tree) -m first); git reset -q; git replace HEAD $f",
		"a graft":                    "git add go.sum; git commit -q -m mine; echo $(git rev-parse HEAD) > $(git rev-parse --git-path info/grafts)",
		"a shallow repository":       "git add go.sum; git commit -q -m mine; git rev-parse HEAD > $(git rev-parse --git-path shallow)",
		"a branch moved":             "git add go.sum; git commit -q -m mine; git update-ref refs/heads/main HEAD",
		"another repository":         "rm .git; git init -q; git add -A; git -c user.name=x -c user.email=x commit -q -m first",
		"another work tree's .git":   "git worktree add -q ../w2; cp ../w2/.git .git",
	}, "a graft", "a branch moved", "another repository") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, "echo x > go.sum; echo x > notes.txt; "+script)
			w.Site.Config.Protected = append(w.Site.Config.Protected, "go.sum")
			dir := w.Hand("02-01-bye", provenBy("test -f notes.txt"))
			res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
			if err != nil || res.Status != trellis.Failed || res.Failure.Code == string(trellis.Internal) {
				t.Errorf("got %s, %v, %v", res.Status, res.Failure, err)
			}
		})
	}
}

// Edge A12: the pull request names the test files that were emptied or deleted.
func TestGuttedChecksStandInThePullRequest(t *testing.T) {
	t.Parallel()
	w, gh := hosted(t, githubtest.State{})
	w.Write("tests/one.sh", "sh test.sh\n")
	w.Write("tests/two.sh", "sh test.sh\n")
	w.Git("add", "tests")
	w.Git("commit", "-q", "-m", "tests")
	w.Write(".trellis/rehearsal.yaml", roles("implement: [{run: [\"echo > tests/one.sh; rm tests/two.sh; echo x > notes.txt\"], answer: done}]\n"+noteDone))
	if res := w.Start(w.Hand("02-01-bye", lyingPRD)); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	body := gh.State(t).PRs[0]["body"].(string)
	if want := "these files say what they do, and were changed: `tests/one.sh (emptied)`, `tests/two.sh (deleted)`"; !strings.Contains(body, want) {
		t.Errorf("there is no %q in\n%s", want, body)
	}
}
