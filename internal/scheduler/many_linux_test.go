package scheduler_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// resave saves task.json by a rename, as editors do.
func resave(dir, status string) error {
	temp := filepath.Join(dir, ".task.json.swp")
	if err := os.WriteFile(temp, []byte(fmt.Sprintf(`{"status": %q}`, status)), 0o644); err != nil {
		return err
	}
	return os.Rename(temp, filepath.Join(dir, "task.json"))
}

// crowd makes n tasks in planning.
func (w *world) crowd(n int) (dirs []string) {
	w.Helper()
	for i := range n {
		dir := filepath.Join(w.Site.Store.Tasks(), fmt.Sprintf("01-01-crowd-%d", i))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			w.Fatal(err)
		}
		if err := resave(dir, "planning"); err != nil {
			w.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

// If more events occur than the system and the watcher can queue, the watcher finds what it missed with a rescan, and reports the overflow.
func TestOverflowOfEvents(t *testing.T) {
	soak.Only(t, "TestWatchRescansWithoutEvents")
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_queued_events")
	if err != nil {
		t.Fatal(err)
	}
	queued, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	const buffered, each = 8192, 4 // events queued in the process, events for each save
	n := 500
	if soak.Asked() {
		n = 10_000
	}
	w := newWorld(t, runnertest.Quickly)
	busy, free, tell := make(chan struct{}), make(chan struct{}), w.Site.Event
	keep := sync.OnceFunc(func() { close(busy); <-free })
	w.Site.Event = func(e runner.Event) {
		if tell(e); strings.Contains(e.Message, "02-01-broken") {
			keep()
		}
	}
	dirs, ids := w.crowd(n), []string{"02-00-first"}
	w.Hand(ids[0], runnertest.PrdText)
	w.watching(scheduler.WatchOptions{})
	w.inReview(ids) // begins after all others were checked
	w.Write(".trellis/tasks/02-01-broken/task.json", "{")
	<-busy
	for range (queued+buffered)/(each*n) + 1 {
		for _, dir := range dirs {
			if err := resave(dir, "planning"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 8 { // known directories that become ready without an event
		if err := runnertest.Lay(dirs[i*n/8], "ready"); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, filepath.Base(dirs[i*n/8]))
	}
	for i := range 4 { // new directories without an event
		ids = append(ids, fmt.Sprintf("02-02-new-%d", i))
		w.Hand(ids[len(ids)-1], runnertest.PrdText)
	}
	close(free)
	w.inReview(ids)
	w.Until("told that overflowed", func() bool { return w.Heard("overflowed") > 0 }) // a rescan before that may find all of them
	ids = append(ids, "02-03-later")                                                  // noticed by its events again
	w.Hand("02-03-later", runnertest.PrdText)
	w.inReview(ids)
	w.launchedOnce(len(ids), func(i int) string { return ids[i] })
}

func (w *world) inReview(ids []string) {
	w.Helper()
	for _, id := range ids {
		w.Until(id+" in review", func() bool { return w.status(id) == trellis.Review })
	}
}

// limited is set in the child process with the limit.
const limited = "TRELLIS_TEST_LIMITED"

// If the system gives events only for a few directories, the others are found by rescans, and that is reported once.
func TestTooManyToListenTo(t *testing.T) {
	if os.Getenv(limited) != "" {
		few(t)
		return
	}
	cmd := exec.Command("sh", "-c", `echo 5 > /proc/sys/user/max_inotify_watches && exec "$0" -test.run '^TestTooManyToListenTo$' -test.v`, os.Args[0])
	cmd.Env = append(os.Environ(), limited+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}}
	out, err := cmd.CombinedOutput()
	if err != nil && !strings.Contains(string(out), "=== RUN") {
		t.Skipf("no limit of its own is to be had for a process here: %v: %s", err, out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func few(t *testing.T) {
	w := newWorld(t, runnertest.Quickly)
	dirs := w.crowd(20)
	w.watching(scheduler.WatchOptions{Rescan: 100 * time.Millisecond})
	w.Hand("02-01-heard", runnertest.PrdText) // the event for its parent folder is enough
	w.inReview([]string{"02-01-heard"})
	if err := runnertest.Lay(dirs[19], "ready"); err != nil { // there is no event for this one
		t.Fatal(err)
	}
	w.inReview([]string{filepath.Base(dirs[19])})
	if got := w.Heard("file events"); got != 1 {
		t.Errorf("got told %d times, want once: %q", got, w.Said)
	}
}
