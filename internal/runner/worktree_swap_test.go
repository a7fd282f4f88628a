package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/cleanup"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Edge S6: whatever an agent puts in place of its worktree, nothing there is undone, committed or removed, neither by the run, nor by a
// retry, nor by cleanup.
func TestAgentSwapsItsWorktree(t *testing.T) {
	t.Parallel()
	for name, script := range soak.Rows(t, map[string]string{
		"a link to the main checkout":  "mv $w $w-away; ln -s $TRELLIS_REPO $w",
		"a link to another worktree":   "mv $w $w-away; ln -s $w/../other $w",
		"the .git of another worktree": "cp $w/../other/.git $w/.git",
		"a fresh clone":                "mv $w $w-away; git clone -q $TRELLIS_REPO $w",
		"removed and made again":       "cd $TRELLIS_REPO; git worktree remove --force $w; git worktree add -q $w feature/bye",
		"renamed":                      "mv $w $w-away",
		"its folder swapped":           "f=${w%/*}; cd $TRELLIS_REPO; mv $f ${f%/*}/moved; mkdir $f; ln -s $TRELLIS_REPO $w",
	}, "a link to the main checkout", "the .git of another worktree", "removed and made again", "its folder swapped") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := cheat(t, "echo x > notes.txt; w=$PWD; cd ..; "+script)
			w.Git("worktree", "add", "-q", "-b", "other", filepath.Join(w.Dir, "../repo-worktrees/feature/other"))
			w.Write("../repo-worktrees/feature/other/mine.txt", "mine\n")
			w.Write("README.md", "a person's\n")
			dir := w.Hand("02-01-bye", lyingPRD)
			kept := w.Hand("02-02-kept", lyingPRD)
			before := w.Git("status", "--porcelain=v2", "--branch", "--untracked-files=all", "--", ":!.trellis/tasks/02-01-bye")
			refs := w.Git("for-each-ref", "refs/heads/main", "refs/heads/other")
			res := w.Start(dir)
			if res.Failure == nil || res.Failure.Code != string(trellis.WorktreeFailed) || !strings.Contains(res.Failure.Detail, "no longer the worktree that Trellis made") || !strings.Contains(res.Failure.Detail, "trellis retry 02-01-bye") {
				t.Errorf("got %s, %v", res.Status, res.Failure)
			}
			if err := w.Site.Orders().Retry(context.Background(), dir, name == "a link to the main checkout", runner.RunOptions{}); err != nil {
				t.Fatal(err)
			}
			again, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if mayGoOn := name == "removed and made again" || name == "renamed"; !mayGoOn && (again.Failure == nil || again.Failure.Code != string(trellis.WorktreeFailed)) {
				t.Errorf("retried: %s, %v", again.Status, again.Failure)
			}
			if err := w.Site.Orders().Cancel(dir); err != nil {
				t.Log(err) // fails if the task went well
			}
			c := cleanup.Cleaner{Store: w.Site.Store, Repo: w.Site.Repo, Folder: w.Site.Config.Worktree.Dir, Now: w.Site.Clock}
			_, err = c.Remove(context.Background(), dir, false)
			if keeps := (*cleanup.KeptError)(nil); strings.HasPrefix(name, "a link") && !errors.As(err, &keeps) {
				t.Errorf("cleanup: got %v", err)
			}
			if now := w.Git("status", "--porcelain=v2", "--branch", "--untracked-files=all", "--", ":!.trellis/tasks/02-01-bye"); now != before {
				t.Errorf("the main checkout was\n%s\nand is\n%s", before, now)
			}
			if now := w.Git("for-each-ref", "refs/heads/main", "refs/heads/other"); now != refs {
				t.Errorf("branches: %s", now)
			}
			if _, err := os.Stat(filepath.Join(kept, taskdir.PRD)); err != nil || w.Task(kept).Status != trellis.Ready {
				t.Errorf("the other task: %v", err)
			}
			for _, at := range []string{"../repo-worktrees/feature/other", "../repo-worktrees/moved/other"} {
				if data, err := os.ReadFile(filepath.Join(w.Dir, at, "mine.txt")); err == nil && string(data) == "mine\n" {
					return
				}
			}
			t.Error("what was in the other worktree is gone")
		})
	}
}

// Edge S6: what is undone in a worktree is backed up first.
func TestWhatIsUndoneIsKept(t *testing.T) {
	t.Parallel()
	w := cheat(t, "mkdir -p .trellis/tasks/x; echo precious > .trellis/tasks/x/prd.md; git checkout -q --detach; git commit -q --allow-empty -m astray; echo x > notes.txt")
	w.Site.Config.Verify = []string{"echo left > left.txt; sh test.sh"}
	dir := w.Hand("02-01-bye", lyingPRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	held := map[string]bool{}
	for _, sha := range strings.Fields(w.Git("rev-list", "--glob=refs/trellis/backup/02-01-bye", "--not", "main")) {
		for _, file := range strings.Fields(w.Git("ls-tree", "-r", "--name-only", sha)) {
			held[file] = true
		}
		held[w.Git("log", "-1", "--format=%s", sha)] = true
	}
	for _, want := range []string{".trellis/tasks/x/prd.md", "left.txt", "astray"} {
		if !held[want] {
			t.Errorf("no backup has %s", want)
		}
	}
}
