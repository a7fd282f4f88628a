package runner_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/planner"
	"github.com/trellis-tasks/trellis/internal/runner"
	"github.com/trellis-tasks/trellis/internal/runner/runnertest"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// begunByNewer begins a run in the journal of dir, as the next version of Trellis would.
func begunByNewer(t *testing.T, dir, flow string, code int) {
	t.Helper()
	j, err := journal.Open(journal.Options{Dir: filepath.Join(dir, taskdir.Run), Build: "v9.0.0"})
	if err == nil {
		err = errors.Join(j.Begin(journal.Spec{Run: filepath.Base(dir) + "/1", Flow: flow, Code: code + 1, Input: fmt.Appendf(nil, `{"code": %d}`, code+1)}), j.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A run that a newer Trellis began is not ended by this one, whatever the task's status: whoever starts it or asks for the next command is
// told to upgrade.
func TestRunOfANewerVersion(t *testing.T) {
	t.Parallel()
	w := newWorld(t, runnertest.Working)
	for _, status := range []trellis.Status{trellis.InProgress, trellis.Paused, trellis.Waiting} {
		dir := w.Hand("02-01-"+string(status[:2]), runnertest.ProvenPRD)
		begunByNewer(t, dir, pipeline.Flow, pipeline.Code)
		w.Edit(dir, `"ready"`, `"`+string(status)+`"`)
		_, err := w.Site.Starter().Start(t.Context(), dir, runner.RunOptions{})
		var refused *runner.RefusedError
		var not *runner.NotReadyError
		switch {
		case errors.As(err, &refused) && refused.Hint == "trellis upgrade":
		case errors.As(err, &not) && not.Problems[0].Hint == "trellis upgrade":
		default:
			t.Errorf("%s: start: got %v", status, err)
		}
		if _, err := w.Site.TaskRunner().Run(t.Context(), dir, runner.RunOptions{}, nil); !errors.As(err, &refused) {
			t.Errorf("%s: run: got %v", status, err)
		}
		h, err := journal.Read(filepath.Join(dir, taskdir.Run))
		if err != nil || h.Ended {
			t.Errorf("%s: the run has ended: %+v, %v", status, h, err)
		}
		if got := w.Task(dir).Status; got != status {
			t.Errorf("%s became %s", status, got)
		}
		if next, err := w.Site.Assessor().Next(t.Context(), dir); next != "trellis upgrade" || err != nil {
			t.Errorf("%s: next: got %s, %v", status, next, err)
		}
	}
	dir := w.Hand("02-01-planned", runnertest.ProvenPRD)
	begunByNewer(t, dir, planner.Flow, planner.Code)
	w.Edit(dir, `"ready"`, `"planning"`)
	var refused *runner.RefusedError
	if _, err := w.Site.PlanRunner().Replan(t.Context(), dir, runner.PlanOptions{}); !errors.As(err, &refused) || refused.Hint != "trellis upgrade" {
		t.Errorf("planning: got %v", err)
	}
}
