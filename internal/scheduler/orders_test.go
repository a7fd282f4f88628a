package scheduler_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/scheduler"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A watcher begins a retried task at once, even if it notices the new status while the retry still holds the task's lock.
func TestRetryBesideAWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(runnertest.Quickly, "implement: [{run:", "implement: [{fail: {code: agent_auth, detail: no}}, {run:", 1))
	w.watching(scheduler.WatchOptions{Rescan: time.Hour})
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-again")
	if err := runnertest.Lay(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	w.Until("the failure", func() bool { _, held := runner.Held(dir); return w.status("02-01-again") == trellis.Failed && !held })
	orderer, err := runnertest.NewSite(w.Dir, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	orderer.Disk = &durable.Disk{Fault: func(step, path string) error { // the watcher has noticed the status, and the retry still holds the lock
		if step == "syncdir" && filepath.Base(path) == "02-01-again" {
			time.Sleep(300 * time.Millisecond)
		}
		return nil
	}}
	orderer.Store.Disk = orderer.Disk
	if err := orderer.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Until("the task in review", func() bool { return w.status("02-01-again") == trellis.Review })
}
