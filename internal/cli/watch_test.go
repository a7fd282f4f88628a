package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/cli/command"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/pulse"
)

// A second watcher names the one that runs, and does not watch.
func TestSecondWatcher(t *testing.T) {
	a := runs(t, "", "")
	if err := os.MkdirAll(filepath.Dir(pulse.Lock(a.Dir)), 0o755); err != nil {
		t.Fatal(err)
	}
	since := time.Date(2026, 2, 3, 12, 0, 0, 0, time.Local)
	lock, err := durable.TryLock(pulse.Lock(a.Dir), durable.Holder{PID: 7, Host: "there", Since: since})
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Unlock()
	const want = "another watcher runs here: process 7 on there, since 2026-02-03 12:00:00\ntrellis: next: trellis status\n"
	for _, args := range [][]string{{"watch", "--once"}, {"watch", "--once", "--log-level", "info"}, {"watch"}} {
		if code, out, said := a.try(args...); code != command.ExitLocked || out != "" || said != "trellis: "+want {
			t.Errorf("%v: got exit %d: %s%s", args, code, out, said)
		}
	}
}

// A task that may not start yet waits, and does not count as one that can't run.
func TestWatchOnceBeforeItsTime(t *testing.T) {
	a := runs(t, "", "")
	row := `{"file": "steps.yaml", "reason": "it is there"}` + "\n"
	for name, text := range map[string]string{"prd.md": "# Notes\n\n## Acceptance Criteria\n\n- [ ] notes\n", "implement.jsonl": row, "check.jsonl": row,
		"task.json": `{"status": "ready", "pipeline": {"not_before": "2126-02-03T12:00:00Z"}}`} {
		path := filepath.Join(a.Dir, ".trellis", "tasks", "02-01-later", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	code, _, said := a.try("watch", "--once")
	if code != command.ExitWaiting || !strings.Contains(said, " watching .trellis/tasks, ") {
		t.Errorf("got exit %d: %s", code, said)
	}
	if err := os.Remove(filepath.Join(a.Dir, ".trellis", "tasks", "02-01-later", "prd.md")); err != nil {
		t.Fatal(err)
	}
	if code, _, said := a.try("watch", "--once"); code != command.ExitUnmet {
		t.Errorf("one that is not ready: got exit %d: %s", code, said)
	}
}

// watch --once with nothing to run says so, and names the next step.
func TestWatchOnceFindsNothing(t *testing.T) {
	a := runs(t, "", "")
	if code, _, said := a.try("watch", "--once"); code != command.ExitDone || !strings.HasSuffix(said, "trellis: no task is ready to run; next: trellis status\n") {
		t.Errorf("got exit %d: %s", code, said)
	}
}
