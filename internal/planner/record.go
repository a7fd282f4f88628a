package planner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/taskdir"
)

// record is task.json and what belongs to its status.
type record struct {
	files
	repo  *git.Repo
	store taskdir.Store
	final string
	now   func() time.Time
}

func (r record) update(change func(*taskdir.Task, *taskdir.Edit) error) (int64, error) {
	t, err := r.store.Update(r.dir, change)
	if err != nil {
		return 0, err
	}
	return t.Pipeline.Revision, nil
}

// requirement returns the text that is planned. A person may have removed it meanwhile.
func (r record) requirement() ([]byte, error) {
	text, err := taskdir.ReadFile(r.dir, taskdir.Requirement)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, flow.Fail(string(trellis.InvalidTask), "%s/%s is gone, and it says what is to be planned", r.relative(), taskdir.Requirement)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the requirement: %w", err)
	}
	return text, nil
}

// relative returns the path of the published task directory, as people type it.
func (r record) relative() string {
	rel, err := filepath.Rel(r.repo.Main, r.final)
	if err != nil {
		return r.final
	}
	return filepath.ToSlash(rel)
}

const finish flow.Act[finishIn, int64] = "finish"

type finishIn struct {
	Status trellis.Status `json:"status"`
	Usage  trellis.Usage  `json:"usage"`
}

// finish sets the status, and the hash of the content that a person approves. If people decided on a plan of the task before, it
// counts that they are asked again.
func (r record) finish(_ context.Context, _ flow.Call, in finishIn) (int64, error) {
	return r.update(func(t *taskdir.Task, e *taskdir.Edit) error {
		if t.Status == trellis.Planning { // else an interrupted attempt did it
			decided, err := r.hasDecisions()
			if err != nil {
				return err
			}
			if decided {
				t.Pipeline.Approval.Asked++
				e.Set("pipeline.approval", t.Pipeline.Approval)
			}
		}
		hash, err := taskdir.PlanHash(r.dir, t)
		if err != nil {
			return err
		}
		e.Set("pipeline.plan_hash", hash)
		e.Set("pipeline.usage", in.Usage)
		e.Set("pipeline.outcome", "")
		e.Set("pipeline.failure", taskdir.Failure{})
		e.Set("status", in.Status)
		return nil
	})
}

// hasDecisions reports whether anybody approved or rejected a plan of the task.
func (r record) hasDecisions() (bool, error) {
	list, _, err := proof.Read(r.dir) // a broken line is not a decision; validate reports it
	return slices.ContainsFunc(list, func(a proof.Approval) bool { return a.Step == "" }), err
}

const giveUp flow.Act[giveUpIn, int64] = "give-up"

type giveUpIn struct {
	Failure *flow.Failure `json:"failure"`
	Usage   trellis.Usage `json:"usage"`
}

// giveUp records why the planning failed. The status stays planning.
func (r record) giveUp(_ context.Context, _ flow.Call, in giveUpIn) (int64, error) {
	fail := in.Failure
	return r.update(func(_ *taskdir.Task, e *taskdir.Edit) error {
		e.Set("pipeline.usage", in.Usage)
		e.Set("pipeline.failure", taskdir.Failure{Code: trellis.Code(fail.Code), Detail: fail.Detail, Retryable: fail.Retryable, At: r.now()})
		return nil
	})
}
