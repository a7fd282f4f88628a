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

const updatePRD = "# Say bye\n\nPeople leave.\n\n## Acceptance Criteria\n\n- [ ] it says bye\n  verify: `sh greet.sh --bye | grep -q Bye`\n"

// Versions of greet.sh: of the base, of the task, and with both changes.
const (
	greetings = `echo "Hi, ${1:-world}!"`
	saysBye   = `test "$1" = --bye && echo Bye || echo "Hello, ${1:-world}!"`
	both      = `test "$1" = --bye && echo Bye || echo "Hi, ${1:-world}!"`
)

// moving returns a world in which the base branch gets a commit while the agent implements: theirs changes the main checkout, and debug is
// the script of the debug agent.
func moving(t *testing.T, mode, theirs, debug string) (w *world, dir string) {
	t.Helper()
	w = newWorld(t, runnertest.Quickly)
	w.Program("text", `cat > ../../$TRELLIS_ROLE-$TRELLIS_ROUND.prompt
case $TRELLIS_ROLE in
implement) cat > greet.sh <<'END'
`+saysBye+`
END
	test -e "$TRELLIS_REPO/../binary" && printf 'a\0c' > data
	test -e "$TRELLIS_REPO/../moved" || (unset GIT_REFLOG_ACTION; cd "$TRELLIS_REPO" && `+theirs+` && git commit -qam "base went on" && touch ../moved) >&2
	echo done;;
debug) `+debug+`
	echo mended;;
accept) echo '{"criteria": []}';;
*) echo fine;;
esac
`)
	w.Site.Config.Delivery.Update = mode
	return w, w.Hand("02-01-bye", updatePRD)
}

// onTop checks that the branch is complete and based on the current main.
func (w *world) onTop(dir string) {
	w.Helper()
	main, task := w.Git("rev-parse", "main"), w.Task(dir)
	if task.Status != trellis.Review || task.Pipeline.BaseCommit != main || task.Commit != w.Git("rev-parse", "feature/bye") {
		w.Errorf("it is %s (%s) on %s with %s, want main, %s", task.Status, task.Pipeline.Failure.Detail, task.Pipeline.BaseCommit, task.Commit, main)
	}
	if got := w.Git("merge-base", "main", "feature/bye"); got != main {
		w.Errorf("the branch begins at %s, want %s", got, main)
	}
	if got := w.Git("for-each-ref", "refs/trellis/update"); got != "" {
		w.Errorf("left %s", got)
	}
	if got := w.Git("-C", task.WorktreePath, "status", "--porcelain", "--", ".", ":!.trellis"); got != "" {
		w.Errorf("the worktree has %s", got)
	}
}

func (w *world) report(dir string, parts ...string) {
	w.Helper()
	text := w.Read(".trellis/tasks/" + filepath.Base(dir) + "/report.md")
	for _, p := range parts {
		if !strings.Contains(text, p) {
			w.Errorf("report.md has no %q:\n%s", p, text)
		}
	}
}

func TestBaseMoved(t *testing.T) {
	soak.Only(t, "TestBaseMovesAgain")
	t.Parallel()
	for mode, commits := range soak.Rows(t, map[string]string{"rebase": "feat: Say bye", "merge": "chore: merge main feat: Say bye"}, "rebase") {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, dir := moving(t, mode, "echo new > new.txt && git add new.txt", "false")
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.onTop(dir)
			if got := strings.ReplaceAll(w.Git("log", "--format=%s", "main..feature/bye"), "\n", " "); got != commits {
				t.Errorf("got commits %q, want %q", got, commits)
			}
			w.report(dir, "main moved on to "+w.Git("rev-parse", "main")[:12], "M greet.sh +1 -1\n```")
			if audit, err := runner.VerifyTask(context.Background(), w.Site.Store, w.Site.Repo.Refs(), dir); err != nil || !audit.OK() {
				t.Errorf("the proofs: %+v, %v", audit, err)
			}
		})
	}
}

// Files below .trellis/tasks that the base got meanwhile stay unchanged in a branch that is merged with it.
func TestMergeKeepsTasksOfTheBase(t *testing.T) {
	t.Parallel()
	other := "mkdir -p .trellis/tasks/02-02-other && echo other > .trellis/tasks/02-02-other/prd.md && git add .trellis/tasks/02-02-other && "
	for name, theirs := range map[string]string{
		"merged":   other + "echo new > new.txt && git add new.txt",
		"conflict": other + "echo '" + greetings + "' > greet.sh && sed -i s/Hello/Hi/ test.sh",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := moving(t, "merge", theirs, "echo '"+both+"' > greet.sh; echo mine > .trellis/tasks/02-02-other/prd.md; git add .trellis")
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.onTop(dir)
			if got := w.Git("diff", "--name-only", "main", "feature/bye"); got != "greet.sh" {
				t.Errorf("the branch changes %q", got)
			}
			if got := w.Git("-C", w.Task(dir).WorktreePath, "show", "HEAD:.trellis/tasks/02-02-other/prd.md"); got != "other" {
				t.Errorf("the branch has %q", got)
			}
			w.report(dir, "M greet.sh +1 -1\n```")
		})
	}
}

// A base that has not moved changes nothing. If the base has all of the work, nothing is delivered.
func TestBaseThatNeedsNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		theirs string
		want   trellis.Status
	}{
		"stays":      {"git commit -q --allow-empty -m nothing; git reset -q --hard HEAD~; git commit -q --allow-empty -m x; git reset -q --hard HEAD~; true || git", trellis.Review},
		"has it all": {"echo '" + saysBye + "' > greet.sh", trellis.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := moving(t, "rebase", c.theirs, "false")
			if name == "stays" {
				w.Write("../moved", "")
			}
			if res := w.Start(dir); res.Status != c.want {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			if got := w.Git("for-each-ref", "refs/trellis/update"); got != "" {
				t.Errorf("left %s", got)
			}
		})
	}
}

// If both sides changed the same line, the debug agent gets both versions, and its result is checked and delivered.
func TestConflictIsMended(t *testing.T) {
	t.Parallel()
	for _, mode := range soak.Of([]string{"rebase", "merge"}, "rebase") {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, dir := moving(t, mode, "echo '"+greetings+"' > greet.sh && sed -i s/Hello/Hi/ test.sh", "cp greet.sh ../../clash; echo '"+both+"' > greet.sh")
			old := w.Git("rev-parse", "main")
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v\n%s", res.Status, res.Failure, w.Read("../repo-worktrees/clash"))
			}
			w.onTop(dir)
			clash := w.Read("../repo-worktrees/clash")
			for _, part := range []string{"<<<<<<< main ", greetings, "||||||| what both began with\n", "=======\n" + saysBye, ">>>>>>> feature/bye "} {
				if !strings.Contains(clash, part) {
					t.Errorf("there is no %q in\n%s", part, clash)
				}
			}
			prompt := w.Read("../repo-worktrees/debug-2.prompt")
			for _, part := range []string{"# Both sides", "Tester: base went on", "Tester: feat: Say bye", "changed side by side: greet.sh"} {
				if !strings.Contains(prompt, part) {
					t.Errorf("there is no %q in the prompt:\n%s", part, prompt)
				}
			}
			if got, want := w.Git("show", "feature/bye:greet.sh"), both; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := len(strings.Fields(w.Git("log", "-1", "--format=%P", "feature/bye"))); mode == "merge" && got != 2 || mode == "rebase" && got != 1 {
				t.Errorf("the commit has %d parents", got)
			}
			if refs := w.Git("for-each-ref", "--contains", old, "refs/trellis/backup"); mode == "rebase" && refs == "" {
				t.Error("the old branch was not kept")
			}
		})
	}
}

// Conflict markers are never committed: an unresolved conflict fails the run, and the work is kept.
func TestConflictStays(t *testing.T) {
	t.Parallel()
	for _, mode := range soak.Of([]string{"rebase", "merge"}, "merge") {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, dir := moving(t, mode, "echo '"+greetings+"' > greet.sh && sed -i s/Hello/Hi/ test.sh", "echo $TRELLIS_ROUND >> notes.txt; sed -i '/^[<|]/d' greet.sh")
			res := w.Start(dir)
			if res.Status != trellis.Failed || res.Failure.Code != string(trellis.Conflict) || !strings.Contains(res.Failure.Detail, "greet.sh") {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			if got := w.Git("log", "-p", "-m", "--format=", "feature/bye", "main"); strings.Contains(got, "=======") {
				t.Errorf("marks were committed:\n%s", got)
			}
			if all := w.Git("log", "-p", "-m", "--format=%H", "--glob=refs/trellis", "feature/bye"); !strings.Contains(all, "+"+saysBye) {
				t.Errorf("the work is lost:\n%s", all)
			}
		})
	}
}

// After a person resolved a conflict by hand, or merged, a retry continues with that.
func TestConflictIsMendedByHand(t *testing.T) {
	t.Parallel()
	for name, mend := range soak.Rows(t, map[string]func(w *world, tree string){
		"marks": func(w *world, tree string) { w.put(filepath.Join(tree, "greet.sh"), both+"\n") },
		"merge": func(w *world, tree string) {
			w.put(filepath.Join(tree, "greet.sh"), both+"\n")
			w.Git("-C", tree, "checkout", "-q", "HEAD", "--", "test.sh")
			w.Git("-C", tree, "add", "-A")
			w.Git("-C", tree, "reset", "-q", "--hard")
			w.Git("-C", tree, "merge", "-q", "-s", "ours", "--no-edit", "main")
			w.Git("-C", tree, "checkout", "-q", "main", "--", ".")
			w.put(filepath.Join(tree, "greet.sh"), both+"\n")
			w.Git("-C", tree, "commit", "-q", "-a", "--amend", "--no-edit")
		},
		"worktree is gone": func(w *world, tree string) {
			w.Git("worktree", "remove", "--force", tree)
			w.put(filepath.Join(filepath.Dir(w.Dir), "mend"), "")
		},
	}, "merge") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, dir := moving(t, "merge", "echo '"+greetings+"' > greet.sh && sed -i s/Hello/Hi/ test.sh", "test -e $TRELLIS_REPO/../mend && echo '"+both+"' > greet.sh")
			if res := w.Start(dir); res.Status != trellis.Failed || res.Failure.Code != string(trellis.Conflict) {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			mend(w, w.Task(dir).WorktreePath)
			if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.onTop(dir)
			if got := w.Git("show", "feature/bye:greet.sh"); got != both {
				t.Errorf("got %s", got)
			}
		})
	}
}

func (w *world) put(path, text string) {
	w.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		w.Fatal(err)
	}
}

// A conflict in a file that can't show both sides changes nothing. The command in the failure merges them, and a retry continues with a
// person's result.
func TestConflictWithoutSides(t *testing.T) {
	t.Parallel()
	w, dir := moving(t, "rebase", "printf 'a\\0b' > data && git add data", "false")
	w.Write("../binary", "")
	res := w.Start(dir)
	if res.Status != trellis.Failed || res.Failure.Code != string(trellis.Conflict) || !strings.Contains(res.Failure.Detail, "both changed the binary file data; nothing was touched: `git -C ") {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	if got := w.Git("show", "feature/bye:greet.sh"); got != saysBye || w.Git("for-each-ref", "refs/trellis/update") != "" {
		t.Errorf("the work is %s", got)
	}
	_, merge, _ := strings.Cut(res.Failure.Detail, "`")
	merge, _, _ = strings.Cut(merge, "`")
	out, err := exec.Command("sh", "-c", merge).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Merge conflict in data") {
		t.Fatalf("`%s`: %v\n%s", merge, err, out)
	}
	tree := w.Task(dir).WorktreePath
	w.put(filepath.Join(tree, "data"), "a\x00bc")
	w.Git("-C", tree, "add", "data")
	w.Git("-C", tree, "commit", "-q", "--no-edit")
	if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("again: got %s, %v", res.Status, res.Failure)
	}
	w.onTop(dir)
	if got := w.Git("show", "feature/bye:data"); got != "a\x00bc" {
		t.Errorf("data is %q", got)
	}
}

// If both sides pass alone and fail together, the checks of the merged work find that, and debug repairs it.
func TestSidesThatFailTogether(t *testing.T) {
	t.Parallel()
	for _, mode := range soak.Of([]string{"rebase", "merge"}, "merge") {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, dir := moving(t, mode, `echo 'test "$(sh greet.sh --bye)" = Bye-bye || ! grep -q bye greet.sh' >> test.sh`, "sed -i 's/echo Bye/echo Bye-bye/' greet.sh")
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.onTop(dir)
			if got := w.Task(dir).Pipeline.Round; got != 2 {
				t.Errorf("it took %d rounds", got)
			}
			if got := w.Read("../repo-worktrees/debug-2.prompt"); !strings.Contains(got, "in a fresh checkout of the commit") {
				t.Errorf("the prompt is\n%s", got)
			}
		})
	}
}

// A base that moves twice is merged twice.
func TestBaseMovesAgain(t *testing.T) {
	t.Parallel()
	w, dir := moving(t, "merge", "echo '"+greetings+"' > greet.sh && sed -i s/Hello/Hi/ test.sh",
		`echo '`+both+`' > greet.sh; (unset GIT_REFLOG_ACTION; cd "$TRELLIS_REPO" && echo more > more.txt && git add more.txt && git commit -qm "went on again") >&2`)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	w.onTop(dir)
	if got := w.Git("log", "--merges", "--format=%s", "main..feature/bye"); strings.Count(got, "merge main") != 2 {
		t.Errorf("got %s", got)
	}
}

// Work that is stacked on another task's branch is updated to that branch, or to the base branch once that has the other task's work.
func TestUpdateOfStackedWork(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		below string // what happens to the branch below meanwhile
		on    string
	}{
		"amended":  {`git worktree add -q ../below-tree feature/below && cd ../below-tree && echo b > b.txt && git add b.txt && git commit -q --amend --no-edit`, "02-02-below"},
		"squashed": {`git merge -q --squash feature/below && git commit -qm squashed`, ""},
		"merged":   {`git merge -q --no-ff --no-edit feature/below`, ""},
	}, "squashed") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, runnertest.Quickly)
			w.Program("text", `cat > /dev/null
case $TRELLIS_ROLE in
implement) echo $TRELLIS_TASK_ID > all.txt
	test $TRELLIS_TASK_ID != 02-01-above || (unset GIT_REFLOG_ACTION; cd "$TRELLIS_REPO" && `+c.below+`) >&2
	echo done;;
accept) echo '{"criteria": [{"id": "A1", "verdict": "met", "evidence": "greet.sh:1"}]}';;
*) echo fine;;
esac
`)
			w.Site.Config.Delivery.Update = "rebase"
			w.Depends("02-02-below")
			above := w.Depends("02-01-above", "02-02-below")
			if res := w.Start(filepath.Join(w.Site.Store.Tasks(), "02-02-below")); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.Git("worktree", "remove", "--force", w.Task(filepath.Join(w.Site.Store.Tasks(), "02-02-below")).WorktreePath)
			if res := w.Start(above); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			base := map[bool]string{true: "main", false: "feature/below"}[c.on == ""]
			w.Stacked(above, c.on, w.Git("rev-parse", base))
			if notes := w.Read(".trellis/tasks/02-01-above/report.md"); strings.Contains(notes, "will conflict") {
				t.Errorf("what is merged conflicts no more:\n%s", notes)
			}
			if got := w.Git("rev-list", "--count", base+"..feature/above"); got != "1" {
				t.Errorf("it has %s commits of its own", got)
			}
		})
	}
}

// A report names other work in review with which this work will conflict, and no other work.
func TestProbe(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Site.Config.Delivery.Update = "rebase"
	for i, text := range []string{"echo one > same.txt", "echo two > other.txt", "echo three > same.txt"} {
		w.Program("text", fmt.Sprintf(`cat > /dev/null
case $TRELLIS_ROLE in
implement) %s; echo done;;
accept) echo '{"criteria": [{"id": "A1", "verdict": "met", "evidence": "greet.sh:1"}]}';;
*) echo fine;;
esac
`, text))
		res := w.Start(w.Hand(fmt.Sprintf("02-0%d-t%d", i, i), runnertest.PrdText))
		if res.Status != trellis.Review {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
		notes := strings.Join(res.Report.Notes, "\n")
		if i == 2 != strings.Contains(notes, "will conflict with 02-00-t0 in same.txt: merge one first") || strings.Contains(notes, "t1") {
			t.Errorf("task %d: %s", i, notes)
		}
	}
}

// A run that is killed at any step while its base moves has the same result as an undisturbed run. Soak tests try more steps.
func TestKillWhileUpdating(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"rebase", "merge"} {
		w, dir := killable(t, mode)
		_, steps := w.Child(dir, 0)
		want := w.Git("rev-parse", "feature/bye^{tree}")
		from := steps * 2 / 3 // other tests cover what comes before
		for at := from; at <= steps; at += soak.Every(23) {
			t.Run(fmt.Sprint(mode, " ", at), func(t *testing.T) {
				t.Parallel()
				w, dir := killable(t, mode)
				w.Child(dir, at)
				w.Child(dir, 0)
				w.onTop(dir)
				if got := w.Git("rev-parse", "feature/bye^{tree}"); got != want {
					t.Errorf("got tree %s, want %s", got, want)
				}
				if got := w.Git("rev-list", "--count", "main..feature/bye"); got != map[string]string{"rebase": "1", "merge": "2"}[mode] {
					t.Errorf("%s commits", got)
				}
			})
		}
	}
}

// Deliver updates work in review to a base that has moved, as its preview says. Published commits are kept: the base is merged.
func TestDeliverBringsUpToDate(t *testing.T) {
	t.Parallel()
	w, gh := hosted(t, githubtest.State{})
	w.Site.Config.Delivery.Update = "rebase"
	dir := w.Hand("02-01-bye", runnertest.ByePRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	first := w.Git("rev-parse", "feature/bye")
	calls := w.Calls()
	clone := filepath.Join(filepath.Dir(w.Dir), "clone")
	w.Git("clone", "-q", "../origin.git", clone) // somebody else pushes to main
	w.Git("-C", clone, "-c", "user.name=Bea", "-c", "user.email=b@example.org", "commit", "-q", "--allow-empty", "-m", "went on")
	w.Git("-C", clone, "push", "-q", "origin", "main")
	w.Git("fetch", "-q")
	if d, err := w.Site.Deliveries().Preview(context.Background(), dir); err != nil || len(d.Notes) != 1 || !strings.Contains(d.Notes[0], "main moved on to") {
		t.Errorf("got %+v, %v", d, err)
	}
	res, err := w.Site.Deliveries().Deliver(context.Background(), dir)
	if err != nil || res.Status != trellis.Review {
		t.Fatalf("got %s, %v, %v", res.Status, res.Failure, err)
	}
	tip, main := w.Git("rev-parse", "feature/bye"), w.Git("rev-parse", "origin/main")
	if got := w.Git("log", "-1", "--format=%P", tip); got != first+" "+main {
		t.Errorf("got parents %s, want %s and %s", got, first, main)
	}
	if list := gh.State(t).PRs; len(list) != 1 || list[0]["headRefOid"] != tip {
		t.Errorf("there are %v", list)
	}
	if got := w.Calls(); got["implement"] != calls["implement"] || got["debug"] != calls["debug"] {
		t.Errorf("agents were asked: %v", got)
	}
	if res, err := w.Site.Deliveries().Deliver(context.Background(), dir); err != nil || res.Status != trellis.Review || w.Git("rev-parse", "feature/bye") != tip {
		t.Errorf("again: got %s, %v", res.Status, err)
	}
}

// killable returns a world for children, whose base moves while they implement.
func killable(t *testing.T, mode string) (w *world, dir string) {
	t.Helper()
	w = newWorld(t, `roles:
  implement: [{files: {greet.sh: "test \"$1\" = --bye && echo Bye || echo \"Hello, ${1:-world}!\"\n"}, run: ["test -e $TRELLIS_REPO/../moved || (unset GIT_REFLOG_ACTION; cd $TRELLIS_REPO && echo new > new.txt && git add new.txt && git commit -qm meanwhile && touch ../moved)"], answer: done}]
  check: [{answer: fine}]
`)
	w.Env = []string{runnertest.ChildOnto + "=" + mode}
	return w, w.Hand("02-01-bye", updatePRD)
}
