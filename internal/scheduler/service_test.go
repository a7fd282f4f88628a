package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/pulse"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/soak"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// patient is a script whose agents wait for the file go next to the repository.
var patient = strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"touch $TRELLIS_REPO/../begun-$TRELLIS_TASK_ID; while ! test -f $TRELLIS_REPO/../go; do sleep 0.02; done\", \"", 1)

func (w *world) begun(id string) bool {
	_, err := os.Stat(filepath.Join(w.Dir, "..", "begun-"+id))
	return err == nil
}

// beat returns the content of watch.json.
func (w *world) beat() (b pulse.Beat) {
	data, err := os.ReadFile(pulse.File(w.Site.Store.Root))
	if err == nil {
		err = json.Unmarshal(data, &b)
	}
	if err != nil {
		return pulse.Beat{}
	}
	return b
}

// A task that appears while many invalid directories are scanned begins before the scan is over.
func TestRescanGivesWay(t *testing.T) {
	many := 1_000
	if soak.Asked() {
		many = 3_000
	}
	w := newWorld(t, runnertest.Quickly)
	tasks := w.Site.Store.Tasks()
	if err := os.MkdirAll(tasks, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range many { // broken, so that each one is reported when it is checked
		dir := filepath.Join(tasks, fmt.Sprintf("01-01-broken-%d", i))
		if err := errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, "task.json"), []byte("{"), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	urgent := filepath.Join(t.TempDir(), "urgent")
	if err := runnertest.Lay(urgent, "ready"); err != nil {
		t.Fatal(err)
	}
	var looked, before atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	var appear sync.Once
	w.Site.Event = func(e runner.Event) {
		if strings.Contains(e.Message, "01-01-broken-") {
			looked.Add(1)
			appear.Do(func() {
				if err := os.Rename(urgent, filepath.Join(tasks, "02-01-urgent")); err != nil {
					t.Error(err)
				}
			})
		}
	}
	w.Site.Available = func(context.Context, string) error { // the task begins
		before.Store(looked.Load())
		cancel()
		return errors.New("that is enough")
	}
	if _, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Parallel: 1, Rescan: time.Hour}); err == nil {
		t.Error("got no error of the agent")
	}
	if n := before.Load(); n == 0 || n >= int64(many) {
		t.Errorf("it was begun after %d of %d directories", n, many)
	}
}

// Tasks that a scan finds run by priority, also those that are found late.
func TestScanKeepsPriorities(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	for i := range 40 {
		id := fmt.Sprintf("02-01-task-%02d", i)
		w.Hand(id, runnertest.PrdText)
		w.Write(".trellis/tasks/"+id+"/task.json", fmt.Sprintf(`{"status": "ready", "priority": "P%d"}`, 3-i/10))
	}
	var mu sync.Mutex
	var first []string
	ctx, cancel := context.WithCancel(t.Context())
	w.Site.Available = func(context.Context, string) error { return nil }
	w.Site.Event = func(e runner.Event) {
		if e.State != nil {
			mu.Lock()
			defer mu.Unlock()
			first = append(first, e.Task)
			cancel()
		}
	}
	if _, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Parallel: 2, Rescan: time.Hour}); err != nil {
		t.Fatal(err)
	}
	for _, id := range first {
		if id < "02-01-task-30" {
			t.Errorf("%s was begun before those of a higher priority", id)
		}
	}
}

// When the settings change, the limit of parallel tasks counts at once, other settings for tasks that begin later. Invalid settings are
// reported once and change nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	for _, id := range []string{"02-01-a", "02-02-b", "02-03-c"} {
		w.Hand(id, runnertest.PrdText)
	}
	// The rescan after the reload spends a whole turn on the second task, whose prd.md is long: the third task does not overtake it.
	w.Write(".trellis/tasks/02-02-b/prd.md", strings.Replace(runnertest.PrdText, "# Notes\n", "# Notes\n"+strings.Repeat("\n* A *line* more.\n", 200), 1))
	w.Site.Config.Limits.Parallel = 1
	var reloads atomic.Int64
	hangup := make(chan struct{})
	o := scheduler.WatchOptions{Rescan: time.Hour, Hangup: hangup, Reload: func() (*runner.Site, error) {
		reloads.Add(1)
		text := w.Read(".trellis/config.yaml")
		if text == "wrong" {
			return nil, &trellis.Problem{File: ".trellis/config.yaml", Line: 3, Message: "is wrong"}
		}
		next, err := runnertest.NewSite(w.Dir, w.Site.Environ)
		if err != nil {
			return nil, err
		}
		next.Config.Shared.Silence++
		next.Config.Limits.Parallel, next.Config.Verify = 2, []string{"touch " + filepath.Join(w.Dir, "..", "verified-anew")}
		return next, nil
	}}
	done := make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := scheduler.Watch(ctx, w.Site, o)
		done <- err
	}()
	w.Until("the first at work", func() bool { return w.begun("02-01-a") })
	w.Write(".trellis/config.yaml", "wrong")
	w.Until("a word about it", func() bool { return w.Heard(".trellis/config.yaml:3: is wrong") == 1 })
	hangup <- struct{}{}
	hangup <- struct{}{} // received after the first one was processed
	if n := w.Heard("is wrong"); n != 1 || reloads.Load() < 2 {
		t.Errorf("after %d looks it was told %d times", reloads.Load(), n)
	}
	if b := w.beat(); b.Parallel != 1 || b.Error == nil && !w.later(func() bool { return w.beat().Error != nil }) {
		t.Errorf("the heartbeat says %+v", b)
	}
	if w.begun("02-02-b") {
		t.Error("two run at once")
	}
	w.Write(".trellis/config.yaml", "right")
	w.Until("the second at work", func() bool { // on a busy machine, its check may take longer than the watcher waits
		return w.begun("02-02-b") || w.Heard("checking .trellis/tasks/02-02-b takes longer") > 0 && w.begun("02-03-c")
	})
	if w.Heard("what they say of shared counts when trellis watch begins the next time") == 0 {
		t.Error("nobody was told what does not count yet")
	}
	w.Write("../go", "")
	for _, id := range []string{"02-01-a", "02-02-b", "02-03-c"} {
		w.Until(id+" in review", func() bool { return w.status(id) == trellis.Review })
	}
	for id, want := range map[string]string{"02-01-a": "sh test.sh", "02-02-b": "verified-anew"} { // the first task keeps the settings with which it began
		if page := w.Read(".trellis/tasks/" + id + "/report.md"); !strings.Contains(page, want) {
			t.Errorf("%s was not checked by %s:\n%s", id, want, page)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func (w *world) later(holds func() bool) bool {
	w.Until("it", holds)
	return true
}

// The heartbeat has what runs, and what waits and why. It is removed when the watcher ends.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	for _, id := range []string{"02-01-a", "02-02-b"} {
		w.Hand(id, runnertest.PrdText)
	}
	w.Hand("02-03-later", runnertest.PrdText)
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	w.Write(".trellis/tasks/02-03-later/task.json", `{"status": "ready", "pipeline": {"not_before": "`+at.Format(time.RFC3339)+`"}}`)
	w.Hand("02-04-depends", runnertest.PrdText)
	w.Write(".trellis/tasks/02-04-depends/task.json", `{"status": "ready", "pipeline": {"depends_on": ["02-01-a"]}}`)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := scheduler.Watch(ctx, w.Site, scheduler.WatchOptions{Parallel: 1, Rescan: time.Hour})
		done <- err
	}()
	w.Until("a beat of work", func() bool { b := w.beat(); return len(b.Running) == 1 && b.Running[0].Phase == "implement" })
	b := w.beat()
	if b.PID != os.Getpid() || b.Start == "" || b.Version != "test" || b.Parallel != 1 || b.Since.IsZero() || b.At.Before(b.Since) {
		t.Errorf("got %+v", b)
	}
	if r := b.Running[0]; r.Task != "02-01-a" || r.Since.IsZero() {
		t.Errorf("running: got %+v", r)
	}
	var waits []string
	for _, wait := range b.Waiting {
		text := wait.Task + ": " + wait.For
		if wait.Until != nil {
			text += " " + wait.Until.UTC().Format(time.RFC3339)
		}
		waits = append(waits, text)
	}
	want := []string{"02-02-b: room", "02-03-later: its time " + at.Format(time.RFC3339), "02-04-depends: 02-01-a"}
	if strings.Join(waits, "\n") != strings.Join(want, "\n") {
		t.Errorf("waiting: got %q, want %q", waits, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(pulse.File(w.Site.Store.Root)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end: got %v", err)
	}
}

// After a jump of the clock, as after the machine slept, the watcher rescans everything.
func TestClockJump(t *testing.T) {
	t.Parallel()
	w := newWorld(t, patient)
	var ahead atomic.Int64
	w.Site.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	w.Hand("02-01-a", runnertest.PrdText)
	w.watching(scheduler.WatchOptions{Poll: true}) // there are no events
	w.Until("the first at work", func() bool { return w.begun("02-01-a") })
	w.Hand("02-02-new", runnertest.PrdText)
	ahead.Store(int64(time.Hour))
	w.Write("../go", "") // the first task ends, so the watcher reads the clock
	w.Until("the new one in review", func() bool { return w.status("02-02-new") == trellis.Review })
}

// A task whose agent is not available is tried at each rescan and reported once. watch.json names it while it waits.
func TestToldOnceThatNoAgentWorks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	var tried atomic.Int64
	var installed atomic.Bool
	w.Site.Available = func(context.Context, string) error {
		if tried.Add(1); installed.Load() {
			return nil
		}
		return flow.Fail(string(trellis.AgentMissing), "no such program")
	}
	again := make(chan struct{})
	w.watching(scheduler.WatchOptions{Hangup: again})
	if err := runnertest.Lay(filepath.Join(w.Site.Store.Tasks(), "02-01-mine"), "ready"); err != nil {
		t.Fatal(err)
	}
	w.Until("a few tries", func() bool {
		select {
		case again <- struct{}{}:
		default:
		}
		return tried.Load() > 4
	})
	if n := w.Heard("02-01-mine is not started: agent_missing"); n != 1 {
		t.Errorf("told %d times", n)
	}
	w.Until("watch.json to tell", func() bool {
		list := w.beat().Waiting
		return len(list) == 1 && strings.Contains(list[0].For, "agent_missing")
	})
	installed.Store(true)
	w.Until("the work", func() bool {
		select {
		case again <- struct{}{}:
		default:
		}
		return w.status("02-01-mine") == trellis.Review
	})
}

// A task whose task.json can't be read is listed as waiting for somebody, until it is repaired.
func TestBrokenTaskWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-torn")
	w.arrive(dir, "task.json", `{"status": "in_progress"`)
	w.Until("it to wait", func() bool {
		list := w.beat().Waiting
		return len(list) == 1 && strings.HasPrefix(list[0].For, "somebody: .trellis/tasks/02-01-torn/task.json:1:")
	})
	if err := os.WriteFile(filepath.Join(dir, "task.json"), []byte(`{"status": "planning"}`), 0o644); err != nil {
		t.Fatal(err)
	}
	w.Until("it to wait no more", func() bool { b := w.beat(); return b.PID != 0 && len(b.Waiting) == 0 })
}

// A task whose directory was moved away is no longer listed as waiting, and its absence is not reported as an error.
func TestGoneTaskDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	away, dir := filepath.Join(w.Dir, "..", "02-01-later"), filepath.Join(w.Site.Store.Tasks(), "02-01-later")
	w.arrive(dir, "task.json", `{"status": "ready", "pipeline": {"not_before": "2999-01-01T00:00:00Z"}}`)
	w.Until("it to wait", func() bool { return len(w.beat().Waiting) == 1 })
	if err := os.Rename(dir, away); err != nil {
		t.Fatal(err)
	}
	w.Until("it to be forgotten", func() bool { b := w.beat(); return b.PID != 0 && len(b.Waiting) == 0 })
	if w.Heard("no such directory") > 0 {
		t.Errorf("said %q", w.Said)
	}
}
