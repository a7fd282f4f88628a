package scheduler_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// What people and their editors do to a repository during runs. Each script repeats in a separate process until the file enough exists:
// killing git here could leave half-made files.
var meddling = map[string]string{
	"hold config.lock": `i=0; until test -e ../enough; do
  i=$((i + 1))
  if (set -C; : > .git/config.lock) 2>/dev/null; then sleep 0.0$((i * 7 % 9 + 1)); rm -f .git/config.lock; echo x >> ../held.log; fi
  sleep 0.0$((i * 5 % 8 + 1))
done`,
	"add and remove worktrees": `i=0; until test -e ../enough; do
  i=$((i + 1))
  git worktree add -q --detach ../noise/$((i % 3)) && echo x >> ../added.log
  git worktree remove --force ../noise/$((i % 3))
  git worktree prune
  sleep 0.02
done 2>/dev/null`,
	"fetch and tidy": `until test -e ../enough; do
  git -C ../mirror commit -q --allow-empty -m more && git fetch -q ../mirror HEAD:refs/noise/fetched && echo x >> ../fetched.log
  git pack-refs --all
  git -c gc.auto=1 -c gc.autoDetach=false gc --quiet --auto
  sleep 0.05
done 2>/dev/null`,
}

// meddle runs all these scripts until stop is called.
func (w *world) meddle() (stop func()) {
	w.Helper()
	root := filepath.Dir(w.Dir)
	w.Git("clone", "-q", w.Dir, filepath.Join(root, "mirror"))
	running := map[string]*exec.Cmd{}
	for name, script := range meddling {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = w.Dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=N", "GIT_AUTHOR_EMAIL=n@example.org",
			"GIT_COMMITTER_NAME=N", "GIT_COMMITTER_EMAIL=n@example.org")
		if err := cmd.Start(); err != nil {
			w.Fatalf("%s: %v", name, err)
		}
		running[name] = cmd
	}
	stop = sync.OnceFunc(func() {
		if err := os.WriteFile(filepath.Join(root, "enough"), nil, 0o644); err != nil {
			w.Errorf("telling those who meddle to stop: %v", err)
		}
		for name, cmd := range running {
			if err := cmd.Wait(); err != nil && cmd.ProcessState == nil {
				w.Errorf("%s: %v", name, err)
			}
		}
	})
	w.Cleanup(stop)
	return stop
}

// count returns the number of lines of a file next to the repository.
func (w *world) count(name string) int {
	data, err := os.ReadFile(filepath.Join(filepath.Dir(w.Dir), name))
	if err != nil && !os.IsNotExist(err) {
		w.Fatal(err)
	}
	return strings.Count(string(data), "\n")
}

// untouched returns what no run may change in the main checkout: HEAD, the index, and all files outside of the folders of Trellis.
func (w *world) untouched() string {
	w.Helper()
	return strings.Join([]string{w.Git("symbolic-ref", "HEAD"), w.Git("rev-parse", "HEAD"), w.Git("ls-files", "-s"), w.Git("status", "--porcelain=v2", "--", ".", ":!.trellis/tasks")}, "\n")
}

// Many tasks are ready at the same time while others work in the repository. Each task runs once and ends with one commit on its branch,
// and the main checkout stays unchanged.
func TestManyAtOnce(t *testing.T) {
	n := 8
	if soak.Asked() {
		n = 200
	}
	w := newWorld(t, runnertest.Quickly)
	id := func(i int) string { return fmt.Sprintf("03-01-many-%d", i) }
	for i := range n {
		w.Hand(id(i), runnertest.PrdText)
	}
	before := w.untouched()
	stop := w.meddle()
	results, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 16, Rescan: 30 * time.Second})
	stop()
	if err != nil {
		t.Error(err)
	}
	if len(results) != n {
		t.Errorf("got %d results, want %d", len(results), n)
	}
	for _, r := range results {
		if r.Status != trellis.Review || r.Failure != nil {
			t.Errorf("%s: got %s %v, want review", filepath.Base(r.Dir), r.Status, r.Failure)
		}
	}
	if got := w.untouched(); got != before {
		t.Errorf("the main checkout is\n%s\nand was\n%s", got, before)
	}
	w.launchedOnce(n, id)
	main, files := w.Git("rev-parse", "main"), w.Git("ls-tree", "-r", "main")
	for i := range n {
		w.oneCommit(id(i), main, files)
	}
	for _, log := range []string{"held.log", "added.log", "fetched.log"} {
		if got := w.count(log); got < 5 {
			t.Errorf("%s has %d lines: nobody was in the way", log, got)
		} else {
			t.Logf("%s: %d", log, got)
		}
	}
	w.Git("fsck", "--connectivity-only")
}

// launchedOnce checks that the agents of n tasks were started once each.
func (w *world) launchedOnce(n int, id func(int) string) {
	w.Helper()
	data, err := os.ReadFile(filepath.Join(filepath.Dir(w.Dir), "calls.log"))
	if err != nil {
		w.Fatal(err)
	}
	got := strings.Fields(string(data))
	var want []string
	for i := range n {
		want = append(want, id(i))
	}
	slices.Sort(got)
	slices.Sort(want)
	if len(got) != n || !slices.Equal(got, want) {
		w.Errorf("got %d launches of %d tasks, want %d", len(got), len(slices.Compact(got)), n)
	}
}

// oneCommit checks that the branch of a task has one commit on the base, which adds only the task's own work, and that its worktree is
// clean.
func (w *world) oneCommit(id, base, files string) {
	w.Helper()
	task := w.Task(filepath.Join(w.Site.Store.Tasks(), id))
	if got := w.Git("rev-list", "--parents", "main.."+task.Branch); got != task.Commit+" "+base {
		w.Errorf("%s: got commits %q, want %s on %s", id, got, task.Commit, base)
	}
	blob := w.Git("rev-parse", task.Branch+":notes.txt")
	if got := w.Git("show", task.Branch+":notes.txt"); got != id {
		w.Errorf("%s: notes.txt holds %q", id, got)
	}
	got := strings.Split(w.Git("ls-tree", "-r", task.Branch), "\n")
	want := append(strings.Split(files, "\n"), "100644 blob "+blob+"\tnotes.txt")
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.Errorf("%s: got tree\n%s", id, strings.Join(got, "\n"))
	}
	if got := w.Git("-C", task.WorktreePath, "status", "--porcelain", "--branch", "--", ".", ":!.trellis/.current-task"); got != "## "+task.Branch {
		w.Errorf("%s: the worktree is\n%s", id, got)
	}
}
