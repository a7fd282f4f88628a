package runner_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
)

// A retry that is interrupted before it sets the status can be given again, and counts once.
func TestRetryCutOff(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "roles:\n  implement: [{files: {greet.sh: \"echo Bye\\n\"}, answer: done}]\n  check: [{answer: fine}]\n  debug: [{answer: hm}]\n  "+runnertest.Met+"\n")
	dir := w.Hand("02-01-bye", lyingPRD)
	w.Start(dir)
	cut := errors.New("the power is gone")
	w.Site.Store.Disk = &durable.Disk{Fault: func(_, path string) error {
		if strings.HasPrefix(path, dir) && filepath.Dir(path) == filepath.Clean(dir) {
			return cut
		}
		return nil
	}}
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); !errors.Is(err, cut) {
		t.Fatalf("got %v", err)
	}
	w.Site.Store.Disk = nil
	if got := w.Task(dir).Status; got != trellis.Failed {
		t.Fatalf("it is %s", got)
	}
	if err := w.Site.Orders().Retry(context.Background(), dir, false, runner.RunOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := w.Read(".trellis/tasks/02-01-bye/run/journal.jsonl"); !strings.Contains(got, `"retries":1`) {
		t.Errorf("the journal begins %.400s", got)
	}
	w.Write(".trellis/rehearsal.yaml", runnertest.Working)
	if res := w.Start(dir); res.Status != trellis.Review {
		t.Errorf("got %s, %v", res.Status, res.Failure)
	}
}
