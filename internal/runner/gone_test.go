package runner_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/taskdir"
)

// If a person renames or removes a directory during its run or planning, the error says so, with a hint.
func TestDirectoryThatGoesAway(t *testing.T) {
	t.Parallel()
	for name, away := range map[string]func(dir string) error{
		"renamed": func(dir string) error { return os.Rename(dir, filepath.Join(filepath.Dir(dir), "away")) },
		"removed": os.RemoveAll,
	} {
		w := newWorld(t, runnertest.Quickly)
		dir := w.Ready("02-01-bye")[0]
		w.Site.Config.Verify = []string{"true"}
		w.Site.Event = leaves(t, dir, away)
		_, err := w.Site.Starter().Start(context.Background(), dir, runner.RunOptions{})
		var not *runner.NotReadyError
		if !errors.As(err, &not) || !strings.Contains(not.Problems[0].Message, "was removed or renamed") || !strings.Contains(not.Problems[0].Hint, "trellis start 02-01-bye") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	w := newWorld(t, rejecting)
	res, err := w.Plan("pay", "take payments")
	if err != nil {
		t.Fatal(err)
	}
	w.Site.Event = leaves(t, res.Dir, os.RemoveAll)
	_, err = w.Site.PlanRunner().Replan(context.Background(), res.Dir, runner.PlanOptions{Requirement: "take euros"})
	var refused *runner.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(refused.Why, "was removed or renamed") || !strings.Contains(refused.Hint, "trellis plan --retry "+filepath.Base(res.Dir)) {
		t.Errorf("planned again: got %v", err)
	}
}

// leaves removes a directory by away after its journal has begun.
func leaves(t *testing.T, dir string, away func(string) error) func(runner.Event) {
	return func(e runner.Event) {
		if _, err := os.Stat(filepath.Join(dir, taskdir.Run, "journal.jsonl")); err != nil || e.State == nil && e.Asked == nil && e.Told == nil {
			return
		}
		if err := away(dir); err != nil {
			t.Error(err)
		}
	}
}
