package runner_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
)

// After a run was stopped or interrupted, task.json has what its agents used, including the interrupted call. It counts once when the run
// resumes.
func TestUsageOfARunThatWasStopped(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world, dir string, interrupt func()) error{
		"stopped":     func(w *world, dir string, _ func()) error { return w.Site.Orders().Stop(dir) },
		"interrupted": func(_ *world, _ string, interrupt func()) error { interrupt(); return nil },
	} {
		w := newWorld(t, runnertest.Quickly)
		w.Program("events", fmt.Sprintf(runnertest.Spends, "0.5"))
		dir := w.Ready("02-01-a")[0]
		w.Write("../hang-02-01-a-implement", "")
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_, err := w.Site.Starter().Start(ctx, dir, runner.RunOptions{})
			ended <- err
		}()
		w.Until("the agent at work", func() bool {
			_, err := os.Stat(filepath.Join(dir, "run", "1", "implement#1", "1", "usage.json"))
			return err == nil
		})
		if err := end(w, dir, interrupt); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		interrupt()
		if used := w.Task(dir).Pipeline.Usage.Tokens(); used != 800 {
			t.Errorf("%s: task.json says %d tokens, want %d", name, used, 800)
		}
		if res := w.Start(dir); res.Report.Usage.Tokens() != 4*800 || w.Task(dir).Pipeline.Usage.Tokens() != 4*800 {
			t.Errorf("%s: %d tokens in the end, task.json says %d, want %d", name, res.Report.Usage.Tokens(), w.Task(dir).Pipeline.Usage.Tokens(), 4*800)
		}
	}
}
