package scheduler_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A finished task that a person or git sets back to ready, with or without its journal, is not run again.
func TestFinishedIsNotRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Counted())
	dir := w.Hand("02-01-bye", runnertest.ProvenPRD)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Fatalf("got %s, %v", res.Status, res.Failure)
	}
	before := w.Calls()
	for name, change := range map[string]func(){
		"set ready by hand": func() { w.Edit(dir, `"review"`, `"ready"`) },
		"taken back by git": func() { w.Write(".trellis/tasks/02-01-bye/task.json", `{"status": "ready"}`) },
		"without its journal": func() {
			w.Edit(dir, `"review"`, `"ready"`)
			if err := os.RemoveAll(filepath.Join(dir, "run")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		saved, journal := w.Read(".trellis/tasks/02-01-bye/task.json"), w.Read(".trellis/tasks/02-01-bye/run/journal.jsonl")
		change()
		res, err := scheduler.Watch(context.Background(), w.Site, scheduler.WatchOptions{Once: true, Parallel: 1, Rescan: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if after := w.Calls(); after["implement"] != before["implement"] {
			t.Errorf("%s: it was run again: %+v", name, res)
		}
		if !strings.Contains(strings.Join(w.Said, "\n"), "trellis retry 02-01-bye") {
			t.Errorf("%s: said %q", name, w.Said)
		}
		w.Said = nil
		w.Write(".trellis/tasks/02-01-bye/task.json", saved)
		w.Write(".trellis/tasks/02-01-bye/run/journal.jsonl", journal)
	}
}
