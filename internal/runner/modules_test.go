package runner_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/config"
	"github.com/trellis-tasks/trellis/internal/delivery"
	"github.com/trellis-tasks/trellis/internal/github/githubtest"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// inCLI is a script that works in the submodule libs/cli, wrongly at first.
const inCLI = `
roles:
  implement: [{files: {libs/cli/main.txt: "tow\n"}, answer: done}]
  check: [{answer: fine}]
  debug: [{files: {libs/cli/main.txt: "two\n", libs/cli/new.txt: "new\n"}, answer: mended}]
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "libs/cli/main.txt:1"}]}}]
`

const twoPRD = "# Say two\n\n## Acceptance Criteria\n\n- [ ] it says two\n"

// modular returns a world with a submodule at libs/cli, the package cli. The verify command checks a file in it.
func modular(t *testing.T, script string) *world {
	w := newWorld(t, script)
	origin := filepath.Join(filepath.Dir(w.Dir), "cli")
	w.Write("../cli/main.txt", "one\n")
	for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"}, {"-c", "user.name=Cli", "-c", "user.email=c@example.org", "commit", "-qm", "cli"}} {
		w.Git(append([]string{"-C", origin}, args...)...)
	}
	w.Git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", origin, "libs/cli")
	w.Git("commit", "-qm", "with cli")
	w.Site.Config.Packages = map[string]config.Package{"cli": {Path: "libs/cli", Type: "submodule"}}
	w.Site.Config.Verify = []string{"grep -qx two libs/cli/main.txt"}
	return w
}

func (w *world) twoInCLI(id string) string {
	dir := w.Hand(id, twoPRD)
	w.Write(".trellis/tasks/"+id+"/task.json", `{"status": "ready", "package": "cli"}`)
	return dir
}

// The checks include changes in a submodule. These get a branch and a commit in the submodule, which the commit of the superproject names.
func TestSubmodule(t *testing.T) {
	t.Parallel()
	w := modular(t, inCLI)
	dir := w.twoInCLI("02-01-two")
	look := func() string {
		return w.Git("rev-parse", "HEAD") + w.Git("status", "--porcelain", "--", ":!.trellis/tasks", ":!.trellis/.runtime") + w.Git("-C", "libs/cli", "symbolic-ref", "HEAD")
	}
	before := look()
	res := w.Start(dir)
	if res.Status != trellis.Review || res.Failure != nil || w.Task(dir).Pipeline.Round != 2 {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if after := look(); after != before {
		t.Errorf("the main checkout is %q, was %q", after, before)
	}
	if got := w.Git("-C", "libs/cli", "log", "--format=%s|%an", "main..feature/two"); got != "feat: Say two|Tester" {
		t.Errorf("the submodule has commits %q", got)
	}
	if got, want := w.Git("rev-parse", "feature/two:libs/cli"), w.Git("-C", "libs/cli", "rev-parse", "feature/two"); got != want {
		t.Errorf("the commit names %s of the submodule, want %s", got, want)
	}
	if got := w.Git("-C", "libs/cli", "log", "--format=%B", "-1", "feature/two"); !strings.Contains(got, "Trellis-Task: 02-01-two") {
		t.Errorf("the submodule's commit says\n%s", got)
	}
	if report := w.Read(".trellis/tasks/02-01-two/report.md"); !strings.Contains(report, "libs/cli/new.txt") || !strings.Contains(report, "git -C libs/cli push origin feature/two") {
		t.Errorf("report.md is\n%s", report)
	}
	if audit, err := runner.VerifyTask(context.Background(), w.Site.Store, w.Site.Repo.Refs(), dir); err != nil || len(audit.Findings) > 0 {
		t.Errorf("the proofs: %+v, %v", audit, err)
	}
}

// If a hook of the superproject refuses after the submodule was committed, the next round amends both commits.
func TestSubmoduleCommittedTwice(t *testing.T) {
	soak.Only(t, "TestSubmodule")
	t.Parallel()
	w := modular(t, `
roles:
  implement: [{files: {libs/cli/main.txt: "two\n", greet.sh: "echo refused\n"}, answer: done}]
  check: [{answer: fine}]
  debug: [{files: {libs/cli/new.txt: "new\n", greet.sh: "echo fine\n"}, answer: mended}]
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "libs/cli/main.txt:1"}]}}]
`)
	w.Write(".git/hooks/pre-commit", "#!/bin/sh\n! grep refused greet.sh\n")
	if err := os.Chmod(filepath.Join(w.Dir, ".git/hooks/pre-commit"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir := w.twoInCLI("02-01-two")
	if res := w.Start(dir); res.Status != trellis.Review || w.Task(dir).Pipeline.Round != 2 {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if got := w.Git("-C", "libs/cli", "log", "--format=%s", "main..feature/two") + "|" + w.Git("log", "--format=%s", "main..feature/two"); got != "feat: Say two|feat: Say two" {
		t.Errorf("got commits %q", got)
	}
	if got := w.Git("-C", "libs/cli", "ls-tree", "--name-only", w.Git("rev-parse", "feature/two:libs/cli")); got != "main.txt\nnew.txt" {
		t.Errorf("the commit names a submodule with %q", got)
	}
}

// A commit that an agent made in a submodule other than the task's package has to be pushed before the run can end well: otherwise nobody
// could check out the work.
func TestSubmoduleThatIsNotThePackage(t *testing.T) {
	t.Parallel()
	const change = "git -c protocol.file.allow=always submodule --quiet update --init && cd libs/cli && echo two > main.txt && git -c user.name=A -c user.email=a@example.org commit -qam two"
	w := modular(t, `
roles:
  implement: [{run: ["`+change+`"], answer: done}]
  check: [{answer: fine}]
  debug: [{answer: what}]
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "greet.sh:1"}]}}]
`)
	w.Site.Config.Verify = []string{"true"}
	dir := w.Hand("02-01-two", twoPRD)
	if res := w.Start(dir); res.Status != trellis.Failed || !strings.Contains(fmt.Sprint(res.Failure), "libs/cli (a submodule with commits that no remote of it has") {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	w.Git("-C", w.Task(dir).WorktreePath+"/libs/cli", "push", "-q", "origin", "HEAD:refs/heads/two")
	if err := w.retry(dir); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("once it is pushed: got %s, %v", res.Status, res.Failure)
	}
}

// A secret in a submodule is not committed, and the failure names its place.
func TestSubmoduleSecret(t *testing.T) {
	t.Parallel()
	token := "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO2mCqe0"[:36]
	w := modular(t, `
roles:
  implement: [{files: {libs/cli/main.txt: "two\n", libs/cli/key.txt: "token = `+token+`\n"}, answer: done}]
  check: [{answer: fine}]
  debug: [{answer: what}]
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "libs/cli/main.txt:1"}]}}]
`)
	dir := w.twoInCLI("02-01-two")
	res := w.Start(dir)
	if got := fmt.Sprint(res.Failure); res.Status != trellis.Failed || !strings.Contains(got, "secret_found") || !strings.Contains(got, "libs/cli/key.txt:1") {
		t.Errorf("got %s, %v", res.Status, got)
	}
	if got := w.Git("-C", "libs/cli", "log", "--format=%s", "main..feature/two"); got != "" {
		t.Errorf("the submodule has commits %q", got)
	}
}

// If an agent committed a secret in a submodule and removed it again, the commits are replaced by one without the secret.
func TestSubmoduleSecretInHistory(t *testing.T) {
	t.Parallel()
	token := "ghp_" + "wWPw5k4aXcaT4fNP0UcnZwJUVFk6LO2mCqe0"[:36]
	w := modular(t, `
roles:
  implement: [{run: ["cd libs/cli && echo two > main.txt && echo token = `+token+` > key.txt && git add -A && git -c user.name=A -c user.email=a@x.org commit -qm with && git rm -q key.txt && git -c user.name=A -c user.email=a@x.org commit -qm without"], answer: done}]
  check: [{answer: fine}]
  debug: [{answer: what}]
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "libs/cli/main.txt:1"}]}}]
`)
	dir := w.twoInCLI("02-01-two")
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if got := w.Git("-C", "libs/cli", "log", "-p", "--format=%s", "main..feature/two"); strings.Contains(got, token) || strings.Count(got, "feat: Say two") != 1 || !strings.Contains(got, "+two") {
		t.Errorf("the submodule's branch has\n%s", got)
	}
	if got, want := w.Git("rev-parse", "feature/two:libs/cli"), w.Git("-C", "libs/cli", "rev-parse", "feature/two"); got != want {
		t.Errorf("the commit names %s of the submodule, want %s", got, want)
	}
	if report := w.Read(".trellis/tasks/02-01-two/report.md"); !strings.Contains(report, "libs/cli/key.txt:1") || strings.Contains(report, token) {
		t.Errorf("report.md is\n%s", report)
	}
}

// A retry with --fresh backs up the work in the submodule too, and begins at the base's commit of the submodule.
func TestSubmoduleAfresh(t *testing.T) {
	t.Parallel()
	w := modular(t, `
roles:
  implement: [{files: {libs/cli/main.txt: "tow\n", libs/cli/seen.txt: "seen\n"}, answer: done}]
  check: [{answer: fine}]
  debug: [{answer: gone}]
`)
	dir := w.twoInCLI("02-01-two")
	w.Site.Config.Limits.Rounds = 1
	if res := w.Start(dir); res.Status != trellis.Failed {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.Write(".trellis/rehearsal.yaml", inCLI)
	w.Site.Config.Limits.Rounds = 3
	if err := w.Site.Orders().Retry(context.Background(), dir, true, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	refs := strings.Fields(w.Git("-C", "libs/cli", "for-each-ref", "--format=%(refname)", "refs/trellis/backup/02-01-two"))
	if len(refs) != 1 || w.Git("-C", "libs/cli", "show", refs[0]+":seen.txt") != "seen" {
		t.Errorf("kept in the submodule: %q", refs)
	}
	if got := w.Git("-C", "libs/cli", "ls-tree", "--name-only", "feature/two"); got != "main.txt\nnew.txt" {
		t.Errorf("the branch has %q", got)
	}
}

// A submodule without changes is no change, and no branch or worktree of it stays.
func TestSubmoduleUntouched(t *testing.T) {
	t.Parallel()
	w := modular(t, `
roles:
  implement: [{answer: done}]
  check: [{answer: fine}]
`)
	w.Site.Config.Verify = []string{"grep -qx one libs/cli/main.txt"}
	dir := w.twoInCLI("02-01-two")
	w.Write(".trellis/tasks/02-01-two/prd.md", "# Say one\n\n## Acceptance Criteria\n\n- [ ] it says one\n  verify: `grep -qx one libs/cli/main.txt`\n")
	if res := w.Start(dir); res.Outcome != trellis.NoChangeNeeded {
		t.Fatalf("got %s, %v", res.Outcome, res.Failure)
	}
	if got := w.Git("branch", "--list", "feature/*") + w.Git("-C", "libs/cli", "branch", "--list", "feature/*") + w.Git("-C", "libs/cli", "worktree", "prune", "-n", "-v"); got != "" {
		t.Errorf("left: %q", got)
	}
}

// If a submodule can't be fetched, the run fails with git's message. An unknown package is reported before a run begins.
func TestSubmoduleMissing(t *testing.T) {
	t.Parallel()
	w := modular(t, inCLI)
	dir := w.twoInCLI("02-01-two")
	w.Git("submodule", "--quiet", "deinit", "--all", "--force")
	for _, gone := range []string{".git/modules", "../cli"} {
		if err := os.RemoveAll(filepath.Join(w.Dir, gone)); err != nil {
			t.Fatal(err)
		}
	}
	if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.HookFailed) || !strings.Contains(res.Failure.Detail, "does not appear to be a git repository") {
		t.Errorf("got %v", res.Failure)
	}
	w.Hand("02-02-odd", twoPRD)
	w.Write(".trellis/tasks/02-02-odd/task.json", `{"status": "ready", "package": "clo"}`)
	var not *runner.NotReadyError
	if _, err := w.Site.Starter().Start(t.Context(), filepath.Join(w.Dir, ".trellis/tasks/02-02-odd"), runner.RunOptions{}); !errors.As(err, &not) || !strings.Contains(err.Error(), "did you mean cli?") {
		t.Errorf("got %v", err)
	}
}

// delivered returns a modular world in which both repositories have a bare remote.
func delivered(t *testing.T) *world {
	w := modular(t, inCLI)
	w.Git("init", "-q", "--bare", "-b", "main", "../origin.git")
	w.Git("remote", "add", "origin", "../origin.git")
	w.Git("push", "-q", "origin", "main")
	w.Git("init", "-q", "--bare", "-b", "main", "../cli.git")
	w.Git("-C", "libs/cli", "remote", "set-url", "origin", filepath.Join(filepath.Dir(w.Dir), "cli.git"))
	w.Git("-C", "libs/cli", "push", "-q", "origin", "main")
	w.Site.Config.Delivery.Push = true
	w.Site.Config.Limits.Attempts = 1
	return w
}

// at returns the commit of the task's branch in a bare repository, "" without the branch.
func (w *world) at(bare string) string {
	sha, _, _ := strings.Cut(w.Git("ls-remote", "../"+bare, "refs/heads/feature/two"), "\t")
	return sha
}

// The submodule's branch is pushed once to its own remote, before the commit that names it.
func TestSubmoduleDelivered(t *testing.T) {
	soak.Only(t, "TestSubmodulePullRequest")
	t.Parallel()
	w := delivered(t)
	w.Write("../origin.git/hooks/update", "#!/bin/sh\nunset GIT_DIR\ngit ls-remote ../cli.git refs/heads/feature/two >> ../order\n")
	w.Write("../cli.git/hooks/post-receive", "#!/bin/sh\ncat >> ../received\n")
	for _, hook := range []string{"../origin.git/hooks/update", "../cli.git/hooks/post-receive"} {
		if err := os.Chmod(filepath.Join(w.Dir, hook), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	dir := w.twoInCLI("02-01-two")
	res := w.Start(dir)
	if res.Status != trellis.Review || !res.Report.Delivery.Pushed {
		t.Fatalf("got %s, %v, %+v", res.Status, res.Failure, res.Report.Delivery)
	}
	if d, err := w.Site.Deliveries().Preview(context.Background(), dir); err != nil || len(d.Commands) != 4 || !strings.HasPrefix(d.Commands[0], "git -C libs/cli push origin "+w.at("cli.git")) {
		t.Errorf("it is foretold as %q, %v", d.Commands, err)
	}
	for range 2 {
		if got, want := w.at("cli.git"), w.Git("rev-parse", "feature/two:libs/cli"); got != want || w.at("origin.git") != w.Git("rev-parse", "feature/two") {
			t.Fatalf("the submodule's remote has %q, want %s; the superproject's %q", got, want, w.at("origin.git"))
		}
		if order := w.Read("../order"); !strings.Contains(order, w.at("cli.git")) {
			t.Errorf("the superproject was pushed when the submodule's remote had %q", order)
		}
		if _, err := w.Site.Deliveries().Deliver(context.Background(), dir); err != nil && !strings.Contains(err.Error(), "gh") {
			t.Fatal(err)
		}
	}
	if got := w.Read("../received"); strings.Count(got, "feature/two") != 1 {
		t.Errorf("the submodule was pushed as\n%s", got)
	}
	if report := w.Read(".trellis/tasks/02-01-two/report.md"); !strings.Contains(report, "branch feature/two of libs/cli is at its origin") {
		t.Errorf("report.md is\n%s", report)
	}
}

// As long as the submodule's commit can't be pushed, the superproject is not pushed.
func TestSubmoduleNotPushed(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		prepare, mend func(w *world)
		fails         string
		types         string
	}{
		"no remote": {
			prepare: func(w *world) { w.Git("-C", "libs/cli", "remote", "remove", "origin") },
			mend:    func(w *world) { w.Git("-C", "libs/cli", "remote", "add", "origin", "../../../cli.git") },
			types:   "git -C libs/cli remote add origin URL",
		},
		"theirs": {
			prepare: func(w *world) {
				w.Git("-C", "../cli", "checkout", "-q", "-b", "feature/two")
				w.Git("-C", "../cli", "-c", "user.name=O", "-c", "user.email=o@example.org", "commit", "-q", "--allow-empty", "-m", "theirs")
				w.Git("-C", "../cli", "push", "-q", "../cli.git", "feature/two")
			},
			mend:  func(w *world) { w.Git("-C", "../cli.git", "branch", "-D", "feature/two") },
			fails: "which somebody else pushed",
		},
		"refused": {
			prepare: func(w *world) {
				w.Write("../cli.git/hooks/update", "#!/bin/sh\necho not today; exit 1\n")
				if err := os.Chmod(filepath.Join(w.Dir, "../cli.git/hooks/update"), 0o755); err != nil {
					w.Fatal(err)
				}
			},
			mend:  func(w *world) { w.Write("../cli.git/hooks/update", "#!/bin/sh\n") },
			fails: "not today",
		},
	}, "refused") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := delivered(t)
			c.prepare(w)
			theirs := w.at("cli.git")
			dir := w.twoInCLI("02-01-two")
			res := w.Start(dir)
			if got := fmt.Sprint(res.Failure); c.fails != "" && (!strings.Contains(got, "push_failed") || !strings.Contains(got, "libs/cli") || !strings.Contains(got, c.fails)) {
				t.Fatalf("got %s, %v", res.Status, got)
			}
			if got := strings.Join(res.Report.Delivery.Commands, "\n"); c.types != "" && (res.Status != trellis.Review || res.Report.Delivery.Pushed || !strings.Contains(got, c.types)) {
				t.Fatalf("got %s, %v, to be typed\n%s", res.Status, res.Failure, got)
			}
			if w.at("origin.git") != "" || w.at("cli.git") != theirs {
				t.Errorf("the remotes have %q and %q", w.at("origin.git"), w.at("cli.git"))
			}
			c.mend(w)
			if _, err := w.Site.Deliveries().Deliver(context.Background(), dir); err != nil && !strings.Contains(err.Error(), "gh") {
				t.Fatal(err)
			}
			if w.at("cli.git") != w.Git("rev-parse", "feature/two:libs/cli") || w.at("origin.git") != w.Git("rev-parse", "feature/two") {
				t.Errorf("afterwards the remotes have %q and %q", w.at("origin.git"), w.at("cli.git"))
			}
		})
	}
}

// The state of a submodule's pull request is fetched with that of the superproject, and reported if it blocks the merge.
func TestSubmodulePullRequest(t *testing.T) {
	t.Parallel()
	w := delivered(t)
	gh := githubtest.Install(t, githubtest.State{})
	w.Env = gh.Env
	w.Site.Environ = append(w.Site.Environ, gh.Env...)
	w.Site.Config.Delivery.PR = true
	dir := w.twoInCLI("02-01-two")
	if res := w.Start(dir); res.Status != trellis.Review || len(gh.State(t).PRs) != 2 {
		t.Fatalf("got %s, %v; there are %v", res.Status, res.Failure, gh.State(t).PRs)
	}
	for _, c := range []struct {
		says runnertest.Fields
		want string
		note string
	}{
		{runnertest.Fields{"isDraft": false}, "libs/cli open  ", ""},
		{runnertest.Failing("ci"), "libs/cli open failed [ci] ", "has checks that fail (ci): https://"},
		{runnertest.Fields{"statusCheckRollup": nil, "reviewDecision": "CHANGES_REQUESTED"}, "libs/cli open  changes_requested", "is to be changed, as its reviewers say: https://"},
		{runnertest.Fields{"reviewDecision": "", "state": "CLOSED"}, "libs/cli closed  ", "was closed without a merge: https://"},
	} {
		gh.Change(t, func(s *githubtest.State) {
			for name, v := range c.says {
				s.PRs[0][name] = v
			}
		})
		seen, _, err := w.Site.PullRequests().Refresh(t.Context(), dir)
		if err != nil || strings.Contains(strings.Join(seen.Notes, "\n"), "the pull request of libs/cli, which comes first, "+c.note) != (c.note != "") {
			t.Errorf("%v: got %q, %v", c.says, seen.Notes, err)
		}
		p, err := delivery.ReadPull(dir)
		if err != nil || p == nil || len(p.Modules) != 1 {
			t.Fatalf("kept is %+v, %v", p, err)
		}
		m := p.Modules[0]
		got := m.Path + " " + m.State + " " + m.Checks + " "
		if len(m.Failing) > 0 {
			got += fmt.Sprint(m.Failing) + " "
		}
		if got += m.Review; got != c.want {
			t.Errorf("%v: got %q, want %q", c.says, got, c.want)
		}
	}
	if w.Task(dir).Status != trellis.Review {
		t.Errorf("it is %s", w.Task(dir).Status)
	}
}

// Files that worktree.setup puts into such a folder in a later run are not the work either.
func TestSetupWhereGitSeesNone(t *testing.T) {
	soak.Only(t, "TestWorkWhereGitSeesNone")
	t.Parallel()
	w := modular(t, `{roles: {implement: [{files: {two.txt: "two\n"}, answer: done}], check: [{answer: fine}], debug: [{fail: {code: context_overflow}}], accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "two.txt:1"}]}}]}}`)
	w.Site.Config.Verify = []string{"grep -qx one libs/cli/made.txt"}
	dir := w.Hand("02-01-two", twoPRD)
	if res := w.Start(dir); res.Status != trellis.Failed {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.Site.Config.Worktree.Setup = []string{"echo one >libs/cli/made.txt"}
	w.Site.Config.Verify = []string{"grep -qx two two.txt"}
	if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
}

// Git sees no files in the folder of a submodule that is not checked out: a run does not end well with work there, and debug is told. Files
// that worktree.setup put there are not the work.
func TestWorkWhereGitSeesNone(t *testing.T) {
	t.Parallel()
	const script = `
roles:
  implement: [{files: {libs/cli/main.txt: "two\n", two.txt: "two\n"}, answer: done}]
  check: [{answer: fine}]
  debug: [{run: ["rm libs/cli/main.txt"], answer: mended}]
  accept: [{answer: {criteria: [{id: A1, verdict: met, evidence: "two.txt:1"}]}}]
`
	const trouble = "the commit does not hold all of the work: libs/cli/ (a submodule that is not checked out"
	for name, tc := range map[string]struct {
		script string
		setup  []string
		want   trellis.Code // "" if it ends well
		round  int
	}{
		"it is taken out":        {script: script, round: 2},
		"it stays":               {script: strings.Replace(script, `run: ["rm libs/cli/main.txt"], `, "", 1), want: trellis.NoProgress, round: 2},
		"worktree.setup did too": {script: script, setup: []string{"echo one >libs/cli/made.txt"}, round: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := modular(t, tc.script)
			w.Site.Config.Verify, w.Site.Config.Worktree.Setup = []string{"grep -qx two two.txt"}, tc.setup
			dir := w.Hand("02-01-two", twoPRD)
			res := w.Start(dir)
			if got := w.Task(dir).Pipeline.Round; got != tc.round {
				t.Errorf("it took %d rounds, want %d", got, tc.round)
			}
			if tc.want == "" {
				if res.Status != trellis.Review {
					t.Fatalf("got %s, %v", res.Status, res.Failure)
				}
			} else if res.Failure == nil || res.Failure.Code != string(tc.want) || !strings.Contains(res.Failure.Detail, trouble) {
				t.Fatalf("got %s, %v; want %s", res.Status, res.Failure, tc.want)
			}
		})
	}
}
