package runner

import (
	"encoding/json"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/pipeline/bases"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// Result is where a task stood when this process stopped working on it.
type Result struct {
	Dir         string
	Status      trellis.Status
	Outcome     trellis.Outcome
	Failure     *flow.Failure // set if the run failed or was paused by a budget
	Report      pipeline.Report
	Warnings    []trellis.Problem // shown by start before the task begins
	Waits       bases.Waits       // what a parked run, or a task that has not begun, waits for
	Until       time.Time         // when the wait is over; zero if unknown
	Interrupted bool              // this process was told to end; the run can be resumed later
	Progress    bool              // the run ended, or did some of its work
	Rollback    []string          // how to go back, as the plan says; set if the run failed
	Unheeded    bool              // a person asked for changes to the work in review, and it is the same as before
}

// taskState returns the Result of a task that this process does not run.
func taskState(store taskdir.Store, t *taskdir.Task) Result {
	r := Result{Dir: t.Dir, Status: t.Status, Outcome: t.Pipeline.Outcome}
	if t.Status == trellis.Paused {
		r.Until = t.Pipeline.ResumeAt
	}
	if c := t.Pipeline.Failure; c.Code != "" {
		r.Failure = &flow.Failure{Code: string(c.Code), Detail: c.Detail, Retryable: c.Retryable, At: c.At}
	}
	if p, err := pipeline.ReadPlan(store, t.Dir); t.Status == trellis.Failed && err == nil && p != nil {
		r.Rollback = p.Rollback
	}
	if t.Status == trellis.Review {
		r.addRunReport(t)
	}
	r.Report.Branch, r.Report.Base, r.Report.Stacked, r.Report.Worktree, r.Report.Commit, r.Report.Usage = t.Branch, t.Pipeline.BaseCommit, t.Pipeline.StackedOn, t.WorktreePath, t.Commit, t.Pipeline.Usage
	r.Report.Delivery.PRURL = t.PRURL
	return r
}

// addRunReport copies from the run of a task in review how its work was judged. The run does not know what was delivered after it.
func (r *Result) addRunReport(t *taskdir.Task) {
	h, err := journal.Read(filepath.Join(t.Dir, taskdir.Run))
	if err != nil {
		return
	}
	if p, err := pipeline.ReadProgress(h); err == nil && p.Report != nil {
		r.Report = pipeline.Report{Rounds: p.Report.Rounds, Executed: p.Report.Executed, Checks: p.Report.Checks, Criteria: p.Report.Criteria}
	}
	var in pipeline.Input
	err = json.Unmarshal(h.Input, &in)
	r.Unheeded = err == nil && in.Feedback != nil && in.Undelivered != nil && in.Undelivered.Commit == t.Commit
}
