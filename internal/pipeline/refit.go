package pipeline

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/trellis-tasks/trellis/internal/durable"
	"github.com/trellis-tasks/trellis/internal/engine/flow"
	"github.com/trellis-tasks/trellis/internal/git"
	"github.com/trellis-tasks/trellis/taskdir"
)

// RefitFile is the file below run/ that says what holds for a brought worktree on this machine. Other machines are not given it.
const RefitFile = "refit.json"

// refitting names the folder of what a refit runs. It is no activity, and stands in no journal: each machine does it for itself.
const refitting = "refit"

// refitted is what holds for a worktree that was brought from another machine, in place of what [Prepared] says of the one there.
type refitted struct {
	Run         string            `json:"run"` // <task>/<run number>
	At          time.Time         `json:"at"`
	Made        git.WorktreeID    `json:"made"`
	Fingerprint map[string]string `json:"fingerprint"`
	Hooks       map[string]string `json:"hooks"`
	Borrowed    []string          `json:"borrowed"`
}

// Refit makes the worktree of a run that was brought from another machine one to work in: what git does not have is
// copied and set up again, and what the run knows it by is written down for whoever goes on with it here. A run that has no worktree yet needs
// none of it.
func (e *Effects) Refit(ctx context.Context, run string, at time.Time, p Progress) error {
	if p.Made == nil {
		return nil
	}
	job, pp := p.Claimed, e.preparer
	r := refitted{Run: run, At: at}
	var err error
	if r.Made, err = pp.repo.Worktrees().Identify(job.Worktree); err != nil {
		return e.guard.explain(err)
	}
	if _, err := pp.setup.copyFiles(ctx, job); err != nil {
		return err
	}
	if err := pp.setup.writePointer(job); err != nil {
		return err
	}
	if err := pp.refill(ctx, flow.Call{Run: run, ID: refitting, Attempt: 1}, job); err != nil {
		return err
	}
	if r.Hooks, err = pp.repo.Hooks().HookState(job.Worktree); err != nil {
		return err
	}
	if r.Borrowed, err = e.guard.beginObjects(nil); err != nil {
		return err
	}
	if r.Fingerprint, err = pp.environment.fingerprint(ctx, job); err != nil {
		return err
	}
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding how %s was refitted: %w", run, err)
	}
	return pp.task.disk.WriteFile(filepath.Join(pp.task.runDir, RefitFile), data, 0o600)
}

// refill sets a worktree up in which agents have worked: nothing of it is kept for others.
func (pp *preparer) refill(ctx context.Context, c flow.Call, j Job) error {
	if len(j.Setup.Warm) > 0 {
		if _, whole, err := pp.warm.give(ctx, j); err != nil || whole {
			return err
		}
	}
	return pp.setup.runCommands(ctx, c, j)
}

// Settle takes in what holds on this machine for a run whose worktree was brought. It comes after [Effects.LoadProgress].
func (e *Effects) Settle(run string, p Progress) error {
	data, err := durable.ReadBelow(e.preparer.task.runDir, RefitFile, durable.MaxDocument)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var r refitted
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", filepath.Join(taskdir.Run, RefitFile), err)
	}
	if r.Run != run || p.Made == nil {
		return nil
	}
	e.guard.Made(&r.Made)
	e.guard.Hooks(r.Hooks)
	e.guard.Objects(r.At, r.Borrowed)
	e.preparer.environment.refitted = r.Fingerprint
	return nil
}
