package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/events"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A watcher reports an ignored field of a task once, although it checks the task again.
func TestWatcherSaysOnceWhatIsPassedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Hand("02-01-waits", runnertest.PrdText)
	odd := "\"priorty\": \"P1\", \"pipeline\": {\"approval\": {\"required\": true}}}"
	w.Write(".trellis/tasks/02-01-waits/task.json", "{\"status\": \"ready\", "+odd)
	w.watching(scheduler.WatchOptions{})
	const said = "\"priorty\" is not a field, and is ignored\nnext: did you mean: priority"
	w.Until("the warning", func() bool { return w.Heard(said) > 0 })
	w.Write(".trellis/tasks/02-01-waits/task.json", "{\"status\": \"ready\",\n\"notes\": \"x\", \"assigne\": \"me\", "+odd)
	w.Until("another warning", func() bool { return w.Heard("did you mean: assignee") > 0 })
	if n := w.Heard(said); n != 1 {
		t.Errorf("it was said %d times: %q", n, w.Said)
	}
}

// A watcher reports once which tasks are queued, and each run's outcome at its end. When nothing runs, it reports since when it is idle and
// what the other tasks wait for.
func TestWatcherTellsWhatItDoesNotRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Site.Config.Verify = []string{"sh test.sh", "test -e notes.txt"}
	w.Site.Config.Baseline = "false"
	for n := range 4 {
		w.Hand(fmt.Sprintf("02-01-now-%d", n), runnertest.PrdText)
	}
	w.Hand("02-02-asks", runnertest.PrdText)
	w.Write(".trellis/tasks/02-02-asks/task.json", `{"status": "ready", "pipeline": {"approval": {"required": true}}}`)
	var ended []events.Event
	var last runner.WatchState
	checks, say := 0, w.Site.Event
	w.Site.Event = func(e runner.Event) {
		say(e)
		w.Mu.Lock()
		defer w.Mu.Unlock()
		switch {
		case e.Watch != nil:
			last = *e.Watch
		case e.Told != nil && e.Told.Kind == events.Ended:
			ended = append(ended, *e.Told)
			if e.Ended == nil || e.Ended.Status != e.Told.Outcome.Status {
				t.Errorf("%s ended as %+v", e.Task, e.Ended)
			}
		case e.Told != nil && e.Told.Kind == events.Checked && e.Told.Phase == "verify":
			if checks++; e.Told.Check.Of != 2 || e.Told.Check.Failed() {
				t.Errorf("%s: checked %+v", e.Task, e.Told.Check)
			}
		}
	}
	w.watching(scheduler.WatchOptions{})
	w.Until("nothing to do", func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return len(ended) == 4 && !last.Idle.IsZero()
	})
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if len(last.Waits) != 1 || last.Waits[0].Task != "02-02-asks" || last.Waits[0].Wait.For != "approval" || last.Waits[0].Wait.Next != "trellis approve 02-02-asks" {
		t.Errorf("told of waits %+v", last.Waits)
	}
	if said := last.Words(); !strings.HasSuffix(said, ": 1 waiting for approval") || !strings.HasPrefix(said, "idle since ") {
		t.Errorf("said %q", said)
	}
	for _, e := range ended {
		if o := e.Outcome; o.Status != trellis.Review || o.Commit == "" || o.Stat == "" || o.Met != 1 || o.Criteria != 1 || o.Worktree == "" || o.Next != "trellis diff "+e.Task {
			t.Errorf("%s ended with %+v", e.Task, o)
		}
	}
	if checks != 8 {
		t.Errorf("told of %d checks, want 8", checks)
	}
	for n, said := range w.Said {
		if strings.Contains(said, "is queued (") && strings.Contains(strings.Join(w.Said[n+1:], "\n"), said) {
			t.Errorf("said twice: %s", said)
		}
	}
	// The number depends on how quickly the first two tasks are done.
	if queued := strings.Count(strings.Join(w.Said, "\n"), " is queued (2 of 2 slots busy)"); queued > 2 {
		t.Errorf("%d tasks were queued, want at most 2: %q", queued, w.Said)
	}
}

// The time since when a watcher is idle stays the same over many heartbeats.
func TestWatcherKeepsSinceWhenItIsIdle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Quickly)
	w.Hand("02-01-asks", runnertest.PrdText)
	w.Write(".trellis/tasks/02-01-asks/task.json", `{"status": "ready", "pipeline": {"approval": {"required": true}}}`)
	var told []string
	say := w.Site.Event
	w.Site.Event = func(e runner.Event) {
		say(e)
		w.Mu.Lock()
		defer w.Mu.Unlock()
		if e.Watch != nil && (len(told) > 0 || !e.Watch.Idle.IsZero()) {
			told = append(told, e.Watch.Idle.Format(time.RFC3339Nano))
		}
	}
	w.watching(scheduler.WatchOptions{Rescan: 100 * time.Millisecond})
	w.Until("some beats", func() bool {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		return len(told) > 3
	})
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if len(slices.Compact(told)) != 1 {
		t.Errorf("idle since %v", told)
	}
}
