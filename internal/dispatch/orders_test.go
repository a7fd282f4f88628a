package dispatch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/trellis-tasks/trellis/internal/dispatch"
	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A watcher takes up a task at once that is retried beside it, although it looks while the order still holds it.
func TestRetryBesideAWatcher(t *testing.T) {
	t.Parallel()
	w := newWorld(t, strings.Replace(quickly, "implement: [{run:", "implement: [{fail: {code: agent_auth, detail: no}}, {run:", 1))
	w.watching(dispatch.WatchOptions{Rescan: time.Hour})
	dir := filepath.Join(w.Site.Store.Tasks(), "02-01-again")
	if err := lay(dir, "ready"); err != nil {
		t.Fatal(err)
	}
	w.until("the failure", func() bool { _, held := w.Site.Held(dir); return w.status("02-01-again") == trellis.Failed && !held })
	orderer, err := newSite(w.Dir, os.Environ())
	if err != nil {
		t.Fatal(err)
	}
	orderer.Disk = &durable.Disk{Fault: func(step, path string) error { // the watcher has seen the status, the order is not done
		if step == "syncdir" && filepath.Base(path) == "02-01-again" {
			time.Sleep(300 * time.Millisecond)
		}
		return nil
	}}
	orderer.Store.Disk = orderer.Disk
	if err := orderer.Retry(context.Background(), dir, false, dispatch.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	w.until("the task in review", func() bool { return w.status("02-01-again") == trellis.Review })
}

// A retry that is cut off between the run it begins and the status can be given again, and counts once.
func TestRetryCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{files: {greet.sh: \"echo Bye\\n\"}, answer: done}]\n  check: [{answer: fine}]\n  debug: [{answer: hm}]\n  "+met+"\n")
	dir := w.hand("02-01-bye", lyingPRD)
	w.start(dir)
	cut := errors.New("the power is gone")
	w.Site.Store.Disk = &durable.Disk{Fault: func(_, path string) error {
		if strings.HasPrefix(path, dir) && filepath.Dir(path) == filepath.Clean(dir) {
			return cut
		}
		return nil
	}}
	if err := w.Site.Retry(context.Background(), dir, false, dispatch.RunOptions{}); !errors.Is(err, cut) {
		t.Fatalf("got %v", err)
	}
	w.Site.Store.Disk = nil
	if got := w.task(dir).Status; got != trellis.Failed {
		t.Fatalf("it is %s", got)
	}
	if err := w.Site.Retry(context.Background(), dir, false, dispatch.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := w.read(".trellis/tasks/02-01-bye/run/journal.jsonl"); !strings.Contains(got, `"retries":1`) {
		t.Errorf("the journal begins %.400s", got)
	}
	w.write(".trellis/rehearsal.yaml", working)
	if res := w.start(dir); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}
