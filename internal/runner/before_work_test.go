package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// idle is an agent that changes nothing, sneaky a command that commits, and isDone is met at the base.
const (
	idle   = "roles:\n  implement: [{answer: done}]\n  check: [{answer: ALL_CHECKS_FINISH}]\n"
	sneaky = "echo junk >> greet.sh; echo x > new.txt; git add -A; git -c user.name=x -c user.email=x@y commit -qm sneaky"
	isDone = "# Bye\n\n## Acceptance Criteria\n\n- [ ] there is a program\n  verify: `test -f greet.sh`\n"
)

// Commits and files that the project's own commands make before agents work are not the work: if the agent does nothing, the run has no work.
func TestCommandsBeforeTheWork(t *testing.T) {
	t.Parallel()
	for name, c := range soak.Rows(t, map[string]struct {
		verify, setup, demand, says string
	}{
		"a check that commits":      {verify: sneaky},
		"a check that switches":     {verify: "git checkout -q -b elsewhere; " + sneaky},
		"a demand that commits":     {demand: sneaky},
		"a setup that commits":      {setup: sneaky, says: "worktree.setup made commits"},
		"a setup that leaves files": {setup: "echo junk >> greet.sh; echo x > new.txt", says: "worktree.setup left what would be committed as the work, which was undone: greet.sh, new.txt"},
		"a setup that fails":        {setup: sneaky + "; echo more >> greet.sh; false", says: "exited with 1"},
		"a setup that leaves none":  {setup: "mkdir -p .trellis/.runtime; echo x > .trellis/.runtime/x"},
	}, "a check that commits", "a demand that commits", "a setup that leaves files", "a setup that fails") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, idle)
			if c.verify != "" {
				w.Site.Config.Verify = []string{c.verify}
			}
			if c.setup != "" {
				w.Site.Config.Worktree.Setup = []string{c.setup}
			}
			dir := w.Hand("02-01-bye", isDone)
			if c.demand != "" {
				dir = w.handPlan(isDone, planJSON(`"preconditions": [{"command": "`+c.demand+`"}],`))
			}
			res := w.Start(dir)
			if c.says == "" && (res.Status == trellis.Review || res.Failure != nil && res.Failure.Code == string(trellis.HookFailed)) {
				t.Errorf("it is %s, %v", res.Status, res.Failure)
			}
			if c.says != "" && (res.Status != trellis.Failed || res.Failure.Code != string(trellis.HookFailed) || !strings.Contains(res.Failure.Detail, c.says)) {
				t.Errorf("it is %s, %v", res.Status, res.Failure)
			}
			if c.setup != "" && res.Status == trellis.Failed {
				if left := w.Git("-C", w.Task(dir).WorktreePath, "status", "--porcelain", "--", ".", ":!.trellis"); left != "" {
					t.Errorf("its worktree holds %s", left)
				}
			}
			if made := w.Git("log", "--format=%s", "--branches=feature/*", "--not", "main"); made != "" {
				t.Errorf("its branch has %s", made)
			}
		})
	}
}

// If a command is interrupted after it committed, its commit is undone by the next run, whichever way that begins. Later work is not undone
// for it.
func TestCommitOfACommandThatIsCutOff(t *testing.T) {
	t.Parallel()
	for i, kind := range []string{"check", "demand"} {
		for j, how := range []string{"resumed", "again", "afresh"} {
			if (i+j)%2 > 0 && !soak.Asked() {
				continue
			}
			t.Run(kind+" "+how, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, roles("implement: [{fail: {code: context_overflow}}]"))
				w.Site.Config.Limits.Attempts = 1
				command := "test -e " + w.Dir + "/go && exit; " + sneaky + "; touch " + w.Dir + "/begun; sleep 3000"
				w.Write(".git/info/exclude", "/begun\n/go\n")
				var dir string
				if kind == "check" {
					w.Site.Config.Verify = []string{command}
					dir = w.Hand("02-01-bye", isDone)
				} else {
					dir = w.handPlan(isDone, planJSON(`"preconditions": [{"command": "`+command+`"}],`))
				}
				ctx, interrupt := context.WithTimeout(t.Context(), runnertest.Hang)
				defer interrupt()
				go func() {
					w.Until("the commit", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "begun")); return err == nil })
					interrupt()
				}()
				res, err := w.Site.Starter().Start(ctx, dir, runner.RunOptions{})
				if err != nil || !res.Interrupted {
					t.Fatalf("it ended with %+v, %v", res, err)
				}
				w.Write("go", "")
				again := func(fresh bool) {
					if err := w.Site.Orders().Retry(context.Background(), dir, fresh, runner.RunOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if how != "resumed" {
					if err := w.Site.Orders().Stop(dir); err != nil {
						t.Fatal(err)
					}
					w.Git("commit", "-q", "--allow-empty", "-m", "the base goes on")
					again(how == "afresh")
				}
				if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.ContextOverflow) {
					t.Fatalf("it is %s, %v", res.Status, res.Failure)
				}
				tree := w.Task(dir).WorktreePath
				if made := w.Git("log", "--format=%s", "--branches=feature/*", "--not", "main"); made != "" {
					t.Errorf("its branch has %s", made)
				}
				if left := w.Git("-C", tree, "diff", "--name-only", "HEAD", "--", ".", ":!.trellis") + w.Git("-C", tree, "ls-files", "--others", "--exclude-standard", "--", ".", ":!.trellis"); left != "" {
					t.Errorf("its worktree holds %s", left)
				}
				if err := os.WriteFile(filepath.Join(tree, "kept.txt"), []byte("kept\n"), 0o644); err != nil {
					t.Fatal(err)
				}
				tip := w.Git("rev-parse", "feature/bye")
				again(false)
				w.Start(dir)
				if now := w.Git("rev-parse", "feature/bye"); now != tip {
					t.Errorf("the branch went from %s to %s", tip, now)
				}
				if _, err := os.Stat(filepath.Join(tree, "kept.txt")); err != nil {
					t.Errorf("what was done later is gone: %v", err)
				}
			})
		}
	}
}

// If the base moves after a run ended without work, the next run begins at the new base. If somebody worked in the worktree meanwhile, the
// run keeps that work.
func TestBaseThatMovedBeforeTheWork(t *testing.T) {
	t.Parallel()
	for _, worked := range []bool{false, true} {
		t.Run(fmt.Sprint(worked), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, roles("implement: [{files: {notes.txt: \"x\\n\"}, answer: done}]\n"+noteDone))
			w.Site.Config.Worktree.Setup = []string{"test ! -e begun || exit 0; echo x > installed.txt"}
			dir := w.Hand("02-01-bye", isDone)
			if res := w.Start(dir); res.Failure == nil || res.Failure.Code != string(trellis.HookFailed) {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			if worked {
				if err := os.WriteFile(filepath.Join(w.Task(dir).WorktreePath, "begun"), []byte("by hand\n"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			w.Write(".gitignore", "installed.txt\n")
			w.Git("add", ".gitignore")
			w.Git("commit", "-q", "-m", "ignore what is installed", "--", ".gitignore")
			if err := w.Site.Orders().Retry(t.Context(), dir, false, runner.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			if res := w.Start(dir); res.Status != trellis.Review {
				t.Fatalf("got %s, %v", res.Status, res.Failure)
			}
			if worked {
				if got := w.Git("show", "feature/bye:begun"); got != "by hand" {
					t.Errorf("begun says %q", got)
				}
			} else if base, fork := w.Task(dir).Pipeline.BaseCommit, w.Git("merge-base", "main", "feature/bye"); base != fork {
				t.Errorf("base_commit is %s, and the branch begins at %s", base, fork)
			}
		})
	}
}
