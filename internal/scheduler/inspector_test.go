package scheduler_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// hung makes tasks whose checks block until free is called. No context ends the blocked call, as with a call to a disk.
func (w *world) hung(ids ...string) (dirs []string, free func()) {
	w.Helper()
	for _, id := range ids {
		dirs = append(dirs, w.with(id, `"priority": "P0"`))
		w.Write(".trellis/tasks/"+id+"/plan.json", `{"schema_version": 1, "title": "x", "steps": [{"id": "a", "command": "echo x > x.txt"}], "acceptance": [{"criterion": "it is", "verify": "slow-disk notes.txt"}]}`)
	}
	answer := make(chan struct{})
	free = sync.OnceFunc(func() { close(answer) })
	w.Cleanup(free)
	w.Site.LookPath = func(p string) error {
		if p == "slow-disk" {
			<-answer
			return nil
		}
		_, err := exec.LookPath(p)
		return err
	}
	return dirs, free
}

// Edge F12: directories that do not answer, more than are checked at the same time, are reported by name. They keep neither other tasks
// from running nor the watcher from ending. Once they answer, they run.
func TestDirectoriesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	ids := []string{"02-01-a", "02-01-b", "02-01-c", "02-01-d", "02-01-e"}
	dirs, free := w.hung(ids...)
	w.Ready("02-02-found")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	watch := func() {
		_, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Parallel: 1, Rescan: 250 * time.Millisecond})
		done <- err
	}
	go watch()
	w.Until("the one that was found to be in review", func() bool { return w.status("02-02-found") == trellis.Review })
	begun := time.Now()
	from := filepath.Join(w.Dir, "..", "made")
	if err := runnertest.Lay(from, "ready"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(from, filepath.Join(filepath.Dir(dirs[0]), "02-03-new")); err != nil {
		t.Fatal(err)
	}
	w.Until("the new one in review", func() bool { return w.status("02-03-new") == trellis.Review })
	t.Logf("the new one took %v", time.Since(begun))
	for _, id := range ids {
		w.Until("a word about "+id, func() bool { return w.Heard(filepath.Join(".trellis/tasks", id)) == 1 })
	}
	w.Until("word of them in watch.json", func() bool {
		n := 0
		for _, wait := range w.beat().Waiting {
			if strings.Contains(wait.For, "does not answer") {
				n++
			}
		}
		return n == len(ids)
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	free()
	ctx, cancel = context.WithCancel(t.Context())
	go watch()
	w.Until("all of them at work", func() bool {
		for _, id := range ids {
			if s := w.status(id); s == trellis.Ready {
				return false
			}
		}
		return true
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Edge F12: watch --once ends although a directory does not answer, and has a result without a status for the task.
func TestOnceWithADirectoryThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dirs, _ := w.hung("02-01-a")
	w.Ready("02-02-b")
	found := w.watchOnce(1)
	if got := found[dirs[0]]; len(found) != 2 || got.Status != "" {
		t.Errorf("got %+v", found)
	}
	if got := w.status("02-02-b"); got != trellis.Review {
		t.Errorf("the other one is %s", got)
	}
}

// Edge F12: if a git command hangs, watch --once waits until the command is killed, reports both once, does not retry, and ends.
func TestOnceWithAHangingGit(t *testing.T) {
	t.Parallel()
	w := newTrustWorld(t, runnertest.Quickly)
	dir := w.Hand("02-01-a", "# A\n\n## Acceptance Criteria\n\n- [ ] notes.txt names the task\n")
	attributes := filepath.Join(w.Dir, ".git", "info", "attributes") // git opens this pipe, and waits for a writer
	if err := errors.Join(os.RemoveAll(attributes), os.MkdirAll(filepath.Dir(attributes), 0o755), syscall.Mkfifo(attributes, 0o600)); err != nil {
		t.Fatal(err)
	}
	found := w.watchOnce(1)
	if got := found[dir]; len(found) != 1 || got.Status != "" || w.status("02-01-a") != trellis.Ready {
		t.Errorf("got %+v, and the task is %s", found, w.status("02-01-a"))
	}
	if late, ended := w.Heard("takes longer than 5s"), w.Heard("02-01-a: "); late != 1 || ended != 1 {
		t.Errorf("it was told %d times that it took long, and %d times why it ended", late, ended)
	}
}

// watch --once waits for a check that takes too long: the task runs, and the report about the long check is not its result.
func TestOnceWaitsForALateLook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dirs, free := w.hung("02-01-a")
	say := w.Site.Event
	w.Site.Event = func(e runner.Event) {
		say(e)
		if strings.Contains(e.Message, "takes longer than 5s") {
			time.AfterFunc(time.Second, free) // by then the watcher has nothing else to do
		}
	}
	if got := w.watchOnce(1)[dirs[0]]; got.Status == "" || w.status("02-01-a") == trellis.Ready {
		t.Errorf("got %+v, and the task is %s", got, w.status("02-01-a"))
	}
	if w.Heard("checking .trellis/tasks/02-01-a takes longer") != 1 {
		t.Error("nobody was told that it took long")
	}
}

// Edge F12: if the dependency of a task ends while the task is checked, the task is checked again and runs.
func TestDependencyEndsDuringALook(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Depends("02-01-a")
	next := w.Depends("02-02-next", "02-01-a")
	came, seen := make(chan struct{}), make(chan struct{})
	hasCome, hasSeen := sync.OnceFunc(func() { close(came) }), sync.OnceFunc(func() { close(seen) })
	var ending atomic.Bool // the dependency is almost done, so a check that is blocked until its end is not blocked for long
	say := w.Site.Event
	w.Site.Event = func(e runner.Event) {
		if e.Task == "02-01-a" && e.State != nil && e.State.Phase == "final-verify" && !ending.Swap(true) {
			w.Write(".trellis/tasks/02-02-next/info.md", "Look again.\n")
		}
		say(e)
	}
	w.Site.Seen = func(task *taskdir.Task) {
		switch {
		case task.ID == "02-01-a" && task.Status == trellis.Review:
			hasCome()
		case task.ID == "02-03-later":
			hasSeen() // what was found before this check has most likely been processed
		case task.ID == "02-02-next" && task.Status == trellis.Waiting && ending.Load():
			select {
			case <-came:
			default:
				<-came // the check still uses the previous state
				w.Ready("02-03-later")
				<-seen
			}
		}
	}
	w.once()
	if got := w.Task(next).Status; got != trellis.Review {
		t.Errorf("it is %s; said %q", got, w.Said)
	}
}
