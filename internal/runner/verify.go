package runner

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/journal"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/internal/pipeline"
	"github.com/trellis-tasks/trellis/internal/proof"
	"github.com/trellis-tasks/trellis/internal/trellis"
	"github.com/trellis-tasks/trellis/internal/workflow"
	"github.com/trellis-tasks/trellis/taskdir"
)

// VerifyFile compares the proofs of a file's run with everything that exists of the run.
func VerifyFile(dir string) (*proof.Report, error) {
	h, err := journal.Read(filepath.Join(dir, taskdir.Run))
	if err != nil {
		return nil, err
	}
	_, b, err := frozenFile(dir, h)
	if err != nil {
		return nil, err
	}
	w := expectedFileState(dir, h, b)
	w.Run = durable.Below(filepath.Join(dir, taskdir.Run), durable.MaxJournal)
	return proof.Verify(dir, w)
}

// VerifyTask compares the proofs of a task with its plan, its branch and everything else that exists of the task.
func VerifyTask(ctx context.Context, store taskdir.Store, refs git.Refs, dir string) (*proof.Report, error) {
	t, err := store.Load(dir)
	if err != nil {
		return nil, err
	}
	w := proof.ExpectedState{Task: filepath.Base(dir)}
	if err := addRuns(dir, &w); err != nil {
		return nil, err
	}
	if err := addPlan(store, dir, &w); err != nil {
		return nil, err
	}
	w.Delivered = w.Plan != "" && (t.Status == trellis.Review || t.Status == trellis.Completed) && t.Commit != ""
	if w.Delivered {
		if w.Commit, err = refs.Branch(ctx, t.BranchName()); err == nil && w.Commit != "" {
			w.Tree, err = refs.TreeAt(ctx, w.Commit)
		}
		if err != nil {
			return nil, err
		}
	}
	return proof.Verify(dir, w)
}

// addPlan adds the current plan to w. A plan that can't be read counts as different from the one that was proven.
func addPlan(store taskdir.Store, dir string, w *proof.ExpectedState) error {
	data, err := taskdir.ReadOptional(dir, taskdir.Plan)
	if data == nil {
		return err
	}
	w.Plan = pipeline.FileDigest(data)
	if b, err := pipeline.LoadPlan(store, dir); err == nil {
		w.Steps = workflow.ProofSteps(b)
	}
	return nil
}

// addRuns adds what the journals of a task say to w. Without run/ nothing is known of them, which is not an error.
func addRuns(dir string, w *proof.ExpectedState) error {
	run := filepath.Join(dir, taskdir.Run)
	h, err := journal.Read(run)
	switch {
	case errors.Is(err, journal.ErrNone):
		return nil
	case err != nil && !errors.Is(err, journal.ErrDamaged):
		return err
	}
	if w.Run = durable.Below(run, durable.MaxJournal); err != nil {
		return nil
	}
	var rep pipeline.Report
	if h.Flow == pipeline.Flow && h.Ended && json.Unmarshal(h.Out, &rep) == nil {
		w.Head = rep.Proofs
	}
	return nil
}
