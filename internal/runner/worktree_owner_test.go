package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

const writesNote = "implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\n"

// Edge F5: a branch belongs to the task that names it, whatever the names of task directories are.
func TestBranchOfATaskWithAnotherName(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles(writesNote+noteDone))
	login := w.Hand("02-01-login", lyingPRD)
	w.Write(".trellis/tasks/02-01-login/task.json", `{"status": "ready", "branch": "feature/auth"}`)
	if res := w.Start(login); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	auth := w.Hand("02-02-auth", lyingPRD)
	_, err := w.Site.Starter().Start(context.Background(), auth, runner.RunOptions{})
	var not *runner.NotReadyError
	if !errors.As(err, &not) || !strings.Contains(err.Error(), "feature/auth belongs to task 02-01-login") {
		t.Errorf("got %v", err)
	}
}

// Edge F5: a worktree is used only by the task that it was made for, even if no task.json names its branch: neither by a first run, nor
// with --adopt-branch, nor by a fresh retry.
func TestWorktreeOfAnotherTask(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		o      runner.RunOptions
		afresh bool
		old    bool // made by a Trellis that did not record the task
	}{
		"start": {}, "adopt": {o: runner.RunOptions{Adopt: true}}, "afresh": {afresh: true}, "unmarked": {old: true}, "unmarked, adopt": {o: runner.RunOptions{Adopt: true}, old: true},
	}, "adopt", "unmarked", "start") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, roles(writesNote+noteDone))
			login := w.Hand("02-01-login", lyingPRD)
			w.Write(".trellis/tasks/02-01-login/task.json", `{"status": "ready", "branch": "feature/auth"}`)
			res := w.Start(login)
			if res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			tree, tip := res.Report.Worktree, res.Report.Commit
			w.Write("../repo-worktrees/feature/auth/precious.txt", "mine\n")
			w.Edit(login, `"feature/auth"`, `"feature/moved"`) // in task.json alone, the branch seems free
			if c.old {
				w.unmark(tree)
			}
			auth := w.Hand("02-02-auth", lyingPRD)
			w.Write(".trellis/tasks/02-02-auth/task.json", `{"status": "ready", "pipeline": {"base_commit": "`+w.Git("rev-parse", "main")+`"}}`) // has begun: not checked before the run
			for range 2 {
				got, err := w.Site.Starter().Start(context.Background(), auth, c.o)
				if err != nil {
					t.Fatal(err)
				}
				if got.Failure == nil || got.Failure.Code != string(trellis.WorktreeFailed) || !strings.Contains(got.Failure.Detail, "task 02-01-login") || !strings.Contains(got.Failure.Detail, "`trellis cleanup 02-01-login`") || strings.Contains(got.Failure.Detail, "set-branch") {
					t.Fatalf("got %s, %v", got.Status, got.Failure)
				}
				if err := w.Site.Orders().Retry(context.Background(), auth, c.afresh, c.o); err != nil {
					t.Fatal(err)
				}
			}
			if now := w.Git("rev-parse", "feature/auth"); now != tip || w.File(tree, "precious.txt") != "mine\n" {
				t.Errorf("the branch ends in %s, not %s; precious.txt is %q", now, tip, w.File(tree, "precious.txt"))
			}
		})
	}
}

// Edge F5: a retry uses the task's own worktree, also if an older Trellis made it, its journal is gone, the task was renamed, the worktree
// was moved, or the settings changed.
func TestOwnWorktreeIsTakenAgain(t *testing.T) {
	t.Parallel()
	for name, change := range soak.Rows(t, map[string]func(w *world, dir, tree string) string{
		"as it is": func(_ *world, dir, _ string) string { return dir },
		"unmarked": func(w *world, dir, tree string) string { w.unmark(tree); return dir },
		"no journal": func(w *world, dir, tree string) string {
			w.unmark(tree)
			os.RemoveAll(filepath.Join(dir, "run"))
			return dir
		},
		"another name":  func(w *world, dir, _ string) string { return w.rename(dir, "02-09-bye") },
		"renamed again": func(w *world, dir, tree string) string { w.unmark(tree); return w.rename(dir, "02-09-bye") },
		"by other settings": func(w *world, dir, _ string) string {
			w.Site.Config.Worktree.Dir = filepath.Join(w.Dir, "../elsewhere")
			return dir
		},
		"moved by git": func(w *world, dir, tree string) string { w.Git("worktree", "move", tree, tree+"-moved"); return dir },
	}, "no journal", "as it is", "unmarked", "by other settings", "moved by git") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, roles("implement: [{files: {greet.sh: \"echo nonsense\\n\"}, answer: done}]\ncheck: [{answer: fine}]\ndebug: [{answer: hm}, {answer: hm}, {files: {greet.sh: 'echo \"Hello, ${1:-world}!\"', notes.txt: x}, answer: done}]\n"+runnertest.Met))
			w.Site.Config.Limits.Rounds = 1
			dir := w.Hand("02-01-bye", lyingPRD)
			res := w.Start(dir)
			if res.Status != trellis.Failed {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			w.Write("../repo-worktrees/feature/bye/kept.txt", "kept\n")
			dir = change(w, dir, res.Report.Worktree)
			if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			res = w.Start(dir)
			if res.Failure != nil && res.Failure.Code == string(trellis.WorktreeFailed) || w.File(res.Report.Worktree, "kept.txt") != "kept\n" {
				t.Errorf("got %s, %v, kept.txt %q", res.Status, res.Failure, w.File(res.Report.Worktree, "kept.txt"))
			}
		})
	}
}

// If the branch of a task that has begun is checked out in the main checkout, the failure names the command to free it, and a retry after that works.
func TestBranchInTheMainCheckout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles(writesNote+noteDone+"check: [{answer: fine}]\n"))
	w.Site.Config.Limits.Rounds = 1
	dir := w.Hand("02-01-bye", lyingPRD)
	res := w.Start(dir)
	w.Git("worktree", "remove", "--force", res.Report.Worktree)
	w.Git("switch", "-q", "feature/bye")
	again := func(fresh bool) runner.Result {
		if err := w.Site.Orders().Retry(context.Background(), dir, fresh, runner.RunOptions{}); err != nil {
			t.Fatal(err)
		}
		return w.Start(dir)
	}
	for _, fresh := range []bool{false, true} {
		res = again(fresh)
		if way := "`git -C " + w.Dir + " switch main`"; res.Failure == nil || !strings.Contains(res.Failure.Detail, way) || strings.Contains(res.Failure.Detail, "set-branch") || strings.Contains(res.Failure.Detail, "--adopt-branch") {
			t.Fatalf("got %s, %v", res.Status, res.Failure)
		}
	}
	w.Git("switch", "-q", "main")
	if res = again(true); res.Failure != nil && res.Failure.Code == string(trellis.WorktreeFailed) {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}

// If task.json names another branch after the run began, a branch with somebody's work is not used or changed. A fresh retry uses a free
// branch, and the previous work stays.
func TestAnotherBranchIsNamed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		setup string
		fresh bool
		says  string
	}{
		"to go on":                       {"true", false, "the work so far is on feature/bye: `trellis task set-branch 02-01-bye feature/bye` continues there"},
		"afresh":                         {"true", true, "branch person is there already and has commits"},
		"where nothing was done":         {"false", false, "branch person is there already and has commits"},
		"where nothing was done, afresh": {"false", true, "branch person is there already and has commits"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, roles("implement: [{fail: {code: context_overflow}}]"))
			w.Site.Config.Limits.Attempts, w.Site.Config.Worktree.Setup = 1, []string{tt.setup}
			dir := w.Hand("02-01-bye", lyingPRD)
			old := w.Start(dir).Report.Worktree
			w.Write("../repo-worktrees/feature/bye/kept.txt", "kept\n")
			tip := w.Git("commit-tree", "-p", "main", "-m", "precious", "main^{tree}")
			w.Git("branch", "person", tip)
			again := func(branch string, fresh bool) runner.Result {
				w.Write(".trellis/tasks/02-01-bye/task.json", strings.Replace(w.Read(".trellis/tasks/02-01-bye/task.json"), w.Task(dir).Branch, branch, 1))
				if err := w.Site.Orders().Retry(context.Background(), dir, fresh, runner.RunOptions{}); err != nil {
					t.Fatal(err)
				}
				return w.Start(dir)
			}
			if res := again("person", tt.fresh); res.Failure == nil || !strings.Contains(res.Failure.Detail, tt.says) {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
			if res := again("feature/free", true); !strings.HasSuffix(res.Report.Worktree, "feature/free") || w.Git("-C", res.Report.Worktree, "branch", "--show-current") != "feature/free" {
				t.Errorf("got %s, %v in %s", res.Status, res.Failure, res.Report.Worktree)
			}
			if now := w.Git("rev-parse", "person"); now != tip || w.File(old, "kept.txt") != "kept\n" {
				t.Errorf("person is at %s, not %s; kept.txt is %q", now, tip, w.File(old, "kept.txt"))
			}
		})
	}
}

// Work in a folder that git no longer knows is kept, and each run's failure names the command to move it away, also in a fresh retry.
func TestWorktreeThatGitLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, roles(writesNote+noteDone+"check: [{answer: fine}]\n"))
	w.Site.Config.Limits.Rounds = 1
	dir := w.Hand("02-01-bye", lyingPRD)
	tree := w.Start(dir).Report.Worktree
	w.Write("../repo-worktrees/feature/bye/kept.txt", "kept\n")
	if err := os.RemoveAll(filepath.Join(w.Dir, ".git", "worktrees")); err != nil {
		t.Fatal(err)
	}
	for _, fresh := range []bool{false, true} {
		if err := w.Site.Orders().Retry(context.Background(), dir, fresh, runner.RunOptions{}); err != nil {
			t.Fatal(err)
		}
		res := w.Start(dir)
		if res.Failure == nil || res.Failure.Code != string(trellis.WorktreeFailed) || !strings.Contains(res.Failure.Detail, "`mv "+tree+" ") {
			t.Fatalf("fresh %v: got %s, %v", fresh, res.Status, res.Failure)
		}
	}
	if w.File(tree, "kept.txt") != "kept\n" {
		t.Error("it is gone")
	}
}

// unmark makes a worktree look as if an older Trellis had made it.
func (w *world) unmark(tree string) {
	w.Helper()
	if err := os.Remove(w.Git("-C", tree, "rev-parse", "--git-path", "trellis.json")); err != nil {
		w.Fatal(err)
	}
}

// rename renames a task directory.
func (w *world) rename(dir, name string) string {
	w.Helper()
	to := filepath.Join(filepath.Dir(filepath.Clean(dir)), name)
	if err := os.Rename(dir, to); err != nil {
		w.Fatal(err)
	}
	return to
}
