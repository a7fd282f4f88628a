package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// watching runs a watcher until the test ends.
func (w *world) watching(o scheduler.WatchOptions) {
	w.Helper()
	if o.Rescan == 0 {
		o.Rescan = time.Hour // only events
	}
	o.Parallel = 2
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() {
		_, err := scheduler.Watch(ctx, w.Site, o)
		done <- err
	}()
	w.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	})
	w.Until("a watcher", func() bool { // a watcher with the lock makes this folder next
		_, ok := w.Site.Starter().Watcher()
		_, err := os.Stat(w.Site.Store.Tasks())
		return ok && err == nil
	})
}

func (w *world) status(id string) trellis.Status {
	t, err := w.Site.Store.Load(filepath.Join(w.Site.Store.Tasks(), id))
	if err != nil {
		return ""
	}
	return t.Status
}

// A task that is written one file after the other is reported once, after nobody writes to it any more (edge C17).
func TestHalfWrittenIsToldOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	id := ""
	for n := 0; id == "" && n < 20; n++ {
		dir, begun := filepath.Join(w.Site.Store.Tasks(), fmt.Sprintf("02-01-half-%d", n)), time.Now()
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range [][2]string{{"task.json", `{"status": "ready"}`}, {"prd.md", runnertest.PrdText}, {"implement.jsonl", runnertest.RowText}} {
			time.Sleep(60 * time.Millisecond) // as slow as a person: each file causes a separate event
			if err := os.WriteFile(filepath.Join(dir, f[0]), []byte(f[1]), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if time.Since(begun) < 700*time.Millisecond { // otherwise the directory had settled in between, since the machine was busy
			id = filepath.Base(dir)
		}
	}
	if id == "" {
		t.Skip("the machine is too busy to write four files within a second")
	}
	w.Until("the complaint", func() bool { return w.Heard(id+"/check.jsonl: there is no check.jsonl") == 1 })
	if n := w.Heard(id + "/"); n != w.Heard(id+"/check.jsonl")+w.Heard(id+"/debug.jsonl") {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		t.Errorf("%s is complained of before it is written: %q", id, w.Said)
	}
}

// A watcher notices a new task directory by events alone, however it is made.
func TestWatcherSeesDirectories(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	tasks := w.Site.Store.Tasks()
	ways := map[string]func(dir string) error{
		"02-01-slowly": func(dir string) error { // mkdir, then task.json, then the other files
			for i, f := range [][2]string{{"", ""}, {"task.json", `{"status": "ready"}`}, {"prd.md", runnertest.PrdText}, {"check.jsonl", runnertest.RowText}, {"implement.jsonl", runnertest.RowText}} {
				if i == 0 {
					if err := os.Mkdir(dir, 0o755); err != nil {
						return err
					}
					continue
				}
				time.Sleep(60 * time.Millisecond) // as slow as a person: each file causes a separate event
				if err := os.WriteFile(filepath.Join(dir, f[0]), []byte(f[1]), 0o644); err != nil {
					return err
				}
			}
			return nil
		},
		"02-02-renamed": func(dir string) error {
			from := filepath.Join(w.Dir, "..", "made")
			return errors.Join(runnertest.Lay(from, "ready"), os.Rename(from, dir))
		},
		"02-03-copied": func(dir string) error {
			from := filepath.Join(w.Dir, "..", "original")
			return errors.Join(runnertest.Lay(from, "ready"), exec.Command("cp", "-r", from, dir).Run())
		},
		"02-04-set-ready": func(dir string) error { // an editor saves by a rename
			if err := runnertest.Lay(dir, "planning"); err != nil {
				return err
			}
			time.Sleep(60 * time.Millisecond) // the person reads it again
			temp := filepath.Join(dir, ".task.json.swp")
			return errors.Join(os.WriteFile(temp, []byte(`{"status": "ready"}`), 0o644), os.Rename(temp, filepath.Join(dir, "task.json")))
		},
		"02-05-checked-out": func(dir string) error {
			if err := runnertest.Lay(dir, "ready"); err != nil {
				return err
			}
			w.Git("checkout", "-q", "-b", "side")
			return nil
		},
	}
	for id, make := range ways {
		if err := make(filepath.Join(tasks, id)); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
	}
	for id := range ways {
		w.Until(id+" in review", func() bool { return w.status(id) == trellis.Review })
	}
	for id, n := range w.Calls() {
		if n != 1 {
			t.Errorf("%s was worked on %d times", id, n)
		}
	}
}

// arrive moves a ready directory into the tasks after a file in it got this text: a watcher sees no other text.
func (w *world) arrive(dir, name, text string) {
	w.Helper()
	from := filepath.Join(w.Dir, "..", filepath.Base(dir))
	if err := errors.Join(runnertest.Lay(from, "ready"), os.WriteFile(filepath.Join(from, name), []byte(text), 0o644), os.Rename(from, dir)); err != nil {
		w.Fatal(err)
	}
}

// A broken directory is reported once, with its line, does not hold up other tasks, and runs after it is repaired.
func TestBrokenAndMended(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	tasks := w.Site.Store.Tasks()
	bad, torn := filepath.Join(tasks, "02-01-bad"), filepath.Join(tasks, "02-02-torn")
	w.arrive(bad, "check.jsonl", "{\"file\": \"../secret\", \"reason\": \"x\"}\n")
	w.arrive(torn, "task.json", "{\n  \"status\": ready\n}\n")
	if err := runnertest.Lay(filepath.Join(tasks, "02-03-good"), "ready"); err != nil {
		t.Fatal(err)
	}
	w.Until("the good one in review", func() bool { return w.status("02-03-good") == trellis.Review })
	w.Until("the reports", func() bool { return w.Heard("02-01-bad/check.jsonl:1") > 0 && w.Heard("02-02-torn/task.json:2:") > 0 })
	for range 3 { // checked again, not reported again
		if err := os.Chtimes(filepath.Join(bad, "prd.md"), time.Now(), time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(torn, "task.json"), []byte("{\"status\": \"ready\"}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(bad, "check.jsonl"), []byte(runnertest.RowText), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"02-01-bad", "02-02-torn"} {
		w.Until(id+" in review", func() bool { return w.status(id) == trellis.Review })
	}
	if n := w.Heard("02-01-bad/check.jsonl:1"); n != 1 {
		t.Errorf("the broken row was reported %d times: %q", n, w.Said)
	}
}

func TestWatchRescansWithoutEvents(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{Poll: true, Rescan: 20 * time.Millisecond})
	if err := runnertest.Lay(filepath.Join(w.Site.Store.Tasks(), "02-01-polled"), "ready"); err != nil {
		t.Fatal(err)
	}
	w.Until("the task in review", func() bool { return w.status("02-01-polled") == trellis.Review })
}

func TestOneWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	_, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour, Begun: func() { t.Error("a second watcher began") }})
	var held *durable.HeldError
	if !errors.As(err, &held) || held.Holder.PID != os.Getpid() {
		t.Errorf("got %v", err)
	}
}

// Start leaves its task to the running watcher and follows it.
func TestStartHandsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.watching(scheduler.WatchOptions{})
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-mine")
	if err := runnertest.Lay(dir, "planning"); err != nil {
		t.Fatal(err)
	}
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
	if n := w.Calls()["02-01-mine"]; n != 1 {
		t.Errorf("it was worked on %d times", n)
	}
}

// A task waits until its dependency is merged. A failed dependency leaves the task waiting, with the reason.
func TestDependencies(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	tasks := w.Site.Store.Tasks()
	for id, text := range map[string]string{
		"02-01-first": `{"status": "ready", "priority": "P3"}`, "02-02-second": `{"status": "ready", "priority": "P0", "pipeline": {"depends_on": ["02-01-first"]}}`,
		"02-03-third": `{"status": "ready", "pipeline": {"depends_on": ["02-04-failed"]}}`, "02-04-failed": `{"status": "failed"}`,
	} {
		if err := errors.Join(runnertest.Lay(filepath.Join(tasks, id), "ready"), os.WriteFile(filepath.Join(tasks, id, "task.json"), []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	w.Site.Config.DependsOnMerged = true
	for range 2 {
		if _, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour}); err != nil {
			t.Fatal(err)
		}
		if w.Heard("waits for 02-01-first to be merged (it is in review)") == 0 {
			t.Errorf("said %q", w.Said)
		}
		if got := w.status("02-02-second"); got == trellis.Waiting {
			w.Git("merge", "-q", "feature/first")
		}
	}
	for id, want := range map[string]trellis.Status{"02-01-first": trellis.Review, "02-02-second": trellis.Review, "02-03-third": trellis.Waiting} {
		if got := w.status(id); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	if w.Git("show", "feature/second:notes.txt") != "02-01-first\n02-02-second" {
		t.Error("the second did not build on the first")
	}
	if w.Heard("02-04-failed, which is failed") != 2 {
		t.Errorf("said %q", w.Said)
	}
	if got := strings.Fields(w.Read("../calls.log")); strings.Join(got, " ") != "02-01-first 02-02-second" {
		t.Errorf("worked on %q", got)
	}
}

// A stopped task is not resumed by a watcher, but by trellis start.
func TestStopThenStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"test -f $TRELLIS_REPO/../go || { touch $TRELLIS_REPO/../begun; sleep 3000; }\", \"", 1))
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-sleepy")
	if err := runnertest.Lay(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	ended := make(chan runner.Result)
	go func() {
		res, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
		if err != nil {
			t.Error(err)
		}
		ended <- res
	}()
	w.Until("the agent at work", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "..", "begun")); return err == nil })
	if err := w.Site.Orders().Stop(dir); err != nil {
		t.Fatal(err)
	}
	<-ended
	if _, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour}); err != nil || w.status("02-01-sleepy") != trellis.Paused {
		t.Fatalf("a watcher made it %s, %v", w.status("02-01-sleepy"), err)
	}
	w.Write("../go", "")
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}

// An error that occurs once is retried and not returned at the end. An error that stays is returned, and the other tasks have their
// results.
func TestPassingErrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	for _, id := range []string{"02-01-passes", "02-02-good"} {
		if err := runnertest.Lay(filepath.Join(w.Site.Store.Tasks(), id), "ready"); err != nil {
			t.Fatal(err)
		}
	}
	full := errors.New("the disk is full")
	var failed, always atomic.Bool
	w.Site.Disk = &durable.Disk{Fault: func(_, path string) error {
		if strings.Contains(path, "02-01-passes") && filepath.Base(path) == "journal.jsonl" && (always.Load() || failed.CompareAndSwap(false, true)) {
			return full
		}
		return nil
	}}
	all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour})
	if err != nil || len(all) != 2 || all[0].Status != trellis.Review || all[1].Status != trellis.Review || w.Heard("the disk is full") != 1 {
		t.Errorf("got %+v, %v, said %q", all, err, w.Said)
	}
	always.Store(true)
	if err := w.Site.Orders().Cancel(filepath.Join(w.Site.Store.Tasks(), "02-01-passes")); err != nil {
		t.Fatal(err)
	}
	w.Edit(filepath.Join(w.Site.Store.Tasks(), "02-01-passes"), `"cancelled"`, `"ready"`)
	if err := os.RemoveAll(filepath.Join(w.Site.Store.Tasks(), "02-01-passes", "run")); err != nil {
		t.Fatal(err)
	}
	w.Git("branch", "-m", "feature/passes", "elsewhere")
	if err := runnertest.Lay(filepath.Join(w.Site.Store.Tasks(), "02-03-other"), "ready"); err != nil {
		t.Fatal(err)
	}
	all, err = scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 2, Rescan: time.Hour})
	if !errors.Is(err, full) || len(all) != 2 || all[1].Status != trellis.Review || w.Heard("the disk is full") != 2 {
		t.Errorf("got %+v, %v, said %q", all, err, w.Said)
	}
}

// A task.json that can't be read is a result without a status.
func TestUnreadableTask(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-torn")
	if err := errors.Join(runnertest.Lay(dir, "ready"), os.WriteFile(filepath.Join(dir, "task.json"), []byte("{"), 0o644)); err != nil {
		t.Fatal(err)
	}
	all, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Hour})
	if err != nil || len(all) != 1 || all[0].Status != "" {
		t.Errorf("got %+v, %v", all, err)
	}
}

// If task.json disappears with a checkout, or becomes invalid, the run sleeps and no new task.json is made. The run resumes when task.json
// is back.
func TestTaskJSONGoesAway(t *testing.T) {
	t.Parallel()
	slow := strings.Replace(runnertest.Quickly, "run: [\"", "run: [\"touch $TRELLIS_REPO/../begun; while ! test -f $TRELLIS_REPO/../go; do sleep 0.05; done\", \"", 1)
	for name, c := range map[string]struct{ break_, mend func(w *world, dir string) }{
		"checked out": {func(w *world, dir string) { w.Git("checkout", "-q", "main") }, func(w *world, dir string) { w.Git("checkout", "-q", "tasks") }},
		"broken": {func(w *world, dir string) {
			w.Write(".trellis/tasks/02-01-x/task.json", "{\n  \"status\": in_progress\n}\n")
		},
			func(w *world, dir string) {
				w.Write(".trellis/tasks/02-01-x/task.json", "{\"status\": \"in_progress\"}\n")
			}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, slow)
			dir := filepath.Join(w.Site.Store.Tasks(), "02-01-x")
			w.Git("checkout", "-q", "-b", "tasks")
			if err := runnertest.Lay(dir, "planning"); err != nil {
				t.Fatal(err)
			}
			w.Git("add", "-A")
			w.Git("commit", "-q", "-m", "a task")
			w.watching(scheduler.WatchOptions{Rescan: 200 * time.Millisecond})
			w.Edit(dir, `"planning"`, `"ready"`)
			w.Until("the agent at work", func() bool { _, err := os.Stat(filepath.Join(w.Dir, "..", "begun")); return err == nil })
			w.Git("commit", "-q", "-a", "-m", "as it stands")
			c.break_(w, dir)
			w.Write("../go", "")
			w.Until("a word about it", func() bool { return w.Heard("02-01-x/task.json") > 0 })
			w.Until("the run to sleep", func() bool { _, held := runner.Held(dir); return !held })
			if name == "checked out" {
				if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 || entries[0].Name() != "run" {
					t.Errorf("in the directory that is gone: %v, %v", entries, err)
				}
			}
			c.mend(w, dir)
			w.Until("the task in review", func() bool { return w.status("02-01-x") == trellis.Review })
		})
	}
}
